package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/langimages"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

var (
	c      = []string{"c", "c11-gcc"}
	cpp    = []string{"cpp", "cpp20-gcc"}
	python = []string{"python", "python3"}
)

func profile(t testing.TB) *Profile {
	t.Helper()
	p, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// check checks a source and returns the report in full.
func check(t testing.TB, keys []string, source string) string {
	t.Helper()
	return strings.Join(profile(t).Check(keys, []byte(source)).Lines(), "\n")
}

func expect(t *testing.T, keys []string, source string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), check(t, keys, source)); diff != "" {
		t.Errorf("%s source %q (-want +got):\n%s", keys[0], source, diff)
	}
}

func TestTheProfileIsReadAndSaysWhichItIs(t *testing.T) {
	if p := profile(t); p.ID != "standard-io/default@1" || p.Version != 1 {
		t.Errorf("the profile is %q, version %d", p.ID, p.Version)
	}
}

func TestTheProfileHoldsExactlyTheRulesOfTheGoldenList(t *testing.T) {
	var raw struct {
		Languages map[string]struct {
			DeniedHeaders  []string `yaml:"deniedHeaders"`
			Groups         yaml.MapSlice
			DeniedImports  []string `yaml:"deniedImports"`
			DeniedBuiltins []string `yaml:"deniedBuiltins"`
			DeniedPatterns []string `yaml:"deniedPatterns"`
			NeverDenied    []string `yaml:"neverDenied"`
		}
	}
	if err := yaml.Unmarshal(standardIO, &raw); err != nil {
		t.Fatal(err)
	}
	same := func(what string, want, got []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-golden +profile):\n%s", what, diff)
		}
	}
	for _, language := range []string{"cpp", "c"} {
		section := raw.Languages[language]
		same(language+" headers", goldenHeaders, section.DeniedHeaders)
		same(language+" never denied", goldenNeverDeniedC, section.NeverDenied)
		if len(section.Groups) != len(goldenGroups) {
			t.Fatalf("%s has %d groups, want %d", language, len(section.Groups), len(goldenGroups))
		}
		for i, golden := range goldenGroups {
			group, _ := section.Groups[i].Value.(map[string]any)
			if section.Groups[i].Key != golden.id || group["name"] != golden.name || (group["default"] == "off") != golden.off {
				t.Errorf("%s: group %d is %v, want %s, %q", language, i+1, section.Groups[i], golden.id, golden.name)
			}
			same(fmt.Sprintf("%s identifiers of %s", language, golden.id), golden.identifiers, texts(group["identifiers"]))
			if got := len(texts(group["patterns"])); got != len(golden.patterns) {
				t.Errorf("%s: group %s has %d patterns, want %d", language, golden.id, got, len(golden.patterns))
			}
		}
	}
	same("imports", goldenImports, raw.Languages["python"].DeniedImports)
	same("builtins", goldenBuiltins, raw.Languages["python"].DeniedBuiltins)
	same("never denied in Python", goldenNeverDeniedPy, raw.Languages["python"].NeverDenied)
	if got := len(raw.Languages["python"].DeniedPatterns); got != len(goldenPythonPatterns) {
		t.Errorf("Python has %d patterns, want %d", got, len(goldenPythonPatterns))
	}
}

func texts(list any) []string {
	var all []string
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	return all
}

func TestRulesForRustAndJavaAreCarriedAndNeverApplied(t *testing.T) {
	var raw struct{ Languages map[string]map[string]any }
	if err := yaml.Unmarshal(standardIO, &raw); err != nil {
		t.Fatal(err)
	}
	for language, members := range goldenCarried {
		for member, want := range members {
			if diff := cmp.Diff(want, texts(raw.Languages[language][member])); diff != "" {
				t.Errorf("%s %s (-golden +profile):\n%s", language, member, diff)
			}
		}
		report := profile(t).Check([]string{language, language}, []byte("unsafe { std::fs::File } java.io.File Runtime.getRuntime"))
		if !report.Unchecked || report.Broken() {
			t.Errorf("%s: %+v", language, report)
		}
	}
	if _, ok := langimages.Default().Resolve("rust"); ok {
		t.Error("rust resolves: its rules must be applied now")
	}
	if _, ok := langimages.Default().Resolve("java"); ok {
		t.Error("java resolves: its rules must be applied now")
	}
}

func TestEveryDeniedHeaderIsCaughtInBothSpellings(t *testing.T) {
	for _, header := range goldenHeaders {
		name := strings.Replace(header, "*", "any/thing.h", 1)
		want := fmt.Sprintf("forbidden header <%s> — %s (line 2)", name, name)
		for _, keys := range [][]string{c, cpp} {
			expect(t, keys, "\n#include <"+name+">\n", want)
			expect(t, keys, "\n#include \""+name+"\"\n", want)
			expect(t, keys, "\n \t# \t include\t<"+name+">\n", want)
			expect(t, keys, "\r\n#include<"+name+"> // of course\r\n", want)
		}
		if !strings.Contains(header, "*") {
			expect(t, cpp, "#include <x"+name+">\n#include <"+name+"x>\n#include <x/"+name+">\n")
		}
		expect(t, cpp, "// #include <"+name+">\n/*\n#include <"+name+">\n*/\nconst char *s = \"\\\n#include <"+name+">\";\n")
	}
}

func TestEveryDeniedIdentifierIsCaughtAsAWholeWord(t *testing.T) {
	for _, group := range goldenGroups {
		for _, identifier := range group.identifiers {
			source := "int main() {\n  " + identifier + "(1);\n}\n"
			var want []string
			if !group.off {
				want = []string{fmt.Sprintf("%s — %s (line 2)", group.name, identifier)}
			}
			expect(t, c, source, want...)
			expect(t, cpp, source, want...)
			for _, other := range []string{"my" + identifier, identifier + "_count", "é" + identifier, identifier + "2x", strings.ToUpper(identifier)} {
				expect(t, cpp, other+"(1);")
			}
			expect(t, cpp, "// "+identifier+"\n/* "+identifier+"\n */ s = \""+identifier+"(\" \" \\\" "+identifier+"\"; c = '"+identifier+"';")
		}
	}
}

func TestEveryPatternIsCaughtWithAnySpacing(t *testing.T) {
	for _, group := range goldenGroups {
		for _, spellings := range group.patterns {
			for _, spelling := range spellings {
				report := profile(t).Check(cpp, []byte("\n"+spelling+" x;\n"))
				var hit *Violation
				for _, violation := range report.Violations {
					if violation.Rule == group.name && strings.ReplaceAll(violation.Matched, " ", "") == strings.ReplaceAll(spellings[0], " ", "") {
						hit = &violation
					}
				}
				if hit == nil || hit.Line != 2 {
					t.Errorf("%q: %q", spelling, report.Lines())
				}
				if commented := check(t, cpp, "// "+spellings[0]+"\n"); commented != "" {
					t.Errorf("%q in a comment: %s", spelling, commented)
				}
			}
		}
	}
}

func TestEveryDeniedImportIsCaughtInEveryFormOfTheStatement(t *testing.T) {
	for _, module := range goldenImports {
		for source, matched := range map[string]string{
			"\nimport " + module + "\n":              module,
			"\nfrom " + module + " import x\n":       module,
			"\nimport " + module + ".inner as x\n":   module + ".inner",
			"\n  import\t" + module + "\n":           module,
			"\nimport sys, " + module + "\n":         module,
			"\nimport sys as s," + module + " as x;": module,
			"\nx = 1; import " + module + "\n":       module,
			"\nif 1: import " + module + "\n":        module,
			"\ntry: from " + module + " import x\n":  module,
		} {
			expect(t, python, source, fmt.Sprintf("forbidden module %s — %s (line 2)", module, matched))
		}
		expect(t, python, "import x"+module+"\nimport "+module+"x, sys."+module+"\nfrom sys import "+module+"\n# import "+module+"\n'''\nimport "+module+"\n'''\n")
	}
}

func TestEveryDeniedBuiltinIsCaughtAsACall(t *testing.T) {
	for _, name := range goldenBuiltins {
		want := fmt.Sprintf("forbidden builtin %s — %s (line 2)", name, name)
		for _, call := range []string{name + "(x)", "print(" + name + " (x))", "y = -" + name + "\t(x)", "builtins." + name + "(x)", "__builtins__ . " + name + "(x)", "io." + name + "(x)"} {
			expect(t, python, "\n"+call+"\n", want)
		}
		for _, clean := range []string{
			name + " = 3", "my" + name + "(x)", name + "er(x)", "thing." + name + "(x)", "a[0]." + name + " (x)", "f()." + name + "(x)", "def " + name + "(x): pass",
			"class " + name + "(Base): pass", "self.io." + name + "(x)", "# " + name + "(x)", "print('" + name + "(x)')", "\"\"\"\n" + name + "(x)\n\"\"\"", "é" + name + "(x)",
			"myio." + name + "(x)",
		} {
			expect(t, python, clean+"\n")
		}
	}
}

func TestEveryPythonPatternIsCaught(t *testing.T) {
	for _, pattern := range goldenPythonPatterns {
		expect(t, python, "import sys\nx = "+pattern+"\n", fmt.Sprintf("forbidden call — %s (line 2)", pattern))
		expect(t, python, "x = '"+pattern+"' # "+pattern+"\n")
		expect(t, python, "x = "+strings.Replace(pattern, ".", "_", 1)+"\n")
	}
}

func TestWhatIsNeverDeniedIsClean(t *testing.T) {
	for _, word := range goldenNeverDeniedC {
		expect(t, c, word+"(x); std::"+word+"(x);")
		expect(t, cpp, word+"(x); std :: "+word+"(x);")
	}
	for _, word := range goldenNeverDeniedPy {
		expect(t, python, "import "+word+"\nfrom "+word+" import *\n"+word+"(x)\n"+word+".x\n")
	}
	expect(t, c, "#include <time.h>\n nanosleep(&a, &b);")
}

func TestEveryToolchainTripsARule(t *testing.T) {
	for _, toolchain := range langimages.Default().Offered() {
		source := "#include <unistd.h>\n"
		if toolchain.Family == "python" {
			source = "import os\n"
		}
		if report := profile(t).Check(toolchain.Keys(), []byte(source)); report.Total != 1 || report.Unchecked {
			t.Errorf("%s: %+v", toolchain.ID, report)
		}
	}
}
