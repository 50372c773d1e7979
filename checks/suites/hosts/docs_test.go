package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const operatorsPage = "../../../docs/operator.md"

// causes are, for each host that must refuse, the requirements that it is broken in. What only follows from one is listed by the
// check as not asked.
var causes = map[string][]string{
	"legacy":     {"cgroup.unified"},
	"hybrid":     {"cgroup.unified"},
	"unconfined": {"container.seccomp", "docker.seccomp"}, // what the daemon says, and what is seen inside
	"nopids":     {"cgroup.controllers"},
}

func TestTheOperatorsPageShowsWhatTheCheckSaysOnEveryBrokenHost(t *testing.T) {
	page, err := os.ReadFile(operatorsPage)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(causes) {
		t.Errorf("%d broken hosts, and what these printed: %q, %v", len(causes), files, err)
	}
	for host, ids := range causes {
		file := filepath.Join("testdata", host+".txt")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("nobody wrote down what the check says on the host %s: %v", host, err)
			continue
		}
		for _, id := range ids {
			if !strings.Contains("\n"+string(text), "\nFAILED   "+id) {
				t.Errorf("%s does not name the cause %s", file, id)
			}
		}
		if !strings.Contains(string(text), "FAILED ") || !strings.HasSuffix(string(text), "this machine must not judge\n") {
			t.Errorf("%s is not what the check says on a broken host:\n%s", file, text)
		}
		if !strings.Contains(string(page), "\n```\n"+string(text)+"```\n") {
			t.Errorf("docs/operator.md does not show %s as it is", file)
		}
	}
}
