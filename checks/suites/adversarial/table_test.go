package adversarial

import (
	"slices"
	"strings"
	"time"
)

// kind is what an attack is about, in the words of the issue that asks for the suite.
type kind string

const (
	secrets     kind = "reading secrets and other tests' files"
	writing     kind = "writing anywhere"
	probing     kind = "/proc, /sys and /dev"
	keyrings    kind = "keyrings"
	sysv        kind = "System V IPC"
	posix       kind = "POSIX IPC"
	abstract    kind = "abstract sockets"
	locks       kind = "file locks"
	vsock       kind = "vsock"
	uring       kind = "io_uring"
	faults      kind = "userfaultfd"
	ebpf        kind = "bpf"
	perf        kind = "perf"
	tracing     kind = "ptrace of the shim"
	namespaces  kind = "namespaces"
	mounts      kind = "mount"
	setuid      kind = "setuid binaries"
	privileges  kind = "capabilities regained"
	bombs       kind = "fork bombs, thread bombs, zombie floods"
	survivors   kind = "survivors"
	heap        kind = "memory by heap"
	stack       kind = "memory by stack"
	bss         kind = "memory by bss"
	pageCache   kind = "memory by the file cache"
	tmpfs       kind = "memory by tmpfs"
	memfd       kind = "memory by memfd"
	childMemory kind = "memory by a child"
	mapped      kind = "memory by mapping the input"
	kernelMem   kind = "memory of the kernel"
	byThreads   kind = "processor time by threads"
	byChildren  kind = "processor time by children"
	byOrphans   kind = "processor time by orphans"
	idling      kind = "elapsed time without processor time"
	flood1      kind = "floods of standard output"
	flood2      kind = "floods of standard error"
	floodAny    kind = "floods of every other descriptor"
	forgery     kind = "forged reports"
	deep        kind = "deep directories, many inodes"
	sparse      kind = "sparse files"
	signals     kind = "signals to everything"
	clocks      kind = "clock tricks"
	argv        kind = "huge arguments and environments"
	rlimits     kind = "resource limits raised"
	network     kind = "networks"
	kernelDoors kind = "other doors into the kernel"
	faulting    kind = "faults"

	including   kind = "compiler: including and embedding host files"
	endless     kind = "compiler: endless includes"
	templates   kind = "compiler: template and constexpr bombs"
	gigantic    kind = "compiler: gigantic arrays and objects"
	diagnostics kind = "compiler: gigabytes of diagnostics"
	plugins     kind = "compiler: plugins and specs"
	linking     kind = "compiler: linker scripts"
	outputPaths kind = "compiler: absolute output paths"
	links       kind = "compiler: links left for collection"
	hijacked    kind = "compiler: taken over"
	ordinary    kind = "controls: what must not be taken for an attack"
)

// probe is one thing that is tried in a container together with others.
type probe struct {
	name string // as the attacking program prints it
	kind kind
	from string // where the attack comes from: a case of the field, a section, or "own"
	// want is what must come of it: the names of the errors that may be seen, or "ok" for what a submission may do.
	want string
	// control is what comes of it outside of a sandbox, as root; "ok" when empty. It differs from want.
	control string
	// nowhere says why the probe fails outside too, if it does; then control is not looked at.
	nowhere string
	// lanes says that it takes a host with two processors to tell one result from the other.
	lanes bool
}

// expected is what must come of a run or a build. What is zero is not looked at, except exit of a run that ends by itself.
type expected struct {
	stop    string // as sandbox.Stop names it; several may be named, with "|"
	exit    int
	exits   []int         // if it may be one of several
	atLeast time.Duration // charged processor time
	atMost  time.Duration
	// peak is within these, in MiB.
	peakFrom, peakTo float64
	// wall is at least this.
	wall   time.Duration
	says   []string // all of them are in the output
	silent []string // none of them is
	capped bool
	// unloaded: the program never ran, so that there is no peak.
	unloaded bool
}

// attack is a run with a container of its own.
type attack struct {
	name  string
	kind  kind
	from  string
	words []string // of the attacking program
	// program changes the attacking program's file, or replaces it: what a compiler would leave for a hostile source.
	program func(attack []byte) []byte
	limit   limit
	input   int // MiB of input; otherwise a line
	want    expected
	// driver: the outcome depends on the cgroup driver, so that it is seen under both in every test.
	driver bool
}

// limit of a run: processor time in milliseconds, and MiB.
type limit struct{ ms, mib int }

// build is an attack on a compiler or on what is collected from it.
type build struct {
	name string
	kind kind
	from string
	// toolchain is the one whose image and build line are used; the small image's shell when it is empty, which plays a
	// compiler that was taken over.
	toolchain string
	// command replaces the toolchain's build line, in its image.
	command string
	source  string
	want    builtExpected
	// impatient: it does not end, and is given less time than a real build.
	impatient bool
	driver    bool
}

// builtExpected is what must come of a build.
type builtExpected struct {
	stop string // several may be named, with "|"
	// fails: it ends by itself with a code that is not 0. Otherwise, if it ends by itself, the code is 0.
	fails bool
	// artefact: there is one.
	artefact bool
	// odd is what was left that is no file.
	odd string
	// refused is in the error: the machinery does not take what was left.
	refused string
	says    []string
	silent  []string
	capped  bool
}

// oneOf says whether a word is one of those that are named, with "|" between them.
func oneOf(word, named string) bool { return slices.Contains(strings.Split(named, "|"), word) }
