package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/evalhost/evalhost/shim/wire"
)

// instructions are what the Runner says in the environment.
type instructions struct {
	nonce  string
	report string // path of the report channel; "" for standard error
	cgroup string // where the home is mounted
	memory string // the submission's limit, still to be read
	// environment is the submission's: the container's own without the four variables above.
	environment []string
}

// secrets are the variables whose values are destroyed, each as it begins in an environment block.
var secrets = [...]string{
	wire.EnvNonce + "=", wire.EnvReport + "=", wire.EnvCgroup + "=", wire.EnvMemoryBytes + "=",
}

// maxNonce is how much of a nonce is kept (spec/sandbox.md 3.1).
const maxNonce = 127

// takeInstructions reads the Runner's four variables and destroys them where other processes could see them. The Go
// runtime copied the environment when it started, so the values are still here afterwards, on the heap, where no other
// user can read them. What could be read is returned with an error too: it says where to complain.
func takeInstructions() (instructions, error) {
	given := instructions{
		nonce:       os.Getenv(wire.EnvNonce),
		report:      os.Getenv(wire.EnvReport),
		cgroup:      os.Getenv(wire.EnvCgroup),
		memory:      os.Getenv(wire.EnvMemoryBytes),
		environment: withoutSecrets(os.Environ()),
	}
	given.nonce = given.nonce[:min(len(given.nonce), maxNonce)]
	if err := scrubEnvironment(); err != nil {
		return given, err
	}
	if given.nonce == "" {
		return given, &failure{what: "read the environment", reason: "no " + wire.EnvNonce + " in the environment"}
	}
	return given, nil
}

// memoryLimit decides whether there is a box. None is made, and the limit is 0, when neither variable is set or the
// limit is not positive; half an order and a limit that is not a number are refused, because the submission would run
// without a limit.
func (given *instructions) memoryLimit() (int64, error) {
	if given.cgroup == "" && given.memory == "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(given.memory, 10, 64)
	if err != nil {
		return 0, &failure{
			what:   "read " + wire.EnvMemoryBytes,
			reason: strconv.Quote(given.memory) + " is not a number of bytes",
		}
	}
	if limit > 0 && given.cgroup == "" {
		return 0, &failure{what: "read " + wire.EnvCgroup, reason: "a memory limit is given and no cgroup to hold it"}
	}
	return max(limit, 0), nil
}

// makeBox makes the box that was asked for; nil if none was.
func (given *instructions) makeBox() (*box, error) {
	limit, err := given.memoryLimit()
	if err != nil || limit == 0 {
		return nil, err
	}
	return makeBox(given.cgroup, limit)
}

// withoutSecrets returns the environment without the Runner's variables.
func withoutSecrets(environment []string) []string {
	kept := make([]string, 0, len(environment))
	for _, entry := range environment {
		if !isSecret([]byte(entry)) || off("mutant.shim.environment") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func isSecret(entry []byte) bool {
	for _, name := range secrets {
		if bytes.HasPrefix(entry, []byte(name)) {
			return true
		}
	}
	return false
}

// scrubEnvironment overwrites the values of the Runner's variables with `x` in the memory that /proc/<pid>/environ
// shows, and reads that file to see that it worked. Removing a variable does not change that memory; neither does writing
// to a Go string, which is a copy. It fails if the memory cannot be found or written: a secret that stays readable is no
// secret.
func scrubEnvironment() error {
	if off("mutant.shim.scrub") {
		return nil
	}
	stat, err := readFile("/proc/self/stat")
	if err != nil {
		return err
	}
	start, end, err := environmentRange(stat)
	if err != nil {
		return err
	}
	const path = "/proc/self/mem"
	memory, err := open(path, syscall.O_RDWR)
	if err != nil {
		return &failure{what: "open " + path, err: err}
	}
	defer syscall.Close(memory)
	block := make([]byte, end-start)
	if n, err := syscall.Pread(memory, block, start); err != nil || n != len(block) {
		return &failure{what: "read the environment from " + path, reason: shortOr(err)}
	}
	if scrub(block) {
		if n, err := syscall.Pwrite(memory, block, start); err != nil || n != len(block) {
			return &failure{what: "overwrite the environment in " + path, reason: shortOr(err)}
		}
	}
	shown, err := readFile("/proc/self/environ")
	if err != nil {
		return err
	}
	if scrub(shown) {
		return &failure{what: "overwrite the environment", reason: "/proc/self/environ still shows it"}
	}
	return nil
}

func shortOr(err error) string {
	if err != nil {
		return err.Error()
	}
	return "fewer bytes than there are"
}

// scrub overwrites the secret values in a block of NUL-terminated entries. It tells whether anything changed.
func scrub(block []byte) (changed bool) {
	for len(block) > 0 {
		entry := block
		if end := bytes.IndexByte(block, 0); end >= 0 {
			entry, block = block[:end], block[end+1:]
		} else {
			block = nil
		}
		if !isSecret(entry) {
			continue
		}
		value := entry[bytes.IndexByte(entry, '=')+1:]
		for i := range value {
			if value[i] != 'x' {
				value[i], changed = 'x', true
			}
		}
	}
	return changed
}

// environmentRange finds where the environment lies in memory: fields 50 and 51 of /proc/<pid>/stat (proc_pid_stat(5)).
// The second field is the program's name in parentheses and may hold anything, so counting starts after the last `)`.
func environmentRange(stat []byte) (start, end int64, err error) {
	const firstAfterName, startField, endField = 3, 50, 51
	refused := &failure{what: "read /proc/self/stat", reason: "no place of the environment in it"}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= endField-firstAfterName {
		return 0, 0, refused
	}
	start, startErr := strconv.ParseInt(fields[startField-firstAfterName], 10, 64)
	end, endErr := strconv.ParseInt(fields[endField-firstAfterName], 10, 64)
	const most = 64 << 20 // far above what execve accepts
	if startErr != nil || endErr != nil || start <= 0 || end < start || end-start > most {
		return 0, 0, refused
	}
	return start, end, nil
}
