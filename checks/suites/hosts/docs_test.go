package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const operatorsPage = "../../../docs/operator.md"

func TestTheOperatorsPageShowsWhatTheCheckSaysOnEveryBrokenHost(t *testing.T) {
	page, err := os.ReadFile(operatorsPage)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "FAILED ") || !strings.HasSuffix(string(text), "this machine must not judge\n") {
			t.Errorf("%s is not what the check says on a broken host:\n%s", file, text)
		}
		if !strings.Contains(string(page), "\n```\n"+string(text)+"```\n") {
			t.Errorf("docs/operator.md does not show %s as it is", file)
		}
	}
}
