package problem_test

import (
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
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
}

func openExample(t *testing.T, name string) *problem.Problem {
	t.Helper()
	p, err := problem.Open(t.Context(), filepath.Join(examplesDir, name), target(t), problem.Options{Type: problem.StandardIO})
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
		if warnings, err := p.Lint(); err != nil || len(warnings) > 0 || p.MaxScore() != 100 {
			t.Errorf("%s: %v, %v, %d points", entry.Name(), warnings, err, p.MaxScore())
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

func TestTheExamplesShowEveryVerdictThatPlainComparisonCanGiveInEveryLanguage(t *testing.T) {
	verdicts, extensions, count := map[verdict.Verdict]bool{}, map[string]bool{}, 0
	for name := range answers {
		p := openExample(t, name)
		solutions, err := p.LabelledSolutions()
		must(t, err)
		count += len(solutions)
		for _, s := range solutions {
			verdicts[s.Want] = true
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
	// Partial needs a judging program that gives a part of the points, and the examples have none.
	if count < 16 || len(verdicts) != 8 || verdicts[verdict.Partial] || len(extensions) != 3 {
		t.Errorf("%d solutions, %v, %v", count, verdicts, extensions)
	}
}

func TestAnExampleBreaksTheSourceRulesIfItsLabelSaysSoAndNotOtherwise(t *testing.T) {
	rules, err := policy.Default()
	must(t, err)
	for name := range answers {
		p := openExample(t, name)
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
			if lines := rules.Check(toolchain.Keys(), source).Lines(); (len(lines) > 0) != (s.Want == verdict.PolicyViolated) {
				t.Errorf("%s of %s: %q", s.Path, name, lines)
			}
		}
	}
}

func TestPythonHasTimeToStartOnASlowHostAndEndlessProgramsAreEndedSoon(t *testing.T) {
	for name := range answers {
		p := openExample(t, name)
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
