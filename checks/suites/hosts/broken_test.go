//go:build guest

package hosts

import (
	"embed"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// said holds what `evalhost check` printed on each broken host when somebody last looked; docs/operator.md prints it.
//
//go:embed testdata/*.txt
var said embed.FS

func aBrokenHostIsFoundUnfitWithTheCauseAndTheCure(t *testing.T) {
	causes := causes[variant(t)]
	text := evalhost(t, nil, "check")
	if text.status != 4 || text.stderr != "" || !strings.HasSuffix(text.stdout, "this machine must not judge\n") {
		t.Errorf("check: status %d, standard error %q, standard output:\n%s", text.status, text.stderr, text.stdout)
	}
	answer := evalhost(t, nil, "check", "--json")
	fit, rows := answer.report(t)
	if answer.status != 4 || fit || answer.stderr != "" {
		t.Errorf("check --json: status %d, fit %t, standard error %q", answer.status, fit, answer.stderr)
	}
	var found []string
	for _, row := range rows {
		switch {
		case row.Status != "failed":
			continue
		case row.Because != "":
			if !slices.Contains(causes, row.Because) || row.Cure != "" {
				t.Errorf("%+v", row)
			}
			continue
		}
		found = append(found, row.ID)
		if row.Asked == "" || row.Found == "" || row.Why == "" || row.Cure == "" {
			t.Errorf("an operator is not told everything: %+v", row)
		}
		for _, words := range []string{"FAILED   " + row.ID, row.Asked, row.Found, row.Why, row.Cure} {
			if !strings.Contains(text.stdout, words) {
				t.Errorf("the text does not say %q:\n%s", words, text.stdout)
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, causes) {
		t.Errorf("the causes are %q, want %q:\n%s", found, causes, text.stdout)
	}
	if printed, err := said.ReadFile(path.Join("testdata", variant(t)+".txt")); err != nil || failures(string(printed)) != failures(text.stdout) {
		t.Errorf("docs/operator.md is stale: put this into checks/suites/hosts/testdata/%s.txt and into docs/operator.md (%v):\n%s", variant(t), err, text.stdout)
	}
}

// failures keeps of a text of the check what does not depend on the day: the lines of what failed.
func failures(text string) string {
	var kept []string
	failed := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "         "):
		default:
			failed = strings.HasPrefix(line, "FAILED")
		}
		if failed {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func aBrokenHostNeverGivesAVerdict(t *testing.T) {
	causes := causes[variant(t)]
	pkg := path.Join(examples, "sum")
	for _, args := range [][]string{
		{"judge", pkg, path.Join(pkg, "solutions/accepted/sum.c")},
		{"judge", "--json", pkg, path.Join(pkg, "solutions/accepted/sum.py")},
		{"judge", "--no-policy", "--keep", pkg, path.Join(pkg, "solutions/accepted/sum.cpp")},
		{"verify", pkg},
		{"verify", "--json", pkg},
	} {
		r := evalhost(t, nil, args...)
		r.wantsNoVerdict(t, 4)
		for _, words := range append([]string{"cure: ", "nothing was judged"}, causes...) {
			if !strings.Contains(r.stderr, words) {
				t.Errorf("%q does not say %q:\n%s", args, words, r.stderr)
			}
		}
	}
}

func aHostThatJudgesIsFoundFit(t *testing.T) {
	r := evalhost(t, nil, "check")
	if r.status != 0 || r.stderr != "" || strings.Contains(r.stdout, "FAILED") || !strings.Contains(r.stdout, ", 0 with a warning, ") ||
		!strings.HasSuffix(r.stdout, "this machine can judge\n") {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// The oldest Docker that is supported has one language here. It is judged in as anywhere, and what it does not have is
// refused by name.
func theOldestDockerJudgesWhatItHasAndRefusesWhatItHasNot(t *testing.T) {
	fit, rows := evalhost(t, nil, "check", "--json").report(t)
	var missing []string
	for _, row := range rows {
		if row.Status == "failed" {
			missing = append(missing, row.ID)
			if !strings.Contains(row.Cure, "docker load") {
				t.Errorf("%+v", row)
			}
		}
		if row.ID == "docker.version" && !strings.Contains(row.Found, "20.10") {
			t.Errorf("this Docker is no old one: %+v", row)
		}
	}
	slices.Sort(missing)
	if want := []string{"image.clang", "image.gcc", "image.pypy"}; fit || !slices.Equal(missing, want) {
		t.Errorf("fit %t, failed %q, want %q", fit, missing, want)
	}
	pkg := path.Join(examples, "sum")
	refused := evalhost(t, nil, "judge", pkg, path.Join(pkg, "solutions/accepted/sum.c"))
	refused.wantsNoVerdict(t, 4)
	if !strings.Contains(refused.stderr, "image.gcc") || !strings.Contains(refused.stderr, "docker load") {
		t.Errorf("it does not say why:\n%s", refused.stderr)
	}
	only := []string{"EVALHOST_MANIFEST=" + manifestOf(t, "cpython")}
	if r := evalhost(t, only, "check"); r.status != 0 {
		t.Errorf("with one language: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	for source, want := range map[string]string{
		path.Join(pkg, "solutions/accepted/sum.py"):     "verdict Accepted",
		writeFile(t, "wrong.py", "input()\nprint(1)\n"): "verdict Wrong answer",
	} {
		if r := evalhost(t, only, "judge", pkg, source); r.status != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: status %d\n%s%s", source, r.status, r.stdout, r.stderr)
		}
	}
}

// manifestOf writes a manifest with one of the languages of this host's.
func manifestOf(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile("/etc/evalhost/images.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Version int                        `json:"version"`
		Images  map[string]json.RawMessage `json:"images"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil || manifest.Images[key] == nil {
		t.Fatalf("no image %s: %v", key, err)
	}
	manifest.Images = map[string]json.RawMessage{key: manifest.Images[key]}
	if text, err = json.Marshal(manifest); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "images.json", string(text))
}
