//go:build guest

package main

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// The guest suite runs the shim as PID 1 of real containers, on every runtime named by EVALHOST_TEST_RUNTIMES (default:
// crun,runc) and under the cgroup driver the daemon has. Each control is seen twice: the attack is stopped, and the host is as
// it was.

// where a container runs.
type where struct {
	driver  string
	runtime string
}

// onEveryRuntime runs a test once for each runtime.
func onEveryRuntime(t *testing.T, test func(t *testing.T, on where)) {
	t.Helper()
	info := askDaemon(t)
	names := os.Getenv("EVALHOST_TEST_RUNTIMES")
	if names == "" {
		names = "crun,runc"
	}
	for _, runtime := range strings.Split(names, ",") {
		t.Run(runtime+"/"+info.CgroupDriver, func(t *testing.T) {
			if _, isThere := info.Runtimes[runtime]; !isThere {
				t.Fatalf("the daemon has no runtime %q", runtime)
			}
			test(t, where{driver: info.CgroupDriver, runtime: runtime})
		})
	}
}

// answers reads the probe's lines `<attempt> <what came of it>`; the last of several wins.
func answers(output string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if at := strings.LastIndexByte(line, ' '); at > 0 {
			found[line[:at]] = line[at+1:]
		}
	}
	return found
}

func TestASubmissionThatTriesEverythingChangesNothing(t *testing.T) {
	onEveryRuntime(t, func(t *testing.T, on where) {
		r := order{program: "probe", memory: "16777216", fifo: true}.begin(t, on)
		r.awaitOutput("READY")
		box, err := r.home.box()
		must(t, err)
		before := lookFromOutside(t, r, box)
		r.say("go")
		r.awaitOutput("DONE")
		if after := lookFromOutside(t, r, box); after != before {
			t.Errorf("the attack changed the host:\n%s\nnow\n%s", before, after)
		}
		r.say("go")
		done := r.mustReport(7)
		if len(done.reading.Rest) != 0 || done.reading.Failure != "" {
			t.Errorf("more than the report came over its channel: %+v", done.reading)
		}
		checkAnswers(t, answers(done.output))
		checkSecrets(t, r, done.output)
	})
}

// lookFromOutside checks what the host sees of the submission and its box, and returns what must stay as it is.
func lookFromOutside(t *testing.T, r *run, box string) string {
	t.Helper()
	pids := strings.Fields(field(t, box+"/cgroup.procs", ""))
	if len(pids) != 1 {
		t.Fatalf("the box holds %q, want one process", pids)
	}
	status := field(t, "/proc/"+pids[0]+"/status", "")
	if err := inspectStatus(status, true); err != nil {
		t.Errorf("from outside: %v", err)
	}
	for name, want := range map[string]string{"CapInh": noCapability, "CapBnd": "00000000000000c0"} {
		if got, _ := statusField(status, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if executable, err := os.Readlink("/proc/" + pids[0] + "/exe"); err != nil || filepath.Base(executable) != "probe" {
		t.Errorf("the process in the box is %q, %v", executable, err)
	}
	for file, want := range map[string]string{
		"memory.max": "16777216", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": strconv.Itoa(wire.PidsMaxBox),
	} {
		if got := field(t, box+"/"+file, ""); got != want {
			t.Errorf("%s of the box is %q, want %q", file, got, want)
		}
	}
	shim := filepath.Dir(box) + "/shim/cgroup.procs"
	own := strings.Fields(field(t, shim, ""))
	if len(own) != 1 {
		t.Errorf("beside the box there are %q, want the shim alone", own)
	}
	// What the submission is refused to read would tell it nothing either.
	for _, pid := range slices.Concat(own, pids) {
		for _, file := range []string{"environ", "cmdline"} {
			text, err := os.ReadFile("/proc/" + pid + "/" + file)
			must(t, err)
			if strings.Contains(string(text), r.nonce) || len(text) == 0 && file == "cmdline" {
				t.Errorf("the %s of process %s reads %q", file, pid, text)
			}
		}
	}
	tasks, err := strconv.Atoi(field(t, filepath.Dir(shim)+"/pids.peak", ""))
	must(t, err)
	if most := wire.PidsLimitContainer - wire.PidsMaxBox; tasks > most {
		t.Errorf("the shim had %d tasks at once, the container has room for %d", tasks, most)
	}
	t.Logf("the shim had %d tasks at once", tasks)
	seen := []string{"box " + pids[0], "shim " + strings.Join(own, " ")}
	for _, dir := range []string{r.path("out"), r.path("program"), r.home.dir, filepath.Dir(box)} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, entry := range entries {
			if about, err := entry.Info(); err == nil && (entry.IsDir() || dir != r.home.dir && dir != filepath.Dir(box)) {
				seen = append(seen, filepath.Join(dir, entry.Name())+" "+about.Mode().String())
			}
		}
	}
	return strings.Join(seen, "\n")
}

func checkAnswers(t *testing.T, got map[string]string) {
	t.Helper()
	for attempt, want := range map[string]string{
		"setuid(0)": "EPERM", "setgid(0)": "EPERM", "setresuid(0)": "EPERM", "setgroups": "EPERM",
		"mount": "EPERM", "chroot": "EPERM",
		"kill shim": "EPERM", "terminate shim": "EPERM", "stop shim": "EPERM", "trace shim": "EPERM",
		"read shim's memory": "EPERM", "open shim's memory": "EACCES", "list shim's files": "EACCES",
		"open shim's executable": "EACCES", "open shim's root": "EACCES",
		"read the shim": "EACCES", "write the shim": "EACCES", "run the shim": "EACCES", "environ-of-1": "EACCES",
		"look into the box": "ENOENT", "write the host's cgroups": "EACCES",
		"open report": "EACCES", "open output": "EACCES", "read output": "EACCES", "open input": "EACCES",
		"re-open output": "EACCES", "re-open output as a descriptor": "EACCES",
		"make a file beside the channels": "EACCES", "remove a channel": "EACCES", "move a channel": "EACCES",
		"one fork more": "EAGAIN", "forks": strconv.Itoa(wire.PidsMaxBox - 1), "processes-seen": "2",
		"cgroup-files-opened": "0", "open-files": "3", "signals-touched": "0", "no-new-privileges": "1",
		"leads-its-group": "1",
	} {
		if got[attempt] != want {
			t.Errorf("%s: %q, want %q", attempt, got[attempt], want)
		}
	}
	if tried, _ := strconv.Atoi(got["cgroup-files-tried"]); tried < 20 {
		t.Errorf("the submission found %q cgroup files to write, so this test shows little", got["cgroup-files-tried"])
	}
	// Its output and its standard error: the forged lines went somewhere, only not to the report.
	if got["forged-into"] != "2" {
		t.Errorf("forged lines went into %q descriptors, want 2", got["forged-into"])
	}
}

// checkSecrets looks for the nonce in everything the submission could read and print.
func checkSecrets(t *testing.T, r *run, output string) {
	t.Helper()
	environments := 0
	for line := range strings.Lines(output) {
		word, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "environ", "own-environ", "cmdline":
		default:
			continue
		}
		plain, err := hex.DecodeString(text)
		if err != nil {
			t.Errorf("%s: %v", word, err)
		}
		if strings.Contains(string(plain), r.nonce) || strings.Contains(string(plain), "AJ_SHIM") {
			t.Errorf("%s tells %q", word, plain)
		}
		switch word {
		case "environ", "own-environ":
			environments++
			if !strings.Contains(string(plain), "LANG=C.UTF-8") {
				t.Errorf("%s is not the container's environment: %q", word, plain)
			}
		case "cmdline":
			if !strings.Contains(string(plain), wire.ShimPath) {
				t.Errorf("the shim's command line reads %q", plain)
			}
		}
	}
	if environments != 2 || strings.Contains(output, r.nonce) {
		t.Errorf("%d environments were read; is the nonce in the output? %v", environments, strings.Contains(output, r.nonce))
	}
}

func TestWorkInAnOrphanIsChargedAndAnEscapeeIsDeadBeforeTheReport(t *testing.T) {
	onEveryRuntime(t, func(t *testing.T, on where) {
		r := order{program: "orphan", argv: []string{"1.0"}, memory: "16777216", holdReport: true}.begin(t, on)
		// The shim cannot write its report, for the channel is full. The escapee holds the output: if that ends all the
		// same, the escapee is dead, and the end of PID 1 is not what killed it.
		output := r.endOfOutput()
		if string(output) != "burnt\n" {
			t.Errorf("the output is %q", output)
		}
		if r.hasExited() {
			t.Fatal("the container has ended, so this shows nothing")
		}
		box, err := r.home.box()
		must(t, err)
		if populated := field(t, box+"/cgroup.events", "populated"); populated != "0" {
			t.Errorf("the box still holds something: populated %s, %q", populated, field(t, box+"/cgroup.procs", ""))
		}
		usage, err := strconv.Atoi(field(t, box+"/cpu.stat", "usage_usec"))
		must(t, err)
		peak, err := strconv.Atoi(field(t, box+"/memory.peak", ""))
		must(t, err)
		r.output <- output
		r.readReport(true)
		done := r.mustReport(0)
		if measured := time.Duration(usage) * time.Microsecond; done.report.CPU < measured*9/10 || done.report.CPU > measured*11/10 {
			t.Errorf("the box used %v, the report says %v", measured, done.report.CPU)
		}
		if done.report.CPU < 950*time.Millisecond {
			t.Errorf("a second of work in an orphan was reported as %v", done.report.CPU)
		}
		if done.report.Peak != wire.Bytes(peak) {
			t.Errorf("the box's peak is %d, the report says %d", peak, done.report.Peak)
		}
		logGap(t, r, done)
	})
}

// logGap tells what a container costs beside its program: the home's processor time, start included, less the report's.
func logGap(t *testing.T, r *run, done ended) {
	t.Helper()
	total, err := strconv.Atoi(field(t, r.home.dir+"/cpu.stat", "usage_usec"))
	must(t, err)
	t.Logf("home %v, report %v (user %v, system %v), wall %v, peak %d bytes", time.Duration(total)*time.Microsecond,
		done.report.CPU, done.report.User, done.report.System, done.report.Wall, done.report.Peak)
}

func TestTheContainerEndsAsItsProgramDid(t *testing.T) {
	onEveryRuntime(t, func(t *testing.T, on where) {
		for words, code := range map[string]int{"exit 42": 42, "null": 139, "abort": 134, "divide": 136, "signal 9": 137} {
			t.Run(words, func(t *testing.T) {
				t.Parallel()
				r := order{program: "fate", argv: strings.Fields(words), memory: "4194304"}.begin(t, on)
				done := r.mustReport(code)
				if done.report.Peak <= 0 || done.report.Peak >= 1<<20 {
					t.Errorf("an idle program's box held %d bytes at most, want less than a MiB", done.report.Peak)
				}
				logGap(t, r, done)
			})
		}
	})
}

func TestAProgramThatCannotBeExecutedGivesItsReasonAndTheCodeOfAShell(t *testing.T) {
	onEveryRuntime(t, func(t *testing.T, on where) {
		for program, code := range map[string]int{"/in/1.in": wire.ExitNotRunnable, "aj-no-such-program": wire.ExitNotFound} {
			t.Run(strconv.Itoa(code), func(t *testing.T) {
				t.Parallel()
				r := order{argv: []string{program}, memory: "4194304"}.begin(t, on)
				if done := r.mustReport(code); !strings.HasPrefix(done.reading.Failure, "exec "+program+": ") {
					t.Errorf("the reason is %q", done.reading.Failure)
				}
			})
		}
	})
}

func TestAStaticProgramRunsInFourMiBWithItsInputFromASocket(t *testing.T) {
	onEveryRuntime(t, func(t *testing.T, on where) {
		r := order{program: "sum", memory: "4194304", input: "1 2 3\n36\n", socket: true}.begin(t, on)
		done := r.mustReport(0)
		if done.output != "4 42\n" {
			t.Errorf("the output is %q", done.output)
		}
		if done.report.Peak <= 0 || done.report.Peak > 4<<20 {
			t.Errorf("the peak is %d", done.report.Peak)
		}
		logGap(t, r, done)
	})
}

func TestABoxThatOutgrowsItsLimitDiesAsAWholeAndTheHomeCountsIt(t *testing.T) {
	onEveryRuntime(t, func(t *testing.T, on where) {
		r := order{program: "greedy", memory: "4194304"}.begin(t, on)
		done := r.mustReport(137)
		if done.report.Peak > 4<<20 || done.report.Peak < 3<<20 {
			t.Errorf("the peak is %d, want the limit of 4194304", done.report.Peak)
		}
		if kills := field(t, r.home.dir+"/memory.events", "oom_kill"); kills == "0" {
			t.Error("the home counts no kill")
		}
	})
}

func TestAContainerThatIsNotWhatTheShimExpectsIsRefusedBeforeTheProgramRuns(t *testing.T) {
	onEveryRuntime(t, func(t *testing.T, on where) {
		for name, test := range map[string]struct {
			change func(host map[string]any)
			says   string
		}{
			"no seccomp filter": {func(host map[string]any) {
				host["SecurityOpt"] = []string{"no-new-privileges", "seccomp=unconfined"}
			}, `Seccomp is "0"`},
			"a cgroup namespace of its own": {func(host map[string]any) { host["CgroupnsMode"] = "private" }, "namespace of its own"},
			"no home": {func(host map[string]any) {
				mounts := host["Mounts"].([]map[string]any)
				host["Mounts"] = mounts[:len(mounts)-1]
			}, wire.CgroupPath},
			"no way to drop": {func(host map[string]any) { host["CapAdd"] = []string{} }, "start /program/fate: operation not permitted"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := order{program: "fate", argv: []string{"exit", "0"}, memory: "4194304", change: test.change}.begin(t, on)
				done := r.end()
				if done.exitCode != wire.ExitShimFailed || done.reading.Report != nil {
					t.Errorf("code %d, report %+v, want 125 and none", done.exitCode, done.reading.Report)
				}
				if !strings.Contains(done.reading.Failure, test.says) {
					t.Errorf("the reason %q does not say %q", done.reading.Failure, test.says)
				}
			})
		}
	})
}

func TestCrunWithoutItsSubgroupIsMeasuredTheSame(t *testing.T) {
	info := askDaemon(t)
	if _, isThere := info.Runtimes["crun"]; !isThere {
		t.Fatal("the daemon has no runtime crun")
	}
	r := order{program: "fate", argv: []string{"exit", "42"}, memory: "4194304", change: func(host map[string]any) {
		host["Annotations"] = map[string]string{"run.oci.systemd.subgroup": ""}
	}}.begin(t, where{driver: info.CgroupDriver, runtime: "crun"})
	if done := r.mustReport(42); done.report.Peak <= 0 {
		t.Errorf("the report is %+v", done.report)
	}
}

// TestNothingIsLeftBehind has to stay the last one.
func TestNothingIsLeftBehind(t *testing.T) {
	info := askDaemon(t)
	containers, err := containersLeft()
	must(t, err)
	if err := os.Remove(plainHomes); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	homes, err := homesLeft(info.CgroupDriver)
	must(t, err)
	scratch, err := filepath.Glob("/var/tmp/evalhost-shimsuite-*")
	must(t, err)
	if len(containers)+len(homes)+len(scratch) != 0 {
		t.Errorf("left behind: containers %q, homes %q, files %q", containers, homes, scratch)
	}
}
