package langimages

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheShimIsGivenTheInputThenTheOutputThenTheStartCommand(t *testing.T) {
	row, _ := Default().Resolve("python")
	got := UnderShim("/usr/local/bin/aj-shim", "/aj-out/stdin", "/aj-out/stdout", row.Run)
	want := []string{"/bin/sh", "-c", "exec /usr/local/bin/aj-shim '/aj-out/stdin' '/aj-out/stdout' 'python3' '/program/program.py'"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

func TestAJudgedCommandHasExactlyOneExecAndNoCondition(t *testing.T) {
	for _, row := range Default().Offered() {
		line := UnderShim("/usr/local/bin/aj-shim", "/aj-out/stdin", "/aj-out/stdout", row.Run)[2]
		if strings.Count(line, "exec ") != 1 || !strings.HasPrefix(line, "exec ") || strings.ContainsAny(line, "&|;<>$") {
			t.Errorf("%s: %s", row.ID, line)
		}
	}
}

func TestQuotedWordsReachAShellUnchanged(t *testing.T) {
	words := []string{"plain", "", "two words", "it's", "''", `\`, `a"b`, "$HOME", "`id`", "a\nb", "*", "~", "ř"}
	if got, want := Quote("it's", ""), `'it'\''s' ''`; got != want {
		t.Errorf("quoted as %s, want %s", got, want)
	}
	if got := Quote(); got != "" {
		t.Errorf("no words are quoted as %q", got)
	}
	out, err := exec.Command("/bin/sh", "-c", "printf '%s\\0' "+Quote(words...)).Output()
	if err != nil {
		t.Skipf("no shell here to read the words back: %v", err)
	}
	if diff := cmp.Diff(words, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
}
