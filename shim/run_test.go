//go:build !guest

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

func TestTheContainerWearsTheFateOfTheProgram(t *testing.T) {
	for script, code := range map[string]int{
		"exit 0": 0, "exit 42": 42, "exit 125": 125,
		"kill -SEGV $$": 139, "kill -ABRT $$": 134, "kill -FPE $$": 136, "kill -KILL $$": 137, "kill -TERM $$": 143,
	} {
		trial{program: []string{"/bin/sh", "-c", script}}.run(t).mustReport(t, code)
	}
}

func TestProcessorTimeIsThatOfTheProgram(t *testing.T) {
	report := trial{program: asHelper("burn", "200ms")}.run(t).mustReport(t, 0)
	if report.CPU < 200*time.Millisecond || report.CPU > 400*time.Millisecond || report.User == 0 {
		t.Errorf("200 ms of work were reported as %+v", report)
	}
	if report.Wall < 100*time.Millisecond {
		t.Errorf("wall time %v is shorter than the work", report.Wall)
	}
	faulting := trial{program: asHelper("touch", "64")}.run(t).mustReport(t, 0)
	if faulting.System == 0 {
		t.Errorf("touching memory took no system time: %+v", faulting)
	}
}

func TestWithoutABoxThePeakIsTheProgramsResidentSize(t *testing.T) {
	if report := (trial{program: asHelper("touch", "64")}).run(t).mustReport(t, 0); report.Peak < 60<<20 {
		t.Errorf("64 MiB were reported as %d bytes", report.Peak)
	}
	if report := (trial{program: []string{"/bin/true"}}).run(t).mustReport(t, 0); report.Peak > 16<<20 {
		t.Errorf("nothing was reported as %d bytes", report.Peak)
	}
}

func TestInputComesFromTheFileOutputGoesToTheOtherAndErrorsNowhere(t *testing.T) {
	input := newFile(t, filepath.Join(scratch(t), "1.in"), "seven\n")
	got := trial{input: input, program: []string{"/bin/sh", "-c", "cat; echo lost >&2"}}.run(t)
	got.mustReport(t, 0)
	if got.stdout != "seven\n" || got.stderr != "" || strings.Contains(got.channel, "lost") {
		t.Errorf("%v", got)
	}
}

func TestAnInputFileCanBeReadTwice(t *testing.T) {
	input := newFile(t, filepath.Join(scratch(t), "1.in"), "seven\n")
	if got := (trial{input: input, program: asHelper("twice")}).run(t); got.stdout != "seven\nseven\n" {
		t.Errorf("%v", got)
	}
}

func TestWithoutAChannelTheReportGoesToStandardErrorAndTheProgramCannotReachIt(t *testing.T) {
	got := trial{report: "stderr", program: []string{"/bin/sh", "-c", "echo forged >&2; ls -l /proc/self/fd"}}.run(t)
	got.mustReport(t, 0)
	if strings.Contains(got.stderr, "forged") {
		t.Errorf("the program wrote to the report: %q", got.stderr)
	}
	if !strings.Contains(got.stdout, "/dev/null") {
		t.Errorf("the program's standard error is not /dev/null: %q", got.stdout)
	}
}

func TestTheArgumentsArriveAsTheyWereGiven(t *testing.T) {
	words := []string{"--features", "--", "", "a b", "'\"$x", "\xff"}
	got := trial{program: append([]string{"/usr/bin/printf", `%s\n`}, words...)}.run(t)
	if want := strings.Join(words, "\n") + "\n"; got.stdout != want {
		t.Errorf("%q arrived, want %q", got.stdout, want)
	}
}

func TestTheShimRefusesToRunWithoutWhatItNeeds(t *testing.T) {
	dir := scratch(t)
	socket := filepath.Join(dir, "unserved")
	listener, err := listenUnix(socket)
	must(t, err)
	syscall.Close(listener)
	ran := filepath.Join(dir, "ran")
	program := []string{"/usr/bin/touch", ran}
	absent := filepath.Join(dir, "absent")
	for name, test := range map[string]struct {
		trial trial
		says  []string
	}{
		"no nonce":               {trial{noNonce: true}, []string{"failed", "no AJ_SHIM_NONCE in the environment"}},
		"an empty nonce":         {trial{noNonce: true, env: []string{"AJ_SHIM_NONCE="}}, []string{"no AJ_SHIM_NONCE"}},
		"no program":             {trial{program: []string{}}, []string{"usage"}},
		"no input":               {trial{input: absent}, []string{testNonce + " aj-shim1 failed open input " + absent}},
		"a directory as input":   {trial{input: dir}, []string{"open input " + dir}},
		"a socket nobody serves": {trial{input: socket}, []string{"input socket " + socket, "refused"}},
		"no output":              {trial{output: absent}, []string{"open output " + absent, "no such file"}},
		"a report channel that cannot be opened": {
			trial{report: absent}, []string{"open report channel " + absent, "no such file"},
		},
		"a limit that is no number": {
			trial{env: []string{"AJ_SHIM_CGROUP=/sys/fs/cgroup", "AJ_SHIM_MEMORY_BYTES=64M"}},
			[]string{"AJ_SHIM_MEMORY_BYTES", "64M"},
		},
		"half an order for a box": {trial{env: []string{"AJ_SHIM_CGROUP=/aj/cgroup"}}, []string{"AJ_SHIM_MEMORY_BYTES"}},
		"a box where none can be made": {
			trial{env: []string{"AJ_SHIM_CGROUP=" + dir, "AJ_SHIM_MEMORY_BYTES=4194304"}}, []string{"cgroup"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.trial.program == nil {
				test.trial.program = program
			}
			if name == "no program" || test.trial.noNonce {
				test.trial.report = "stderr" // the channel is not known yet
			}
			test.trial.run(t).mustFail(t, test.says...)
			if _, err := os.Stat(ran); err == nil {
				t.Error("the program ran all the same")
			}
			if _, err := os.Stat(absent); err == nil {
				t.Error("the shim made a file")
			}
		})
	}
}

func TestAProgramThatCannotBeRunHasAReasonAndAReport(t *testing.T) {
	dir := scratch(t)
	plain := newFile(t, filepath.Join(dir, "plain"), "hello\n")
	secret := newFile(t, filepath.Join(dir, "secret"), "#!/bin/sh\n")
	text := newFile(t, filepath.Join(dir, "text"), "hello\n")
	orphan := newFile(t, filepath.Join(dir, "orphan"), "#!/no/such/interpreter\n")
	for path, mode := range map[string]os.FileMode{plain: 0o644, secret: 0o700, text: 0o755, orphan: 0o755} {
		must(t, os.Chmod(path, mode))
	}
	for name, test := range map[string]struct {
		program string
		code    int
		says    string
	}{
		"absent":                     {dir + "/absent", 127, "no such file or directory"},
		"absent from the path":       {"aj-no-such-program", 127, "no such file or directory"},
		"a file as a directory":      {plain + "/x", 127, "not a directory"},
		"without its interpreter":    {orphan, 127, "no such file or directory"},
		"not executable":             {plain, 126, "permission denied"},
		"executable by root alone":   {secret, 126, "permission denied"},
		"a directory":                {dir, 126, "permission denied"},
		"of a format nobody loads":   {text, 126, "exec format error"},
		"a name that ends a line \n": {"/a\nb", 127, "exec /a?b: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			got := trial{program: []string{test.program}}.run(t)
			got.mustReport(t, test.code)
			if !strings.Contains(got.reading.Failure, test.says) {
				t.Errorf("the reason %q does not say %q", got.reading.Failure, test.says)
			}
			if len(got.reading.Rest) != 0 {
				t.Errorf("%q is neither", got.reading.Rest)
			}
		})
	}
}

// elfTooLarge is a program for this processor with one segment of 64 TiB, which no machine gives.
func elfTooLarge() []byte {
	var file bytes.Buffer
	for _, part := range []any{
		[16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1},
		uint16(2), uint16(62), uint32(1), // executable, x86-64, version
		uint64(0x400078), uint64(64), uint64(0), uint32(0), // entry, program headers, no sections
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(7), // a loaded segment, read-write-execute
		uint64(0), uint64(0x400000), uint64(0x400000), uint64(0x1000), uint64(64 << 40), uint64(0x1000),
	} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	return append(file.Bytes(), make([]byte, 0x1000)...)
}

func TestAProgramTooLargeToBeLoadedDiesOfItAndIsNotTheShimsFailure(t *testing.T) {
	path := filepath.Join(scratch(t), "large")
	must(t, os.WriteFile(path, elfTooLarge(), 0o755))
	got := trial{program: []string{path}}.run(t)
	got.mustReport(t, 139)
	if !strings.Contains(got.reading.Failure, "exec "+path+": ended by the kernel with signal 11 while it was being loaded") {
		t.Errorf("the reason is %q", got.reading.Failure)
	}
}

func TestAProgramThatAsksToBeTracedIsLetGo(t *testing.T) {
	trial{program: asHelper("traced")}.run(t).mustReport(t, 143)
}

func TestRootDropsToNobodyAndTheProgramIsFoundOnThePath(t *testing.T) {
	got := trial{program: []string{"sh", "-c", "id -u; id -g; id -G; grep -E '^(Uid|Groups|Cap(Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status"}}.run(t)
	got.mustReport(t, 0)
	for _, line := range []string{
		"65534\n65534\n65534\n", "Uid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n", "NoNewPrivs:\t1\n",
		"CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n",
	} {
		if !strings.Contains(got.stdout, line) {
			t.Errorf("no %q in %q", line, got.stdout)
		}
	}
}

func TestTheProgramInheritsNothingButItsThreeFiles(t *testing.T) {
	leaked := newFile(t, filepath.Join(scratch(t), "leaked"), "")
	left, err := os.Open(leaked)
	must(t, err)
	defer left.Close()
	got := trial{program: []string{"/bin/ls", "-l", "/proc/self/fd"}, extra: []*os.File{left, left}}.run(t)
	got.mustReport(t, 0)
	if strings.Contains(got.stdout, leaked) || !strings.Contains(got.stdout, os.DevNull) {
		t.Errorf("the program holds %q", got.stdout)
	}
	// Its own three and the directory it lists.
	if held := strings.Count(got.stdout, " -> "); held != 4 {
		t.Errorf("the program holds %d descriptors, want 4: %q", held, got.stdout)
	}
}

func TestTheSecretsAreInNobodysEnvironment(t *testing.T) {
	const script = "env; cat /proc/self/environ; echo; echo parent; cat /proc/$PPID/environ"
	more := []string{"LANG=C.UTF-8", "AJ_SHIM_MEMORY_BYTES=0"}
	asRoot := trial{program: []string{"/bin/sh", "-c", script}, env: more}.run(t)
	if asRoot.reading.Report == nil || !strings.Contains(asRoot.stdout, "LANG=C.UTF-8") {
		t.Fatalf("%v", asRoot)
	}
	if strings.Contains(asRoot.stdout, "AJ_SHIM") || strings.Contains(asRoot.stdout, testNonce) {
		t.Errorf("the submission sees %q", asRoot.stdout)
	}

	// Run as nobody, the submission may read its parent's environment, and that is what shows the overwriting.
	asNobody := trial{program: []string{"/bin/sh", "-c", script}, env: more, user: wire.Nobody}.run(t)
	asNobody.mustReport(t, 0)
	_, parent, _ := strings.Cut(asNobody.stdout, "parent\n")
	if !strings.Contains(parent, "AJ_SHIM_NONCE="+strings.Repeat("x", 32)+"\x00") {
		t.Errorf("the parent's environment was not read or not overwritten: %q", parent)
	}
	for _, name := range []string{"AJ_SHIM_REPORT=x", "AJ_SHIM_MEMORY_BYTES=x\x00"} {
		if !strings.Contains(parent, name) {
			t.Errorf("no %q in the parent's environment %q", name, parent)
		}
	}
	if strings.Contains(parent, testNonce) || strings.Contains(parent, "/report") {
		t.Errorf("the parent's environment still tells: %q", parent)
	}
}

func TestAShimStartedAsSomebodyElseRefusesToRunTheProgram(t *testing.T) {
	trial{program: []string{"/bin/true"}, user: 12345}.run(t).mustFail(t, "inspect the program", "Uid", "12345")
}

func TestAShimStartedAheadWaitsAtItsOutputWithTheSecretsAlreadyGone(t *testing.T) {
	dir := scratch(t)
	fifo := filepath.Join(dir, "stdout")
	must(t, syscall.Mkfifo(fifo, 0o600))
	report := filepath.Join(dir, "report")
	cmd, wait := trial{output: fifo, report: report, program: []string{"/bin/echo", "go"}}.start(t)
	environ := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/environ"
	deadline := time.Now().Add(testTimeout)
	for strings.Contains(readAll(t, environ), testNonce) {
		if time.Now().After(deadline) {
			t.Fatal("the secrets stay in the environment")
		}
		time.Sleep(time.Millisecond)
	}
	// A shim that does not wait has failed by now, for there is no report channel yet.
	time.Sleep(50 * time.Millisecond)
	newFile(t, report, "")
	if got := readAll(t, fifo); got != "go\n" { // opens the other end, reads to the end
		t.Errorf("the output is %q", got)
	}
	got := wait()
	if reading := wire.Parse([]byte(readAll(t, report)), testNonce); reading.Report == nil || got.code != 0 {
		t.Errorf("no report after waiting: %+v, %v", reading, got)
	}
}

func TestAReaderThatGoesAwayEndsTheProgramBySIGPIPE(t *testing.T) {
	fifo := filepath.Join(scratch(t), "stdout")
	must(t, syscall.Mkfifo(fifo, 0o600))
	_, wait := trial{output: fifo, program: []string{"/usr/bin/yes"}}.start(t)
	reader, err := os.Open(fifo)
	must(t, err)
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	reader.Close()
	wait().mustReport(t, 141)
}

func TestTheOutputEndsWithTheProgramAndNotWithTheShim(t *testing.T) {
	output, reading := trial{program: []string{"/bin/echo", "done"}}.runUnreported(t)
	if output != "done\n" || reading.Report == nil {
		t.Errorf("the output is %q, the report %+v", output, reading)
	}
}

func TestTheFeatureMarkerIsInTheBinaryAndPrinted(t *testing.T) {
	binary, err := os.ReadFile(bench.shim)
	must(t, err)
	if !bytes.Contains(binary, []byte(wire.FeatureMarker)) {
		t.Errorf("no %q in the binary", wire.FeatureMarker)
	}
	printed, err := exec.Command(bench.shim, "--features").Output()
	if err != nil || string(printed) != wire.FeatureMarker+"\n" {
		t.Errorf("--features printed %q, %v", printed, err)
	}
}

func TestAPanicBecomesAFailedLineAndTheCode125(t *testing.T) {
	for want, thrown := range map[string]func(){
		"panic: index out of range":          func() { panic("index out of range") },
		"panic: runtime error":               func() { var none *box; none.dir = "" },
		"panic: a value of an unknown type":  func() { panic(7) },
		"panic: open /x: no such file or di": func() { panic(&failure{what: "open /x", err: syscall.ENOENT}) },
	} {
		var pipe [2]int
		must(t, syscall.Pipe(pipe[:]))
		s := shim{nonce: testNonce, report: pipe[1]}
		code := s.conclude(func() (wire.Report, error) { thrown(); return wire.Report{}, nil })
		syscall.Close(pipe[1])
		reader := os.NewFile(uintptr(pipe[0]), "report")
		var line bytes.Buffer
		_, _ = line.ReadFrom(reader)
		reader.Close()
		reading := wire.Parse(line.Bytes(), testNonce)
		if code != wire.ExitShimFailed || !strings.HasPrefix(reading.Failure, want) {
			t.Errorf("code %d, line %q; want 125 and %q", code, line.String(), want)
		}
	}
}

func TestAReportThatCannotBeWrittenIsAFailure(t *testing.T) {
	full, err := syscall.Open("/dev/full", syscall.O_WRONLY, 0)
	must(t, err)
	defer syscall.Close(full)
	s := shim{nonce: testNonce, report: full}
	if code := s.conclude(func() (wire.Report, error) { return wire.Report{}, nil }); code != wire.ExitShimFailed {
		t.Errorf("code %d, want 125", code)
	}
}
