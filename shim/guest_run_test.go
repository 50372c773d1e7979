//go:build guest

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

// patience bounds every wait of the suite. Under emulation a container starts in seconds.
const patience = 90 * time.Second

// order is a judged run.
type order struct {
	program string // from the built programs, mounted as /program/<name>; "" with argv[0] of another
	argv    []string
	memory  string // of the box, bytes
	input   string // content of /in/1.in
	fifo    bool   // the input is a FIFO instead, and the test writes to it
	socket  bool   // the input is handed over a socket instead
	// holdReport fills the report channel, so that the shim cannot report before the test lets it.
	holdReport bool
	// change alters what the container is created with, for runs that must be refused.
	change func(host map[string]any)
}

// run is a judged run under way.
type run struct {
	t          *testing.T
	home       home
	dir        string
	nonce      string
	id         string
	stdin      *os.File // the writing end of a FIFO input
	report     int      // reading end of the report channel
	output     chan []byte
	exited     chan struct{}
	exitCode   int
	waitFailed error
	mutex      sync.Mutex
	outputSeen bytes.Buffer
	reportSeen []byte
}

func programs(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EVALHOST_TEST_PROGRAMS")
	if dir == "" {
		t.Fatal("EVALHOST_TEST_PROGRAMS names no directory; it holds the programs of testdata/programs, built statically")
	}
	return dir
}

// builtShim is the shim under test, as it ships.
func builtShim(t *testing.T) string {
	t.Helper()
	path := os.Getenv("EVALHOST_TEST_SHIM")
	if path == "" {
		t.Fatal("EVALHOST_TEST_SHIM does not name the shim")
	}
	return path
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o600))
	must(t, os.Chmod(to, mode))
}

// begin starts a judged container the way the Runner does and opens its channels.
func (o order) begin(t *testing.T, on where) *run {
	t.Helper()
	// Mounts must not be noexec, so never under /run.
	dir, err := os.MkdirTemp("/var/tmp", "evalhost-shimsuite-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	r := &run{t: t, home: newHome(t, on.driver), dir: dir, nonce: nonce.New(), exited: make(chan struct{})}
	for _, sub := range []string{"out", "in", "program"} {
		must(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	copyFile(t, builtShim(t), r.path("aj-shim"), 0o500)
	if o.program != "" {
		copyFile(t, filepath.Join(programs(t), o.program), r.path("program/"+o.program), 0o755)
	}
	must(t, os.WriteFile(r.path("in/1.in"), []byte(o.input), 0o644))
	for _, fifo := range []string{"out/stdout", "out/report"} {
		must(t, syscall.Mkfifo(r.path(fifo), 0o600))
	}
	input := wire.InputDir + "/1.in"
	switch {
	case o.fifo:
		input = wire.StdinPath
		must(t, syscall.Mkfifo(r.path("out/stdin"), 0o600))
		// Both ends, so that this never waits.
		r.stdin, err = os.OpenFile(r.path("out/stdin"), os.O_RDWR, 0)
		must(t, err)
		t.Cleanup(func() { r.stdin.Close() })
	case o.socket:
		input = wire.StdinPath
		r.handOver(r.path("in/1.in"))
	}
	r.openReport(o.holdReport)
	r.create(on, o, input)
	r.readOutput()
	return r
}

func (r *run) path(name string) string { return filepath.Join(r.dir, name) }

// handOver serves the input over a socket, once.
func (r *run) handOver(file string) {
	listener, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(r.t, err)
	path := r.path("out/stdin")
	must(r.t, syscall.Bind(listener, &syscall.SockaddrUnix{Name: path}))
	must(r.t, os.Chmod(path, 0o600))
	must(r.t, syscall.Listen(listener, 1))
	go func() {
		defer syscall.Close(listener)
		socket, _, err := syscall.Accept(listener)
		if err != nil {
			return
		}
		defer syscall.Close(socket)
		input, err := os.Open(file)
		if err != nil {
			r.t.Error(err)
			return
		}
		defer input.Close()
		if err := syscall.Sendmsg(socket, []byte{0}, syscall.UnixRights(int(input.Fd())), nil, syscall.MSG_NOSIGNAL); err != nil {
			r.t.Error(err)
		}
	}()
}

// openReport opens the report channel with both ends, so that nothing written is ever lost and nobody waits.
func (r *run) openReport(full bool) {
	fd, err := syscall.Open(r.path("out/report"), syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	must(r.t, err)
	r.report = fd
	r.t.Cleanup(func() { syscall.Close(fd) })
	filling := bytes.Repeat([]byte{'.'}, 4096)
	for full {
		if _, err := syscall.Write(fd, filling); err == syscall.EAGAIN {
			return
		} else if err != nil {
			r.t.Fatal(err)
		}
	}
}

func bind(source, target string, readOnly bool) map[string]any {
	return map[string]any{"Type": "bind", "Source": source, "Target": target, "ReadOnly": readOnly}
}

func (r *run) create(on where, o order, input string) {
	argv := o.argv
	if o.program != "" {
		argv = append([]string{wire.ProgramDir + "/" + o.program}, argv...)
	}
	host := map[string]any{
		"Runtime": on.runtime, "NetworkMode": "none", "CgroupParent": r.home.parent, "CgroupnsMode": "host",
		"CapDrop": []string{"ALL"}, "CapAdd": []string{"SETUID", "SETGID"},
		"SecurityOpt": []string{"no-new-privileges"}, "ReadonlyRootfs": true,
		"Memory": 128 << 20, "MemorySwap": 128 << 20, "NanoCpus": 1_000_000_000, "PidsLimit": wire.PidsLimitContainer,
		"Ulimits":   []map[string]any{{"Name": "nofile", "Soft": 256, "Hard": 256}, {"Name": "fsize", "Soft": 256 << 20, "Hard": 256 << 20}},
		"LogConfig": map[string]any{"Type": "none"},
		"Mounts": []map[string]any{
			bind(r.path("aj-shim"), wire.ShimPath, true),
			bind(r.path("program"), wire.ProgramDir, true),
			bind(r.path("in/1.in"), wire.InputDir+"/1.in", true),
			bind(r.path("out"), wire.OutputDir, false),
			bind(r.home.dir, wire.CgroupPath, false),
		},
	}
	if o.change != nil {
		o.change(host)
	}
	var created struct{ Id string }
	must(r.t, docker(http.MethodPost, "/containers/create", map[string]any{
		"Image": testImage, "User": "0:0", "WorkingDir": wire.WorkDir, "NetworkDisabled": true,
		"Entrypoint": []string{wire.ShimPath}, "Cmd": append([]string{input, wire.StdoutPath}, argv...),
		"Env": []string{
			wire.EnvNonce + "=" + r.nonce, wire.EnvReport + "=" + wire.ReportPath,
			wire.EnvCgroup + "=" + wire.CgroupPath, wire.EnvMemoryBytes + "=" + o.memory, "LANG=C.UTF-8",
		},
		"Labels":      map[string]string{testLabel: "1"},
		"Healthcheck": map[string]any{"Test": []string{"NONE"}},
		"HostConfig":  host,
	}, &created))
	r.id = created.Id
	r.t.Cleanup(func() { must(r.t, removeContainer(r.id)) })
	must(r.t, docker(http.MethodPost, "/containers/"+r.id+"/start", nil, nil))
	go func() {
		defer close(r.exited)
		var ended struct{ StatusCode int }
		r.waitFailed = docker(http.MethodPost, "/containers/"+r.id+"/wait", nil, &ended)
		r.exitCode = ended.StatusCode
	}()
}

// readOutput reads the output to its end. The open lets the shim go on; from then on a read says "nobody there" until the
// shim has the writing end, and says so again when the last holder is gone.
func (r *run) readOutput() {
	fd, err := syscall.Open(r.path("out/stdout"), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	must(r.t, err)
	r.output = make(chan []byte, 1)
	go func() {
		defer syscall.Close(fd)
		chunk := make([]byte, 65536)
		held := false
		for {
			n, err := syscall.Read(fd, chunk)
			if n > 0 {
				r.mutex.Lock()
				r.outputSeen.Write(chunk[:n])
				r.mutex.Unlock()
			}
			held = held || n > 0 || err == syscall.EAGAIN
			if n == 0 && err == nil && (held || r.hasExited()) {
				r.output <- bytes.Clone(r.outputSeen.Bytes())
				return
			}
			if n <= 0 {
				time.Sleep(2 * time.Millisecond)
			}
		}
	}()
}

func (r *run) hasExited() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// awaitOutput waits until the output holds a line.
func (r *run) awaitOutput(line string) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		r.mutex.Lock()
		seen := r.outputSeen.String()
		r.mutex.Unlock()
		if strings.Contains("\n"+seen, "\n"+line+"\n") {
			return
		}
		if r.hasExited() {
			break
		}
	}
	r.t.Fatalf("the program never said %q; the shim says %q", line, r.readReport(false))
}

// endOfOutput waits until nobody holds the output any more.
func (r *run) endOfOutput() []byte {
	r.t.Helper()
	select {
	case output := <-r.output:
		return output
	case <-time.After(patience):
		r.t.Fatal("the output does not end")
		return nil
	}
}

// readReport takes what is on the report channel and returns all there ever was; if asked to, not before there is a
// measurement.
func (r *run) readReport(await bool) []byte {
	r.t.Helper()
	chunk := make([]byte, 65536)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		last := !await || r.hasExited()
		for {
			n, err := syscall.Read(r.report, chunk)
			if n <= 0 {
				if err != nil && !errors.Is(err, syscall.EAGAIN) {
					r.t.Fatal(err)
				}
				break
			}
			r.reportSeen = append(r.reportSeen, chunk[:n]...)
		}
		if last || wire.Parse(r.reportSeen, r.nonce).Report != nil {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return r.reportSeen
}

// ended is what came of a run.
type ended struct {
	exitCode int
	output   string
	reading  wire.Reading
	report   wire.Report // zero if there was none
}

// end waits for the end of everything.
func (r *run) end() ended {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(patience):
		r.t.Fatalf("the container does not end; the shim says %q", r.readReport(false))
	}
	must(r.t, r.waitFailed)
	done := ended{exitCode: r.exitCode, output: string(r.endOfOutput())}
	done.reading = wire.Parse(r.readReport(false), r.nonce)
	if done.reading.Report != nil {
		done.report = *done.reading.Report
	}
	return done
}

// mustReport ends the run and fails the test unless it was measured and ended with this code, in the report and outside.
func (r *run) mustReport(code int) ended {
	r.t.Helper()
	done := r.end()
	if done.reading.Report == nil || done.exitCode != code || done.report.ExitStatus() != code {
		r.t.Fatalf("code %d, report %+v, failure %q, rest %q; want code %d and a report of it",
			done.exitCode, done.reading.Report, done.reading.Failure, done.reading.Rest, code)
	}
	if done.report.User+done.report.System != done.report.CPU {
		r.t.Errorf("the halves of %+v do not add up", done.report)
	}
	return done
}

// say answers a program that waits for a line.
func (r *run) say(line string) {
	r.t.Helper()
	_, err := io.WriteString(r.stdin, line+"\n")
	must(r.t, err)
}
