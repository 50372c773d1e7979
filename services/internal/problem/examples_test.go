package problem_test

import (
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

const examplesDir = "../../../examples"

// answers computes what each example asks for, by other means than its solutions.
var answers = map[string]func(input []string) string{
	"sum": func(input []string) string {
		sum := new(big.Int)
		for _, word := range input[1:] {
			x, ok := new(big.Int).SetString(word, 10)
			if !ok {
				return "not a number: " + word
			}
			sum.Add(sum, x)
		}
		return sum.String() + "\n"
	},
	"squares": func(input []string) string {
		var n int64
		if _, err := fmt.Sscan(input[0], &n); err != nil {
			return err.Error()
		}
		var b strings.Builder
		square := new(big.Int)
		for i := int64(1); i <= n; i++ {
			b.WriteString(square.Mul(big.NewInt(i), big.NewInt(i)).String())
			b.WriteByte('\n')
		}
		return b.String()
	},
	"divisors": func(input []string) string {
		n, _ := new(big.Int).SetString(input[0], 10)
		count := int64(1)
		for prime := int64(2); n.Cmp(big.NewInt(1)) > 0; prime++ {
			exponent := int64(1)
			for rest := new(big.Int); ; exponent++ {
				quotient, _ := new(big.Int).QuoRem(n, big.NewInt(prime), rest)
				if rest.Sign() != 0 {
					break
				}
				n = quotient
			}
			count *= exponent
		}
		return fmt.Sprintln(count)
	},
	"tilings": func(input []string) string {
		var n int
		if _, err := fmt.Sscan(input[0], &n); err != nil {
			return err.Error()
		}
		a, b := big.NewInt(1), big.NewInt(1)
		for range n - 1 {
			a, b = b, a.Add(a, b)
		}
		return b.String() + "\n"
	},
	"vowels": func(input []string) string {
		return fmt.Sprintln(len(regexp.MustCompile("[aeiou]").FindAllString(strings.Join(input, " "), -1)))
	},
	// The checker takes other pairs too; this is the model answer.
	"pair": func(input []string) string {
		n, _ := new(big.Int).SetString(input[0], 10)
		half := new(big.Int).Quo(n, big.NewInt(2))
		return fmt.Sprintf("%s %s\n", half, n.Sub(n, half))
	},
	// An interactor has the answer.
	"guess": nil,
}

func openExample(t *testing.T, name string) *problem.Problem {
	t.Helper()
	p, err := problem.Open(t.Context(), filepath.Join(examplesDir, name), target(t), problem.Options{})
	must(t, err)
	return p
}

func TestEveryExampleOpensAndHasTheRightAnswers(t *testing.T) {
	entries, err := os.ReadDir(examplesDir)
	must(t, err)
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		answer, ok := answers[entry.Name()]
		if !ok {
			t.Errorf("nobody knows the answers of %s", entry.Name())
			continue
		}
		p := openExample(t, entry.Name())
		if _, found, err := problem.Lint(p.Dir, 100); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", entry.Name(), found, err)
		}
		if answer == nil {
			continue
		}
		for _, test := range p.Tests {
			input, err := p.TestInput(test)
			must(t, err)
			expected, err := p.TestExpected(test)
			must(t, err)
			in, out := readAll(t, input), readAll(t, expected)
			if want := answer(strings.Fields(in)); out != want {
				t.Errorf("%s, test %s: the expected output is %.40q, want %.40q", entry.Name(), test.Name, out, want)
			}
			words := strings.Fields(in)
			if entry.Name() == "sum" && words[0] != fmt.Sprint(len(words)-1) {
				t.Errorf("test %s announces %s numbers and has %d", test.Name, words[0], len(words)-1)
			}
		}
	}
}

func readAll(t *testing.T, file *os.File) string {
	t.Helper()
	content, err := io.ReadAll(file)
	must(t, err)
	must(t, file.Close())
	return string(content)
}

func TestTheExamplesShowEveryVerdictInEveryLanguageAndEveryKindOfProblem(t *testing.T) {
	verdicts, extensions, kinds, count := map[verdict.Verdict]bool{}, map[string]bool{}, map[string]bool{}, 0
	for name := range answers {
		p := openExample(t, name)
		solutions, err := p.LabelledSolutions()
		must(t, err)
		count += len(solutions)
		for kind, is := range map[string]bool{
			"checker": p.Checker != nil, "interactor": p.Interactor != nil, "answers": p.Type == problem.OutputOnly,
			"languages": len(p.Languages) > 0, "limits of a group": slices.ContainsFunc(p.Groups, func(g problem.Group) bool {
				return g.Limits != problem.PartialLimits{}
			}),
		} {
			kinds[kind] = kinds[kind] || is
		}
		for _, s := range solutions {
			verdicts[s.Want] = true
			if p.Type == problem.OutputOnly {
				continue
			}
			extensions[filepath.Ext(s.Path)] = true
			source, err := p.ReadSource(s.Path)
			must(t, err)
			if strings.Contains(string(source), "bits/stdc++.h") {
				t.Errorf("%s takes a minute to compile on a slow host", s.Path)
			}
		}
		for _, model := range p.ModelSolutions {
			if !slices.ContainsFunc(solutions, func(s problem.Labelled) bool {
				return s.Path == model.Path && s.Want == verdict.Accepted
			}) {
				t.Errorf("the model solution %s of %s is not among the accepted ones", model.Path, name)
			}
		}
	}
	if count < 16 || len(verdicts) != 9 || len(extensions) != 3 {
		t.Errorf("%d solutions, %v, %v", count, verdicts, extensions)
	}
	for kind, shown := range kinds {
		if !shown {
			t.Errorf("no example shows %s", kind)
		}
	}
}

// What a newcomer sees first are these two: each shows all that can become of a program (no program gets a part of its points
// there), and together they show every language.
func TestSumAndSquaresShowEveryLabelAndTogetherEveryLanguage(t *testing.T) {
	labels := []string{
		"accepted", "wrong_answer", "time_limit_exceeded", "memory_limit_exceeded", "output_limit_exceeded", "run_time_error",
		"compile_error", "policy_violation",
	}
	families := map[string]bool{}
	for _, name := range []string{"sum", "squares"} {
		p := openExample(t, name)
		solutions, err := p.LabelledSolutions()
		must(t, err)
		shown := map[string]bool{}
		for _, s := range solutions {
			shown[s.Label] = true
			if toolchain, ok := langimages.Default().ByExtension(s.Path); ok {
				families[toolchain.Family] = true
			}
		}
		for _, label := range labels {
			if !shown[label] {
				t.Errorf("no solution of %s is labelled %s", name, label)
			}
		}
	}
	for _, family := range []string{"c", "cpp", "python"} {
		if !families[family] {
			t.Errorf("no solution of sum or squares is in %s: there are %v", family, families)
		}
	}
}

func TestAnExampleBreaksTheSourceRulesIfItsLabelSaysSoAndNotOtherwise(t *testing.T) {
	rules, err := policy.Default()
	must(t, err)
	for name := range answers {
		p := openExample(t, name)
		if p.Type == problem.OutputOnly {
			continue
		}
		solutions, err := p.LabelledSolutions()
		must(t, err)
		for _, s := range solutions {
			toolchain, ok := langimages.Default().Resolve(s.Hint)
			if !ok {
				toolchain, ok = langimages.Default().ByExtension(s.Path)
			}
			if !ok || s.Hint != "" && toolchain.ID != s.Hint {
				t.Errorf("%s of %s names no toolchain", s.Path, name)
			}
			source, err := p.ReadSource(s.Path)
			must(t, err)
			lines := rules.Check(toolchain.Keys(), source).Lines()
			if broken := len(lines) > 0 || !toolchain.Allowed(p.Languages); broken != (s.Want == verdict.PolicyViolated) {
				t.Errorf("%s of %s: %q", s.Path, name, lines)
			}
		}
	}
}

func TestPythonHasTimeToStartOnASlowHostAndEndlessProgramsAreEndedSoon(t *testing.T) {
	for name := range answers {
		p := openExample(t, name)
		python, _ := langimages.Default().Resolve("python3")
		if p.Type == problem.OutputOnly || !python.Allowed(p.Languages) {
			continue
		}
		for _, test := range p.Tests {
			if limit := p.Limits("python", "python3", test.Group).Time; limit < 10*time.Second {
				t.Errorf("%s gives Python %v", name, limit)
			}
		}
	}
	if limit := openExample(t, "sum").Limits("c", "c23-gcc", 2).Time; limit > time.Second {
		t.Errorf("an endless program spins for %v", limit)
	}
}
