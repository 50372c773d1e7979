package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestAProgramIsLookedUpAsExecvpDoes(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"a/prog", "b/prog", "c/prog", "b/only-b"} {
		full := filepath.Join(root, file)
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, nil, 0o755))
	}
	t.Chdir(filepath.Join(root, "c"))
	a, b := root+"/a", root+"/b"
	for name, test := range map[string]struct {
		program, path string
		answers       map[string]error // a file that is not here starts
		tried         []string
		errno         error // nil: started
	}{
		"the first directory that has it": {"prog", a + ":" + b, nil, []string{a + "/prog"}, nil},
		"directories without it cost no attempt": {
			"only-b", a + ":/nonexistent:" + a + "/prog:" + b, nil, []string{b + "/only-b"}, nil,
		},
		"no permission goes on looking": {
			"prog", a + ":" + b, map[string]error{a + "/prog": syscall.EACCES}, []string{a + "/prog", b + "/prog"}, nil,
		},
		"no permission anywhere": {
			"prog", a + ":" + b,
			map[string]error{a + "/prog": syscall.EACCES, b + "/prog": syscall.ENOENT},
			[]string{a + "/prog", b + "/prog"},
			syscall.EACCES,
		},
		"found with nothing to load it": {
			"prog", a, map[string]error{a + "/prog": syscall.ENOENT}, []string{a + "/prog"}, syscall.ENOENT,
		},
		"a format the kernel does not know stops the search": {
			"prog", a + ":" + b, map[string]error{a + "/prog": syscall.ENOEXEC}, []string{a + "/prog"}, syscall.ENOEXEC,
		},
		"nowhere": {"absent", a + ":" + b, nil, nil, syscall.ENOENT},
		"an empty element is the working directory":   {"prog", ":" + a, nil, []string{"./prog"}, nil},
		"a name with a slash is not searched for":     {"./x/prog", a, nil, []string{"./x/prog"}, nil},
		"a name with a slash that does not exist":     {"/x", a, map[string]error{"/x": syscall.ENOENT}, []string{"/x"}, syscall.ENOENT},
		"an empty name is no file":                    {"", a, nil, nil, syscall.ENOENT},
		"an empty path is the working directory only": {"prog", "", nil, []string{"./prog"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var tried []string
			err := search(test.program, test.path, func(file string) error {
				tried = append(tried, file)
				return test.answers[file]
			})
			if !slices.Equal(tried, test.tried) {
				t.Errorf("tried %q, want %q", tried, test.tried)
			}
			var exec *execFailure
			switch {
			case test.errno == nil && err != nil:
				t.Errorf("error %v, want none", err)
			case test.errno != nil && (!errors.As(err, &exec) || exec.errno != test.errno):
				t.Errorf("error %v, want %v", err, test.errno)
			}
		})
	}
}

func TestAFailedStartIsTheProgramsFateOrTheShimsFailureButNeverTheOtherOne(t *testing.T) {
	for errno, code := range map[syscall.Errno]int{
		syscall.ENOENT: 127, syscall.ENOTDIR: 127,
		syscall.EACCES: 126, syscall.ENOEXEC: 126, syscall.ELIBBAD: 126, syscall.EIO: 126,
		syscall.EISDIR: 126, syscall.ELOOP: 126, syscall.ENAMETOOLONG: 126,
	} {
		exec, isExec := judgeExec("p", errno).(*execFailure)
		if !isExec || exec.fate().exitCode != code {
			t.Errorf("%v is not the program's fate with code %d", errno, code)
		}
	}
	for _, errno := range []syscall.Errno{
		syscall.EPERM, syscall.EINVAL, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.E2BIG, syscall.ETXTBSY,
	} {
		if _, isFailure := judgeExec("p", errno).(*failure); !isFailure {
			t.Errorf("%v is not the shim's failure", errno)
		}
	}
}

func TestThePathOfTheEnvironmentIsUsedAndAPlainOneWithoutIt(t *testing.T) {
	if got := pathOf([]string{"LANG=C", "PATH=/x:/y"}); got != "/x:/y" {
		t.Errorf("pathOf = %q", got)
	}
	if got := pathOf([]string{"LANG=C"}); got != defaultPath {
		t.Errorf("pathOf without PATH = %q, want %q", got, defaultPath)
	}
	if got := pathOf([]string{"PATH="}); got != "" {
		t.Errorf("pathOf with an empty PATH = %q", got)
	}
}
