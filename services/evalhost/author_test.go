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

// play runs the commands of a session and compares what they print. "status N" first says how a command ends; then what is
// shown must be a part of its output, and without it all of its output.
func play(t *testing.T, where, text string) {
	t.Helper()
	f := &fakeHost{t: t}
	for _, step := range strings.Split("\n"+text, "\n$ ")[1:] {
		command, shown, _ := strings.Cut(step, "\n")
		if shown != "" && !strings.HasSuffix(shown, "\n") {
			shown += "\n"
		}
		words := strings.Fields(command)
		if words[0] == "mv" {
			if err := os.Rename(words[1], filepath.Join(words[2], filepath.Base(words[1]))); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			continue
		}
		r := f.command(words[1:]...)
		status, part := 0, false
		if rest, ok := strings.CutPrefix(shown, "status "); ok {
			number, rest, _ := strings.Cut(rest, "\n")
			status, _ = strconv.Atoi(number)
			shown, part = rest, true
		}
		said := r.out + r.errout
		if words[0] != "evalhost" || r.status != status || part && !strings.Contains(said, shown) || !part && said != shown {
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
