package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
)

// block is one fenced block of a document.
type block struct {
	line           int
	language, file string // file is named by a comment above
	text           string
}

var named = regexp.MustCompile(`^<!-- file: (\S+) -->$`)

func blocks(t *testing.T, path string) (list []block) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	file := ""
	for i, line := range strings.Split(string(content), "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &block{line: i + 1, language: strings.TrimPrefix(line, "```"), file: file}
			file = ""
		case open != nil && line == "```":
			list, open = append(list, *open), nil
		case open != nil:
			open.text += line + "\n"
		case named.MatchString(line):
			file = named.FindStringSubmatch(line)[1]
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: a block without an end", path, open.line)
	}
	return list
}

// Every block of the author's guide is a file of the tree, a configuration that is read, or a session that is played.
func TestWhatTheAuthorsGuideShowsIsTrue(t *testing.T) {
	const guide = "../../docs/author.md"
	dir := t.TempDir()
	t.Chdir(dir)
	root := func(path string) string { return filepath.Join(tree0, path) }
	sessions, files, configs := 0, 0, 0
	for _, b := range blocks(t, root(strings.TrimPrefix(guide, "../../"))) {
		where := "author.md:" + strconv.Itoa(b.line)
		switch {
		case b.file != "":
			files++
			if content, err := os.ReadFile(root(b.file)); err != nil || string(content) != b.text {
				t.Errorf("%s is not what %s holds (%v)", where, b.file, err)
			}
		case b.language == "yaml":
			configs++
			if _, err := problem.ParseConfig([]byte(b.text), problem.StandardIO); err != nil {
				t.Errorf("%s: %v", where, err)
			}
		case b.language == "console":
			sessions++
			play(t, where, b.text)
		case b.language != "text":
			t.Errorf("%s: a block in %q is neither a file nor played", where, b.language)
		}
	}
	if sessions < 5 || files < 3 || configs < 1 {
		t.Errorf("%d sessions, %d files and %d configurations: is this the guide?", sessions, files, configs)
	}
}

// tree0 is the root of the tree.
var tree0 = func() string {
	path, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return path
}()

// play runs the commands of a session and compares what they print. It ends with 0, or, with
// "; echo status $?" behind it, with what the last line shows. A line "…" stands for any part of the output that is not shown.
func play(t *testing.T, where, text string) {
	t.Helper()
	f := &fakeHost{t: t}
	for _, step := range strings.Split("\n"+text, "\n$ ")[1:] {
		command, shown, _ := strings.Cut(step, "\n")
		if shown != "" && !strings.HasSuffix(shown, "\n") {
			shown += "\n"
		}
		status := 0
		if asked, ok := strings.CutSuffix(command, "; echo status $?"); ok {
			command = asked
			at := strings.LastIndex("\n"+shown, "\nstatus ")
			if at < 0 {
				t.Errorf("%s: %s: no status is shown", where, command)
				continue
			}
			var err error
			if status, err = strconv.Atoi(strings.TrimSpace(shown[at+len("status "):])); err != nil {
				t.Errorf("%s: %s: %v", where, command, err)
				continue
			}
			shown = shown[:at]
		}
		words := strings.Fields(command)
		if words[0] == "mv" {
			if err := os.Rename(words[1], filepath.Join(words[2], filepath.Base(words[1]))); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			continue
		}
		r := f.command(words[1:]...)
		said := r.out + r.errout
		if words[0] != "evalhost" || r.status != status || !showsAs(said, shown) {
			t.Errorf("%s: %s: status %d, and it said\n%s", where, command, r.status, said)
		}
	}
}

// The guide names every label and every verdict of the tables.
func TestTheAuthorsGuideNamesEveryLabelAndKind(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(tree0, "docs/author.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := []string{
		"accepted", "partial", "wrong_answer", "time_limit_exceeded", "memory_limit_exceeded", "output_limit_exceeded",
		"run_time_error", "compile_error", "policy_violation", "evalhost trial", "evalhost toolchains", "evalhost check",
	}
	for _, word := range words {
		if !strings.Contains(string(content), word) {
			t.Errorf("the guide does not mention %s", word)
		}
	}
}

// showsAs tells whether an output is what is shown of it.
func showsAs(said, shown string) bool {
	parts := strings.Split(shown, "…\n")
	for i, part := range parts {
		at := strings.Index(said, part)
		if at < 0 || i == 0 && at > 0 || i == len(parts)-1 && !strings.HasSuffix(said, part) {
			return false
		}
		said = said[at+len(part):]
		if i == len(parts)-1 {
			return len(parts) > 1 || said == ""
		}
	}
	return true
}
