package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The flag empties the source rules, and says so on standard error, where it spoils no document.
func TestNoPolicyJudgesWhatTheSourceRulesForbidAndSaysSo(t *testing.T) {
	const said = "evalhost: the source rules were not applied (--no-policy)\n"
	pkg := tree(t, adder)
	source := filepath.Join(pkg, "solutions/policy_violation/sum.c")
	f := &fakeHost{t: t}
	judge := func(flags ...string) ended { return f.command(append([]string{"judge", pkg, source}, flags...)...) }

	if r := judge(); r.status != exitOK || !strings.HasSuffix(r.out, "\nverdict PolicyViolation\n") || f.runs != 0 || r.errout != "" {
		t.Errorf("with the source rules: status %d, %d runs, stdout and stderr\n%s\n%s", r.status, f.runs, r.out, r.errout)
	}
	if r := judge("--no-policy"); r.status != exitOK || !strings.HasSuffix(r.out, "\nscore 100 of 100\nverdict Accepted\n") || f.runs != 2 || r.errout != said {
		t.Errorf("without them: status %d, %d runs, stdout and stderr\n%s\n%s", r.status, f.runs, r.out, r.errout)
	}
	r := judge("--no-policy", "--json")
	var document struct {
		Score *float64 `json:"score"`
	}
	if err := json.Unmarshal([]byte(r.out), &document); err != nil || strings.Count(r.out, "\n") != 1 || document.Score == nil || *document.Score != 100 {
		t.Errorf("standard output is not the document alone (%v):\n%s", err, r.out)
	}
	if r.status != exitOK || r.errout != said {
		t.Errorf("status %d, and standard error is %q, want %q", r.status, r.errout, said)
	}
}

// zipped writes files into a package that is a zip.
func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, content := range files {
		member, err := w.Create(name)
		if err == nil {
			_, err = member.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "package.zip")
	if err := os.WriteFile(path, archive.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBadInputIsOneLineThatNamesItAndLeavesNothingBehind(t *testing.T) {
	good := map[string]string{
		"config.yml":  "type: standard-io@1\nlimits: { timeMs: 1000, memoryBytes: 1048576 }\ngroups: [ { group: 1, points: 100 } ]\n",
		"tests/1a.in": "1 2\n", "tests/1a.out": "3\n",
	}
	with := func(from, to string) map[string]string {
		files := map[string]string{}
		for name, content := range good {
			files[name] = strings.ReplaceAll(content, from, to)
		}
		return files
	}
	unknown, mistyped := with("memoryBytes: 1048576", "memoryKib: 1024"), with("timeMs: 1000", `timeMs: "1000"`)
	outside := with("groups:", "colour: red\ngroups:")
	sources := tree(t, map[string]string{"sum.c": "adds", "sum.xyz": "adds", "noext": "adds"})
	source := func(name string) string { return filepath.Join(sources, name) }
	missing := filepath.Join(sources, "nowhere")
	for name, c := range map[string]struct {
		pkg, source string
		flags       []string
		names       []string // what the line holds
	}{
		"a missing package":                            {missing, source("sum.c"), nil, []string{missing, "no such file"}},
		"a missing zip":                                {missing + ".zip", source("sum.c"), nil, []string{missing + ".zip", "no such file"}},
		"a package that is no zip":                     {source("sum.c"), source("sum.c"), nil, []string{source("sum.c"), "not a zip archive"}},
		"an unknown field in a directory":              {tree(t, unknown), source("sum.c"), nil, []string{"config.yml:2:", "limits.memoryKib"}},
		"an unknown field in a zip":                    {zipped(t, unknown), source("sum.c"), nil, []string{"package.zip", "config.yml:2:", "limits.memoryKib"}},
		"an unknown field of the top in a directory":   {tree(t, outside), source("sum.c"), nil, []string{"config.yml:3:", "colour"}},
		"an unknown field of the top in a zip":         {zipped(t, outside), source("sum.c"), nil, []string{"package.zip", "config.yml:3:", "colour"}},
		"a field of a wrong type in a directory":       {tree(t, mistyped), source("sum.c"), nil, []string{"config.yml:2:", "limits.timeMs"}},
		"a field of a wrong type in a zip":             {zipped(t, mistyped), source("sum.c"), nil, []string{"package.zip", "config.yml:2:", "limits.timeMs"}},
		"an unknown toolchain":                         {tree(t, good), source("sum.c"), []string{"--toolchain", "c12-gcc"}, []string{`"c12-gcc"`}},
		"an unknown toolchain and a zip":               {zipped(t, good), source("sum.c"), []string{"--toolchain", "c12-gcc"}, []string{`"c12-gcc"`}},
		"an extension of no toolchain":                 {tree(t, good), source("sum.xyz"), nil, []string{source("sum.xyz"), "names no language", "--toolchain"}},
		"an extension of no toolchain and a zip":       {zipped(t, good), source("sum.xyz"), nil, []string{source("sum.xyz"), "names no language"}},
		"a file without an extension":                  {tree(t, good), source("noext"), nil, []string{source("noext"), "names no language"}},
		"a name of two lines whose extension is no":    {tree(t, good), "sum\n.xyz", nil, []string{"names no language"}},
		"a toolchain of two lines that does not exist": {tree(t, good), source("sum.c"), []string{"--toolchain", "c11\ngcc"}, []string{`c11`}},
	} {
		t.Run(name, func(t *testing.T) {
			root, temporary := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", temporary)
			f := &fakeHost{t: t}
			var out, errout bytes.Buffer
			args := append([]string{"judge", c.pkg, c.source}, c.flags...)
			env := []string{"EVALHOST_SCRATCH=" + filepath.Join(root, "state", "scratch")}
			status := runOn(t.Context(), args, stdio{env, &out, &errout, f.open})
			if status != exitUsage || out.Len() > 0 {
				t.Errorf("status %d, and on standard output %q", status, &out)
			}
			line, rest, ended := strings.Cut(errout.String(), "\n")
			if !ended || rest != "" || !strings.HasPrefix(line, "evalhost: ") {
				t.Errorf("it is not told in one line: %q", &errout)
			}
			for _, name := range c.names {
				if !strings.Contains(line, name) {
					t.Errorf("it does not name %s: %s", name, line)
				}
			}
			if len(f.keys) > 0 || f.runs > 0 {
				t.Errorf("the machine was touched: images %q, %d runs", f.keys, f.runs)
			}
			for _, dir := range []string{root, temporary} {
				left, err := os.ReadDir(dir)
				if err != nil || len(left) > 0 {
					t.Errorf("left in %s: %v %v", dir, left, err)
				}
			}
		})
	}
}
