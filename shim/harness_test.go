//go:build !guest

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// These tests run the built binary on the machine they run on, without a container and so without a box (spec/sandbox.md
// 8.2). They need root, to see privileges dropped. What needs a container is in the guest suite.

const (
	testNonce   = "0123456789abcdef0123456789abcdef"
	helperWord  = "aj-shim-test-helper" // argv[1] that makes the test binary a submission
	testTimeout = 60 * time.Second
)

// bench is what every trial shares: a directory that nobody can reach into, the built shim, and a helper program.
var bench struct{ dir, shim, helper string }

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == helperWord {
		helper(os.Args[2:])
		return
	}
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "aj-shim-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	bench.dir, bench.shim, bench.helper = dir, filepath.Join(dir, "aj-shim"), filepath.Join(dir, "helper")
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", bench.shim, "."}
	if control := os.Getenv("EVALHOST_MUTANT"); control != "" { // make mutants
		args = []string{"build", "-trimpath", "-tags", "mutants", "-ldflags", "-X main.chosen=" + control, "-o", bench.shim, "."}
	}
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if output, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, output)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(bench.helper, self, 0o755); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// trial is one run of the shim.
type trial struct {
	program []string
	input   string   // path; "" for /dev/null
	output  string   // path; "" for a file whose content is the result's stdout
	report  string   // path; "" for a file; "stderr" for none
	env     []string // more of it; "NAME=" as last word wins over the nonce's
	noNonce bool
	user    uint32     // the shim's own; 0 for root
	extra   []*os.File // descriptors it is started with, from 3
	init    bool       // be PID 1 of a namespace, with the two capabilities a judged container has
}

// result is what came of it.
type result struct {
	code    int
	stdout  string
	stderr  string
	channel string // everything on the report channel
	reading wire.Reading
}

func (r result) String() string {
	return fmt.Sprintf("code %d, stdout %q, stderr %q, channel %q", r.code, r.stdout, r.stderr, r.channel)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the shim drops privileges here")
	}
}

// scratch makes a directory for one test that any user may look into.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(bench.dir, "t")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// newFile makes a file that any user may write.
func newFile(t *testing.T, path, text string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o666))
	must(t, os.Chmod(path, 0o666))
	return path
}

// start starts the shim. The returned function waits for its end.
func (tr trial) start(t *testing.T) (*exec.Cmd, func() result) {
	t.Helper()
	needRoot(t)
	dir := scratch(t)
	if tr.input == "" {
		tr.input = os.DevNull
	}
	output := tr.output
	if output == "" {
		output = newFile(t, filepath.Join(dir, "stdout"), "")
	}
	cmd := exec.Command(bench.shim, append([]string{tr.input, output}, tr.program...)...)
	if tr.init {
		cmd = exec.Command(bench.helper, append([]string{helperWord, "contain"}, cmd.Args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	}
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if !tr.noNonce {
		cmd.Env = append(cmd.Env, wire.EnvNonce+"="+testNonce)
	}
	report := tr.report
	switch report {
	case "":
		report = newFile(t, filepath.Join(dir, "report"), "")
		fallthrough
	default:
		cmd.Env = append(cmd.Env, wire.EnvReport+"="+report)
	case "stderr":
	}
	cmd.Env = append(cmd.Env, tr.env...)
	var stderr bytes.Buffer
	cmd.Stderr, cmd.ExtraFiles = &stderr, tr.extra
	if tr.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tr.user, Gid: tr.user}}
	}
	must(t, cmd.Start())
	stop := time.AfterFunc(testTimeout, func() { cmd.Process.Kill() })
	return cmd, func() result {
		t.Helper()
		err := cmd.Wait()
		if !stop.Stop() {
			t.Errorf("the shim ran for more than %v", testTimeout)
		}
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		done := result{code: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
		if tr.output == "" {
			done.stdout = readAll(t, output)
		}
		if tr.report == "" {
			done.channel = readAll(t, report)
		} else {
			done.channel = done.stderr // there is no other, or it cannot be opened
		}
		done.reading = wire.Parse([]byte(done.channel), testNonce)
		return done
	}
}

func (tr trial) run(t *testing.T) result {
	t.Helper()
	_, wait := tr.start(t)
	return wait()
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// runUnreported runs the shim with a report channel that is full, so that it cannot report and therefore cannot end, and
// reads the output to its end before it takes the report: whatever ended the output, the end of the shim it was not.
func (tr trial) runUnreported(t *testing.T) (string, wire.Reading) {
	t.Helper()
	needRoot(t)
	dir := scratch(t)
	tr.output, tr.report = filepath.Join(dir, "stdout"), filepath.Join(dir, "report")
	must(t, syscall.Mkfifo(tr.output, 0o600))
	must(t, syscall.Mkfifo(tr.report, 0o600))
	channel, err := os.OpenFile(tr.report, os.O_RDWR, 0)
	must(t, err)
	defer channel.Close()
	for err == nil {
		must(t, channel.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		_, err = channel.Write(bytes.Repeat([]byte{'.'}, 4096))
	}
	cmd, wait := tr.start(t)
	reader, err := os.Open(tr.output)
	must(t, err)
	defer reader.Close()
	must(t, reader.SetReadDeadline(time.Now().Add(20*time.Second)))
	output, err := io.ReadAll(reader)
	if err != nil {
		must(t, cmd.Process.Kill())
		t.Fatalf("the output is %q, and then: %v", output, err)
	}
	var stream []byte
	must(t, channel.SetReadDeadline(time.Now().Add(20*time.Second)))
	for chunk := make([]byte, 65536); wire.Parse(stream, testNonce).Report == nil; {
		n, err := channel.Read(chunk)
		must(t, err)
		stream = append(stream, chunk[:n]...)
	}
	if got := wait(); got.code != 0 {
		t.Errorf("%v", got)
	}
	return string(output), wire.Parse(stream, testNonce)
}

// mustReport fails the test unless the run was measured and ended as said.
func (r result) mustReport(t *testing.T, code int) wire.Report {
	t.Helper()
	if r.code != code || r.reading.Report == nil {
		t.Fatalf("%v, want code %d and a report", r, code)
	}
	report := *r.reading.Report
	if report.ExitStatus() != code {
		t.Errorf("the report %+v does not say %d", report, code)
	}
	if report.User+report.System != report.CPU {
		t.Errorf("the halves of %+v do not add up", report)
	}
	return report
}

// mustFail fails the test unless the shim gave up saying all of this.
func (r result) mustFail(t *testing.T, says ...string) {
	t.Helper()
	if r.code != wire.ExitShimFailed || r.reading.Report != nil {
		t.Fatalf("%v, want code 125 and no report", r)
	}
	for _, word := range says {
		if !strings.Contains(r.channel, word) {
			t.Errorf("%q does not say %q", r.channel, word)
		}
	}
}

func asHelper(words ...string) []string {
	return append([]string{bench.helper, helperWord}, words...)
}

// helper is the test binary as a submission.
func helper(words []string) {
	switch words[0] {
	case "burn": // processor time, by its own count
		want, err := time.ParseDuration(words[1])
		if err != nil {
			panic(err)
		}
		for used := time.Duration(0); used < want; {
			for i := range 100000 {
				_ = i * i
			}
			var usage syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
				panic(err)
			}
			used = fromTimeval(usage.Utime) + fromTimeval(usage.Stime)
		}
	case "touch": // so many MiB of memory
		var mib int
		if _, err := fmt.Sscan(words[1], &mib); err != nil {
			panic(err)
		}
		memory := make([]byte, mib<<20)
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
	case "twice": // standard input, read to its end two times
		for range 2 {
			if _, err := os.Stdin.Seek(0, io.SeekStart); err != nil {
				panic(err)
			}
			if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
				panic(err)
			}
		}
	case "traced": // asks to be traced by its parent, then gets a signal
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PTRACE, syscall.PTRACE_TRACEME, 0, 0); errno != 0 {
			panic(errno)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			panic(err)
		}
		select {}
	case "contain": // replaces itself by the rest, as PID 1 with the two capabilities a judged container has
		contain()
		panic(syscall.Exec(words[1], words[1:], os.Environ()))
	default:
		panic("unknown helper " + words[0])
	}
}

// contain makes of a process in new namespaces what a judged container's first process is, without cgroups and seccomp.
func contain() {
	const capSetgid, capSetuid, capLast, dropBounding = 6, 7, 63, 24 // PR_CAPBSET_DROP
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		panic(err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		panic(err)
	}
	runtime.LockOSThread() // the set belongs to one thread, and exec keeps the one it is called on
	for capability := range capLast + 1 {
		if capability == capSetgid || capability == capSetuid {
			continue
		}
		_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, dropBounding, uintptr(capability), 0)
		if errno != 0 && errno != syscall.EINVAL { // more numbers than this kernel has
			panic(errno)
		}
	}
}
