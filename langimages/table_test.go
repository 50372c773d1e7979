package langimages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The rows of spec/judging.md 3.1 and 3.2, written out a second time by hand: a row lost or changed in the table fails
// here.
var catalogue = []struct{ id, label, family, image, source, build, artifact, run string }{
	{"c89-gcc", "C89 / ANSI C (GCC)", "c", "gcc", "main.c", "mkdir -p /out && gcc -O2 -std=c89 -pedantic-errors -static -o /out/program /src/main.c", "program", "/program/program"},
	{"c89-clang", "C89 / ANSI C (Clang)", "c", "clang", "main.c", "mkdir -p /out && clang -O2 -std=c89 -pedantic-errors -static -o /out/program /src/main.c", "program", "/program/program"},
	{"c99-gcc", "C99 (GCC)", "c", "gcc", "main.c", "mkdir -p /out && gcc -O2 -std=c99 -static -o /out/program /src/main.c", "program", "/program/program"},
	{"c99-clang", "C99 (Clang)", "c", "clang", "main.c", "mkdir -p /out && clang -O2 -std=c99 -static -o /out/program /src/main.c", "program", "/program/program"},
	{"c11-gcc", "C11 (GCC)", "c", "gcc", "main.c", "mkdir -p /out && gcc -O2 -std=c11 -static -o /out/program /src/main.c", "program", "/program/program"},
	{"c11-clang", "C11 (Clang)", "c", "clang", "main.c", "mkdir -p /out && clang -O2 -std=c11 -static -o /out/program /src/main.c", "program", "/program/program"},
	{"c23-gcc", "C23 (GCC)", "c", "gcc", "main.c", "mkdir -p /out && gcc -O2 -std=c23 -static -o /out/program /src/main.c", "program", "/program/program"},
	{"c23-clang", "C23 (Clang)", "c", "clang", "main.c", "mkdir -p /out && clang -O2 -std=c23 -static -o /out/program /src/main.c", "program", "/program/program"},
	{"cpp11-gcc", "C++11 (GCC)", "cpp", "gcc", "main.cpp", "mkdir -p /out && g++ -O2 -std=c++11 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"cpp11-clang", "C++11 (Clang)", "cpp", "clang", "main.cpp", "mkdir -p /out && clang++ -O2 -std=c++11 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"cpp17-gcc", "C++17 (GCC)", "cpp", "gcc", "main.cpp", "mkdir -p /out && g++ -O2 -std=c++17 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"cpp17-clang", "C++17 (Clang)", "cpp", "clang", "main.cpp", "mkdir -p /out && clang++ -O2 -std=c++17 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"cpp20-gcc", "C++20 (GCC)", "cpp", "gcc", "main.cpp", "mkdir -p /out && g++ -O2 -std=c++20 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"cpp20-clang", "C++20 (Clang)", "cpp", "clang", "main.cpp", "mkdir -p /out && clang++ -O2 -std=c++20 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"cpp23-gcc", "C++23 (GCC)", "cpp", "gcc", "main.cpp", "mkdir -p /out && g++ -O2 -std=c++23 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"cpp23-clang", "C++23 (Clang)", "cpp", "clang", "main.cpp", "mkdir -p /out && clang++ -O2 -std=c++23 -static -o /out/program /src/main.cpp", "program", "/program/program"},
	{"python3", "Python 3 (CPython)", "python", "cpython", "main.py", "cp /src/main.py /out/program.py && python3 -m py_compile /out/program.py", "program.py", "python3 /program/program.py"},
	{"pypy3", "Python 3 (PyPy)", "python", "pypy", "main.py", "cp /src/main.py /out/program.py && pypy3 -m py_compile /out/program.py", "program.py", "pypy3 /program/program.py"},
}

func TestTheEighteenToolchainsAreOfferedInOrderExactlyAsSpecified(t *testing.T) {
	offered := Default().Offered()
	if len(offered) != len(catalogue) {
		t.Fatalf("%d toolchains are offered, want %d", len(offered), len(catalogue))
	}
	for i, want := range catalogue {
		got := offered[i]
		if got.ID != want.id || got.Label != want.label || got.Family != want.family || got.Image != want.image ||
			got.Source != want.source || got.Artifact != want.artifact {
			t.Errorf("row %d is %+v, want %+v", i+1, got, want)
		}
		if diff := cmp.Diff([]string{"/bin/sh", "-c", want.build}, got.Build); diff != "" {
			t.Errorf("%s: build command (-want +got):\n%s", want.id, diff)
		}
		if diff := cmp.Diff(strings.Fields(want.run), got.Run); diff != "" {
			t.Errorf("%s: start command (-want +got):\n%s", want.id, diff)
		}
	}
}

func TestEveryCompiledRowLinksStaticallyWithOptimisationAndEveryPythonRowCopiesBeforeCompiling(t *testing.T) {
	for _, row := range Default().Offered() {
		script := row.Build[2]
		if row.Family == "python" {
			if cp, compile := strings.Index(script, "cp "), strings.Index(script, "py_compile"); cp < 0 || compile < cp {
				t.Errorf("%s does not copy before it compiles: %s", row.ID, script)
			}
		} else if !strings.Contains(script, " -static ") || !strings.Contains(script, " -O2 ") {
			t.Errorf("%s lacks -static or -O2: %s", row.ID, script)
		}
		if !strings.Contains(script, "/src/"+row.Source) || !strings.Contains(script, "/out/"+row.Artifact) {
			t.Errorf("%s does not build its source name into its artifact: %s", row.ID, script)
		}
		for _, word := range slices.Concat(row.Build, row.Run, row.Versions) {
			if strings.ContainsAny(word, "${}%@<>`") {
				t.Errorf("%s: a placeholder survives in %q", row.ID, word)
			}
		}
	}
}

func TestEveryRowHasOneOfFourDistinctImagesWhoseSettingsAreKnown(t *testing.T) {
	want := []Image{
		{"gcc", "evalhost/lang-gcc:local", "AJ_Sandbox__Image__Gcc", []string{"AJ_Sandbox__Image__Cpp"}},
		{"clang", "evalhost/lang-clang:local", "AJ_Sandbox__Image__Clang", []string{}},
		{"cpython", "evalhost/lang-cpython:local", "AJ_Sandbox__Image__Python", []string{}},
		{"pypy", "evalhost/lang-pypy:local", "AJ_Sandbox__Image__Pypy", []string{}},
	}
	if diff := cmp.Diff(want, Default().Images()); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	used := map[string]bool{}
	for _, row := range Default().Offered() {
		used[row.Image] = true
	}
	if len(used) != 4 {
		t.Errorf("the rows use %d images, want 4", len(used))
	}
}

func TestEveryImageCanSayWhichCompilersItCarries(t *testing.T) {
	for key, want := range map[string]string{
		"gcc": "[[gcc --version] [g++ --version]]", "clang": "[[clang --version] [clang++ --version]]",
		"cpython": "[[python3 --version]]", "pypy": "[[pypy3 --version]]", "fpc": "[]",
	} {
		if got := fmt.Sprint(Default().VersionCommands(key)); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

func TestAliasesResolveAndAreNotOffered(t *testing.T) {
	for alias, want := range map[string]string{"cpp": "cpp20-gcc", "python": "python3", "pypy3": "pypy3", "c89-gcc": "c89-gcc"} {
		if got, ok := Default().Resolve(alias); !ok || got.ID != want {
			t.Errorf("%q resolves to %q (%v), want %q", alias, got.ID, ok, want)
		}
	}
	for _, row := range Default().Offered() {
		if row.ID == "cpp" || row.ID == "python" {
			t.Errorf("the alias %q is offered", row.ID)
		}
	}
}

func TestNothingElseResolves(t *testing.T) {
	for _, name := range []string{"java", "rust", "", "cpp17", "c", "c++", "CPP", "Python3", "cpp20-gcc ", " cpp", "cpp20", "gcc"} {
		if got, ok := Default().Resolve(name); ok {
			t.Errorf("%q resolves to %q", name, got.ID)
		}
	}
}

func TestKeysAreTheFamilyAndThenTheId(t *testing.T) {
	for name, want := range map[string][]string{
		"cpp": {"cpp", "cpp20-gcc"}, "pypy3": {"python", "pypy3"}, "c23-clang": {"c", "c23-clang"},
	} {
		row, _ := Default().Resolve(name)
		if diff := cmp.Diff(want, row.Keys()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAListOfLanguagesAllowsIdsAndFamiliesOfTheResolvedToolchain(t *testing.T) {
	cases := []struct {
		languages []string
		allowed   int
	}{
		{nil, 18},
		{[]string{}, 18},
		{[]string{"cpp"}, 8},
		{[]string{"c"}, 8},
		{[]string{"python"}, 2},
		{[]string{"python3", "pypy3"}, 2},
		{[]string{"python", "python3"}, 2},
		{[]string{"cpp20-gcc"}, 1},
		{[]string{"cpp17"}, 0},
		{[]string{"CPP"}, 0},
		{[]string{""}, 0},
	}
	for _, c := range cases {
		allowed := 0
		for _, row := range Default().Offered() {
			if row.Allowed(c.languages) {
				allowed++
			}
		}
		if allowed != c.allowed {
			t.Errorf("%q allows %d toolchains, want %d", c.languages, allowed, c.allowed)
		}
	}
}

func TestAnUploadedNameIsAcceptedByItsExtensionInAnyCase(t *testing.T) {
	cases := []struct {
		language, name string
		accepted       bool
	}{
		{"cpp17-gcc", "main.cpp", true},
		{"cpp17-gcc", "Main.CPP", true},
		{"cpp17-gcc", "a.cc", true},
		{"cpp17-gcc", "a.cxx", true},
		{"cpp17-gcc", "a.c++", true},
		{"cpp17-gcc", "a.C++", true},
		{"cpp17-gcc", "main.c", false},
		{"cpp17-gcc", "main.py", false},
		{"cpp17-gcc", "main", false},
		{"cpp17-gcc", "cpp", false},
		{"cpp17-gcc", "", false},
		{"c11-gcc", "main.c", true},
		{"c11-gcc", "MAIN.C", true},
		{"c11-gcc", "main.cpp", false},
		{"c11-gcc", "main.cc", false},
		{"pypy3", "solution.Py", true},
		{"pypy3", ".py", true},
		{"pypy3", "solution.pyc", false},
		{"pypy3", "solution.ſpy", false},
		{"pypy3", "žluťoučký kůň.py", true},
		{"python3", "main.cpp", false},
	}
	for _, c := range cases {
		row, _ := Default().Resolve(c.language)
		if got := row.AcceptsName(c.name); got != c.accepted {
			t.Errorf("%s accepts %q: %v, want %v", c.language, c.name, got, c.accepted)
		}
	}
}

func TestAFileNameSuggestsTheDefaultToolchainOfItsFamily(t *testing.T) {
	for name, want := range map[string]string{
		"a.c": "c11-gcc", "a.cpp": "cpp20-gcc", "a.CC": "cpp20-gcc", "a.c++": "cpp20-gcc", "x/y.py": "python3", "a.rs": "", "c": "", "": "",
	} {
		got, ok := Default().ByExtension(name)
		if got.ID != want || ok != (want != "") {
			t.Errorf("%q suggests %q (%v), want %q", name, got.ID, ok, want)
		}
	}
}

func TestAnAliasNamedLikeAFamilyMeansTheDefaultOfThatFamily(t *testing.T) {
	for _, family := range Default().Families() {
		if row, ok := Default().Resolve(family.ID); ok && row.ID != family.Default {
			t.Errorf("%q resolves to %q but an extension alone means %q", family.ID, row.ID, family.Default)
		}
	}
}

func TestOneOverriddenImageLeavesTheOthers(t *testing.T) {
	got, err := Default().Uses(map[string]string{"cpython": "registry.example/py:1", "gcc": ""})
	if err != nil {
		t.Fatal(err)
	}
	want := []Use{
		{"evalhost/lang-gcc:local", []string{"gcc"}},
		{"evalhost/lang-clang:local", []string{"clang"}},
		{"registry.example/py:1", []string{"cpython"}},
		{"evalhost/lang-pypy:local", []string{"pypy"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images in use (-want +got):\n%s", diff)
	}
}

func TestKeysSharingOneImageFormOneEntry(t *testing.T) {
	got, err := Default().Uses(map[string]string{"gcc": "one:1", "cpython": "one:1", "clang": "two:1", "pypy": "one:1"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Use{{"one:1", []string{"gcc", "cpython", "pypy"}}, {"two:1", []string{"clang"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images in use (-want +got):\n%s", diff)
	}
}

func TestAnImageKeyThatDoesNotExistIsRefusedByName(t *testing.T) {
	if _, err := Default().Uses(map[string]string{"python": "x:1"}); err == nil || !strings.Contains(err.Error(), `"python"`) {
		t.Errorf("got %v, want an error naming the key", err)
	}
}

func TestARestrictedTableOffersAndRequiresOnlyWhatItNames(t *testing.T) {
	less, err := Default().Restrict([]string{"python", "cpp20-gcc"})
	if err != nil {
		t.Fatal(err)
	}
	var ids, keys []string
	for _, row := range less.Offered() {
		ids = append(ids, row.ID)
	}
	for _, image := range less.Images() {
		keys = append(keys, image.Key)
	}
	if got := fmt.Sprint(ids, keys); got != "[cpp20-gcc python3 pypy3] [gcc cpython pypy]" {
		t.Errorf("restricted to %s", got)
	}
	for name, want := range map[string]bool{"cpp": true, "python": true, "cpp20-clang": false, "c11-gcc": false} {
		if _, ok := less.Resolve(name); ok != want {
			t.Errorf("%q resolves: %v, want %v", name, ok, want)
		}
	}
	if _, ok := less.ByExtension("a.c"); ok {
		t.Error("a C file suggests a toolchain that is not offered")
	}
	if _, err := less.Uses(map[string]string{"clang": "x:1"}); err != nil {
		t.Errorf("naming an image that is not needed is an error: %v", err)
	}
}

func TestARestrictionThatNamesNothingIsRefused(t *testing.T) {
	for _, entries := range [][]string{nil, {"cpp", "java"}, {"cpp17"}, {""}} {
		if _, err := Default().Restrict(entries); err == nil {
			t.Errorf("%q was accepted", entries)
		}
	}
}

func TestWhatIsHandedOutCanBeChangedWithoutChangingTheTable(t *testing.T) {
	Default().Offered()[0] = Toolchain{}
	Default().Images()[0] = Image{}
	Default().Families()[0] = Family{}
	if Default().Offered()[0].ID != "c89-gcc" || Default().Images()[0].Key != "gcc" || Default().Families()[0].ID != "c" {
		t.Error("the table changed")
	}
}

func TestTheEmbeddedTableIsTheFileThatNixReads(t *testing.T) {
	file, err := os.ReadFile("toolchains.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, document) {
		t.Error("toolchains.json differs from what is embedded")
	}
	if !json.Valid(file) {
		t.Error("toolchains.json is not JSON")
	}
}

func TestATableThatDoesNotHoldTogetherIsRefused(t *testing.T) {
	good := `{"version":1,
		"images":[{"key":"k","reference":"r:1","variable":"V","oldVariables":["W"]}],
		"families":[{"id":"f","extensions":[".x"],"default":"t"}],
		"aliases":{"f":"t"},
		"toolchains":[{"id":"t","label":"T","family":"f","image":"k","source":"main.x","build":["b"],"artifact":"a","run":["r"],"versions":["v"]}]}`
	if _, err := parse([]byte(good)); err != nil {
		t.Fatalf("the table the cases start from is refused: %v", err)
	}
	for _, c := range []struct{ name, old, new, message string }{
		{"another version", `"version":1`, `"version":2`, "version 2"},
		{"an unknown member", `"version":1`, `"version":1,"colour":"red"`, "colour"},
		{"an unknown member in a row", `"label":"T"`, `"label":"T","flags":[]`, "flags"},
		{"a member given twice", `"label":"T"`, `"label":"T","Label":"U"`, "twice"},
		{"something after the document", `"versions":["v"]}]}`, `"versions":["v"]}]} {}`, "follows"},
		{"a number for a text", `"label":"T"`, `"label":3`, "label"},
		{"a row without a label", `"label":"T"`, `"label":""`, "label"},
		{"a row without a build command", `"build":["b"]`, `"build":[]`, "command"},
		{"a row with an empty word", `"run":["r"]`, `"run":["r",""]`, "command"},
		{"a row of an unknown image", `"image":"k"`, `"image":"z"`, `"z"`},
		{"a row of an unknown family", `"family":"f"`, `"family":"z"`, `"z"`},
		{"a source name of another family", `"main.x"`, `"main.y"`, "main.y"},
		{"an alias of nothing", `"aliases":{"f":"t"}`, `"aliases":{"f":"z"}`, `"z"`},
		{"an alias that is an id", `"aliases":{"f":"t"}`, `"aliases":{"t":"t"}`, `"t"`},
		{"a default of nothing", `"default":"t"`, `"default":"z"`, `"z"`},
		{"an extension without its dot", `[".x"]`, `["x"]`, "extension"},
		{"an extension in capitals", `[".x"]`, `[".X",".x"]`, "extension"},
		{"an extension twice", `[".x"]`, `[".x",".x"]`, "extension"},
		{"an image without a reference", `"reference":"r:1"`, `"reference":""`, "reference"},
		{"a setting of two images", `["W"]`, `["V"]`, `"V"`},
		{"no toolchain", `"toolchains":[`, `"toolchains":[],"t":[`, "t"},
		{"an unfinished document", `"versions":["v"]}]}`, `"versions":["v"]}]`, "EOF"},
	} {
		changed := strings.Replace(good, c.old, c.new, 1)
		if changed == good {
			t.Fatalf("%s: the case changes nothing", c.name)
		}
		if _, err := parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.message)
		}
	}
	for _, empty := range []string{"", "null", "[]", "{}", `{"version":1}`} {
		if _, err := parse([]byte(empty)); err == nil {
			t.Errorf("%q was accepted", empty)
		}
	}
}

// TestEveryImageIsMadeWithItsEnvironment: one list, for the images made of Debian packages and for those made with Nix. Python that is not
// told to write at once loses what a program printed before it was ended (3.6).
func TestEveryImageIsMadeWithItsEnvironment(t *testing.T) {
	text, err := os.ReadFile("build/images.json")
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Images map[string]struct {
			Env []string `json:"env"`
		} `json:"images"`
	}
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	python := []string{"PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"}
	want := map[string][]string{"gcc": {}, "clang": {}, "cpython": python, "pypy": python}
	got := map[string][]string{}
	for key, image := range made.Images {
		got[key] = image.Env
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environments (-want +got):\n%s", diff)
	}
	for _, image := range Default().Images() {
		if _, ok := made.Images[image.Key]; !ok {
			t.Errorf("nothing says how the image %s is made", image.Key)
		}
	}
}
