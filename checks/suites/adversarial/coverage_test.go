package adversarial

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// row is what every kind of attack has in common.
type row struct {
	name string
	kind kind
	from string
}

// rows are all attacks of the suite.
func rows() (all []row) {
	for _, probes := range [][]probe{fileProbes, kernelProbes, otherProbes, exhaustProbes, neighbourProbes} {
		for _, p := range probes {
			all = append(all, row{p.name, p.kind, p.from})
		}
	}
	for _, attacks := range [][]attack{memoryRuns, processorRuns, processRuns, outputRuns, fileRuns} {
		for _, a := range attacks {
			all = append(all, row{a.name, a.kind, a.from})
		}
	}
	for _, snippets := range [][]snippet{gccSnippets, clangSnippets} {
		for _, s := range snippets {
			all = append(all, row{s.name, s.kind, s.from})
		}
	}
	for _, builds := range [][]build{compilerBuilds, hijackedBuilds} {
		for _, b := range builds {
			all = append(all, row{b.name, b.kind, b.from})
		}
	}
	return all
}

var (
	fieldCase = regexp.MustCompile(`\bC\d\d\b`)
	leading   = regexp.MustCompile(`^(?:C\d\d )*`)
)

func TestThereAreAttacksOfEveryKind(t *testing.T) {
	number := map[kind]int{}
	for _, r := range rows() {
		number[r.kind]++
	}
	text, err := os.ReadFile("table_test.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)kind = "(.+)"$`).FindAllStringSubmatch(string(text), -1)
	if len(kinds) < 50 {
		t.Fatalf("%d kinds were found in table_test.go", len(kinds))
	}
	for _, k := range kinds {
		if number[kind(k[1])] == 0 {
			t.Errorf("there is no attack of the kind %q", k[1])
		}
		t.Logf("%4d %s", number[kind(k[1])], k[1])
	}
	if all := len(rows()); all < 100 {
		t.Errorf("%d attacks, want at least 100", all)
	}
}

func TestEveryAttackSaysWhatItIsAndWhatMustComeOfIt(t *testing.T) {
	seen := map[string]int{}
	for _, r := range rows() {
		if r.name == "" || r.kind == "" || r.from == "" {
			t.Errorf("%+v: a name, a kind and a source are needed", r)
		}
		// The number stays with the case in the test's name.
		if numbers := fieldCase.FindAllString(r.from, -1); leading.FindString(r.name) != strings.Join(append(numbers, ""), " ") {
			t.Errorf("%q comes from %s; the name must begin with the numbers of the field cases, and with no other", r.name, r.from)
		}
		seen[r.name]++
	}
	for name, n := range seen {
		if n > 1 {
			t.Errorf("%d attacks are called %q", n, name)
		}
	}
	for _, probes := range [][]probe{fileProbes, kernelProbes, otherProbes, exhaustProbes, neighbourProbes} {
		for _, p := range probes {
			control := p.control
			if control == "" {
				control = "ok"
			}
			if p.want == "" || p.nowhere == "" && oneOf(control, p.want) && p.kind != ordinary && p.want != "ok" {
				t.Errorf("%q: want %q and outside %q; they must differ, or it must be said why they do not", p.name, p.want, control)
			}
		}
	}
	for _, attacks := range [][]attack{memoryRuns, processorRuns, processRuns, outputRuns, fileRuns} {
		for _, a := range attacks {
			if a.want.stop == "" || len(a.words) == 0 || a.limit == (limit{}) {
				t.Errorf("%q: an outcome, words and limits are needed", a.name)
			}
		}
	}
	for _, builds := range [][]build{compilerBuilds, hijackedBuilds} {
		for _, b := range builds {
			if b.want.stop == "" == (b.want.refused == "") || b.toolchain == "" == (b.command == "") {
				t.Errorf("%q: an outcome or a refusal, and a toolchain or a command are needed", b.name)
			}
		}
	}
}

// The probes that the program tries are those of the table, in its order.
func TestTheProgramTriesWhatTheTableSays(t *testing.T) {
	tried := regexp.MustCompile(`(?m)^\t\{"([^"]+)", [a-z_0-9]+\},$`)
	for name, probes := range map[string][]probe{
		"files": fileProbes, "kernel": kernelProbes, "others": otherProbes, "exhaust": exhaustProbes, "neighbour": neighbourProbes,
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "programs", name+".h"))
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, m := range tried.FindAllStringSubmatch(string(text), -1) {
			got = append(got, m[1])
		}
		for _, p := range probes {
			want = append(want, p.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s.h tries %q, and the table says %q", name, got, want)
		}
	}
}

// section8 says for each case of spec/sandbox.md section 8 where it is shown: an attack of this suite, or a test beside
// what it is about.
var section8 = []struct{ number, attack, pkg, test string }{
	{"8.1 #1", "", "services/internal/sandbox", "TestAnOrdinaryRun"},
	{"8.1 #2", "a loop without end", "services/internal/sandbox", "TestWhatDoesNotEndIsStopped"},
	{"8.1 #3", "a sleep within the window", "", ""},
	{"8.1 #4", "fifteen children", "", ""},
	{"8.1 #5", "", "services/internal/sandbox", "TestMemoryIsTheKernelsWord"},
	{"8.1 #6", "", "services/internal/sandbox", "TestC16WhatADeadContainerLeftInTheCacheIsNotTheNextRuns"},
	{"8.1 #7", "heap", "", ""},
	{"8.1 #8", "", "services/internal/sandbox", "TestTwoLanesAtOnce"},
	{"8.1 #9", "shared memory file", "", ""},
	{"8.1 #10", "shared memory file", "", ""},
	{"8.1 #11", "create in /", "", ""},
	{"8.1 #12", "execute from shared memory", "services/internal/sandbox", "TestABuildsContainerIsClosed"},
	{"8.1 #13", "write the input by name", "", ""},
	{"8.1 #14", "connect to the Internet", "", ""},
	{"8.1 #15", "", "services/internal/sandbox", "TestTheDaemonIsAskedForExactlyThis"},
	{"8.1 #16", "", "services/internal/sandbox", "TestACheckerAcceptsRejectsAndCrashes"},
	{"8.1 #17", "output without end", "services/internal/sandbox", "TestABuildIsStopped"},
	{"8.1 #18", "C37 a burst and an immediate end", "", ""},
	{"8.1 #19", "C55 find a file in shared memory", "", ""},
	{"8.1 #20", "a byte beyond the largest file", "", ""},
	{"8.1 #21", "", "services/internal/sandbox", "TestASweepFindsWhatADeadOwnerLeft"},
	{"8.1 #22", "C47 an artefact beyond the largest file", "services/internal/sandbox", "TestTheCapOfAnArtefactIsExact"},
	{"8.1 #23", "a correct program", "services/internal/sandbox", "TestABuildAndARunOfWhatItMade"},
	{"8.1 #24", "read /etc/shadow", "", ""},
	{"8.1 #25", "make a block device", "services/internal/sandbox", "TestABuildsContainerIsClosed"},
	{"8.1 #26", "find a setuid program or one with capabilities", "", ""},
	{"8.1 #27", "run on other processors", "", ""},
	{"8.1 #28", "", "shim", "TestProcessorTimeIsThatOfTheProgram"},
	{"8.1 #29", "", "services/internal/sandbox", "TestAnOrdinaryRun"},
	{"8.1 #30", "survivors of five kinds", "", ""},
	{"8.1 #31, #32", "", "checks/suites/judging", "TestAMachineThatCannotJudgeGivesNoVerdict"},
	{"8.1 #33", "an orphan that nobody waits for", "", ""},
	{"8.1 #34", "setuid", "shim", "TestASubmissionThatTriesEverythingChangesNothing"},
	{"8.1 #35", "survivors of five kinds", "shim", "TestWorkInAnOrphanIsChargedAndAnEscapeeIsDeadBeforeTheReport"},
	{"8.1 #36", "within a limit of one mebibyte", "", ""},
	{"8.1 #37", "", "services/internal/sandbox", "TestAnImageThatDeclaresAVolumeIsRefused"},
	{"8.1 #37", "", "services/internal/sandbox", "TestAnImagesOwnEntryPointAndHealthCheckNeverRun"},
	{"8.1 #38", "", "services/internal/sandbox", "TestARunThatIsEndedDuringItsStartHasNoOutcomeAndLeavesNothing"},
	{"8.1 #39", "fifteen children", "", ""},
	{"8.1 #40", "", "services/internal/sandbox", "TestRunnersThatStartAtOnceDoNotDisturbEachOther"},
	{"8.2", "", "shim", "TestTheShimRefusesToRunWithoutWhatItNeeds"},
	{"8.3", "", "services/internal/sandbox", "TestWhenARunIsStoppedAndWhy"},
	{"8.3", "", "services/internal/sandbox", "TestTwoRunnersStartAtOnceTwoHundredTimes"},
	{"8.4", "", "services/internal/judge", "TestWhatAProgramDoesDecides"},
}

// fieldCases says the same for the field cases that a sandbox can meet and that no attack names as its source.
var fieldCases = []struct{ number, attack, pkg, test string }{
	{"C04", "", "services/internal/sandbox", "TestC04AMemoryKillNeedsNoReport"},
	{"C05", "", "services/internal/sandbox", "TestAHostThatRunsOutOfMemoryIsNoVerdict"},
	{"C07", "", "services/internal/hostcheck", "TestWhatIsNotMetIsNamedWithItsCure"},
	{"C13", "", "checks/suites/judging", "TestAMachineThatCannotJudgeGivesNoVerdict"},
	{"C23", "", "services/internal/sandbox", "TestC23TheDaemonsDelayIsNotTheProgramsTime"},
	{"C25", "", "services/internal/cgroup", "TestC25C65NamesOfRunsAreUniqueAndHaveNoDash"},
	{"C26", "", "services/internal/sandbox", "TestC26HowLanesAreDealt"},
	{"C31, C32", "", "services/internal/sandbox", "TestC32QueriesWithoutReadingAreNotADeadlock"},
	{"C34", "", "services/internal/sandbox", "TestC34AnEarlyExitDoesNotBreakTheInteractor"},
	{"C35", "", "services/internal/sandbox", "TestC35TheSubmissionsCommandIsPassedOnWordForWord"},
	{"C59", "", "services/internal/sandbox", "TestC59NoProfileLimitsTheProcessesOfAUser"},
	{"C61", "", "services/internal/sandbox", "TestHostileArchivesAreRefused"},
	{"C65", "", "services/internal/cgroup", "TestC25C65NamesOfRunsAreUniqueAndHaveNoDash"},
	{"C70", "be without a seccomp filter", "", ""},
	{"C71, C73", "", "services/internal/sandbox", "TestASweepFindsWhatADeadOwnerLeft"},
	{"C80", "", "services/internal/sandbox", "TestMemoryOutranksEveryOtherStop"},
}

// met are the field cases that a sandbox can meet; the others are about packages, servers, comparison and languages that
// are not offered.
var met = strings.Fields("C01 C02 C04 C05 C07 C08 C10 C13 C14 C16 C20 C22 C23 C25 C26 C31 C32 C34 C35 C37 C38 C41 C44 C47 C49 C50 C52 C53 C55 " +
	"C56 C58 C59 C61 C65 C68 C70 C71 C73 C76 C77 C80")

func TestEveryFieldCaseThatASandboxCanMeetIsSomewhere(t *testing.T) {
	for _, number := range met {
		named := slices.ContainsFunc(rows(), func(r row) bool { return strings.Contains(r.from, number) }) ||
			slices.ContainsFunc(fieldCases, func(c struct{ number, attack, pkg, test string }) bool { return strings.Contains(c.number, number) })
		if !named {
			t.Errorf("%s is nowhere", number)
		}
	}
}

func TestEveryCaseOfSection8IsSomewhere(t *testing.T) {
	all := rows()
	for _, c := range slices.Concat(section8, fieldCases) {
		if c.attack == "" && c.test == "" {
			t.Errorf("%s is nowhere", c.number)
		}
		if c.attack != "" && !slices.ContainsFunc(all, func(r row) bool { return r.name == c.attack }) {
			t.Errorf("%s is said to be the attack %q, and there is none", c.number, c.attack)
		}
		if c.test == "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join("..", "..", "..", c.pkg, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", c.pkg, err, len(files))
		}
		if !slices.ContainsFunc(files, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), "func "+c.test+"(")
		}) {
			t.Errorf("%s is said to be shown by %s of %s, and there is no such test", c.number, c.test, c.pkg)
		}
	}
}
