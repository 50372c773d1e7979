//go:build !guest

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/shim/wire"
)

// unexecuted is a shim whose program the kernel would not execute: a failed line, and a report with the code of a shell.
// spoil is called before the report.
func unexecuted(code int, says string, spoil func(c *box)) program {
	return func(_ context.Context, c *box) int {
		out, err := os.OpenFile(c.host(wire.StdoutPath), os.O_WRONLY, 0)
		if err != nil {
			return wire.ExitShimFailed
		}
		report, err := os.OpenFile(c.host(wire.ReportPath), os.O_WRONLY, 0)
		if err != nil {
			return wire.ExitShimFailed
		}
		defer report.Close()
		out.Close()
		spoil(c)
		nonce := c.env(wire.EnvNonce)
		report.Write(wire.Report{ExitCode: code, CPU: 1, User: 1, Peak: 4096}.AppendTo(wire.AppendFailure(nil, nonce, says), nonce))
		return code
	}
}

func untouched(*box) {}

func TestAStartCommandOfTheImageThatCannotBeExecutedIsNoVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		command []string
		code    int
		says    string
	}{
		"the interpreter is missing":          {[]string{"python3", "/program/program.py"}, 127, "exec python3: no such file or directory"},
		"its loader is missing":               {[]string{"python3", "/program/program.py"}, 127, "exec python3: no such file or directory"},
		"it may not be executed":              {[]string{"pypy3", "/program/program.py"}, 126, "exec pypy3: permission denied"},
		"it is for another processor":         {[]string{"/usr/bin/python3", "/program/program.py"}, 126, "exec /usr/bin/python3: exec format error"},
		"it is damaged":                       {[]string{"python3", "/program/program.py"}, 139, "exec python3: ended by the kernel with signal 11 while it was being loaded"},
		"a file of /program that is not ours": {[]string{"/program/other"}, 127, "exec /program/other: no such file or directory"},
		"a path that only begins alike":       {[]string{"/program/programs"}, 127, "exec /program/programs: no such file or directory"},
		"a path with another spelling":        {[]string{"/program/./program"}, 127, "exec /program/./program: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: unexecuted(test.code, test.says, untouched)})
			r := l.plain(&sink{})
			r.Command = test.command
			o, err := l.judge(r)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "image lang") {
				t.Errorf("outcome %+v, error %v; want a failure with the shim's words and the image's name", o, err)
			}
		})
	}
}

func TestASubmissionsOwnProgramThatCannotBeExecutedIsAnOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		says string
	}{
		"its loader exists nowhere":            {127, "exec /program/program: no such file or directory"},
		"its loader is a file in no directory": {127, "exec /program/program: not a directory"},
		"its loader may not be executed":       {126, "exec /program/program: permission denied"},
		"its loader is no program":             {126, "exec /program/program: accessing a corrupted shared library"},
		"nobody loads its format":              {126, "exec /program/program: exec format error"},
		"its loader is too short":              {126, "exec /program/program: input/output error"},
		"it asks for more than there is":       {139, "exec /program/program: ended by the kernel with signal 11 while it was being loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: unexecuted(test.code, test.says, untouched)})
			o, err := l.judge(l.plain(&sink{}))
			if err != nil || o.Stop != OnItsOwn || o.ExitCode != test.code || o.Failure != test.says {
				t.Errorf("outcome %+v, error %v", o, err)
			}
		})
	}
}

// An exit code alone says nothing about execution: a program may end with any.
func TestAProgramThatEndsWithTheCodesOfAShellEndedByItself(t *testing.T) {
	for _, command := range [][]string{{"/program/program"}, {"python3", "/program/program"}} {
		for _, code := range []int{125, 126, 127} {
			l := newLab(t, &fakeDaemon{judged: underShim(func(context.Context, *box, *os.File, *os.File) int { return code })})
			r := l.plain(&sink{})
			r.Command = command
			if o, err := l.judge(r); err != nil || o.Stop != OnItsOwn || o.ExitCode != code || o.Failure != "" {
				t.Errorf("%v with code %d: outcome %+v, error %v", command, code, o, err)
			}
		}
	}
}

func TestAProgramThatIsNotInItsPlaceAnyMoreIsNoVerdict(t *testing.T) {
	// Nobody may write to it; who is not root makes it writable first.
	truncate := func(size int64) func(string) error {
		return func(path string) error {
			return errors.Join(os.Chmod(path, 0o755), os.Truncate(path, size), os.Chmod(path, 0o555))
		}
	}
	for name, spoil := range map[string]func(path string) error{
		"it is gone":            os.Remove,
		"it is shorter":         truncate(3),
		"it is empty":           truncate(0),
		"it is longer":          truncate(100_000),
		"it may not be started": func(path string) error { return os.Chmod(path, 0o444) },
		"it is a link": func(path string) error {
			if err := os.Rename(path, path+".moved"); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(path)+".moved", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: unexecuted(127, "exec /program/program: no such file or directory", func(c *box) {
				if err := spoil(c.host(wire.ProgramDir + "/program")); err != nil {
					t.Error(err)
				}
			})})
			o, err := l.judge(l.plain(&sink{}))
			if err == nil || !strings.Contains(err.Error(), "not what was placed there") {
				t.Errorf("outcome %+v, error %v; want a failure", o, err)
			}
		})
	}
}
