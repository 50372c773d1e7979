// Package wire is what the two sides of a judged container share: the Runner, which starts it, and the shim, which is
// its PID 1. It holds the names of the environment variables, the paths inside the container, the numbers both sides
// must agree on, and the report line (spec/sandbox.md 3.1 and 3.7).
//
// The contract is the one of AlgoJudge's `aj-shim1`, so that either side can be exchanged with AlgoJudge's.
//
// What a judged container needs for the shim to do its work. Where something is missing that the shim can see, it
// refuses to run the program:
//
//   - user 0:0, all capabilities dropped but SETUID and SETGID, Docker's own seccomp profile, no-new-privileges;
//   - the host's cgroup namespace, and the run's home mounted read-write on CgroupPath: the cgroup that is the container's
//     CgroupParent, whatever the runtime puts in between;
//   - the shim itself on ShimPath, and what it opens as root (input, output, report) owned by root: without
//     CAP_DAC_OVERRIDE, ownership is all it has;
//   - a memory limit some 64 MiB above the submission's, PidsLimitContainer, and no swap;
//   - Yama's ptrace_scope below 2 on the host, and a kernel of 5.19 or later.
//
// The package imports nothing of this project and very little of the standard library: everything it imports becomes
// part of the shim's start, which is repeated for every test. That is why making a nonce lives in its own package.
package wire

// Version is the word after the nonce in every line the shim writes. A shim that writes another word speaks another
// contract, and its lines are not reports.
const Version = "aj-shim1"

// FeatureMarker is found as plain bytes in the shim's binary, and printed by `aj-shim --features`: this shim accepts a
// Unix socket as its input.
const FeatureMarker = "aj-shim-features: socket-input"

// The environment of the shim (spec/sandbox.md 3.1). The submission never sees any of these: the shim overwrites the
// values in its own memory before it opens anything, and leaves the names out of the submission's environment.
const (
	// EnvNonce carries the secret that marks this run's report: 32 hexadecimal digits. Mandatory.
	EnvNonce = "AJ_SHIM_NONCE"
	// EnvReport is the path of the report channel inside the container. Absent: the report goes to standard error.
	EnvReport = "AJ_SHIM_REPORT"
	// EnvCgroup is where the *parent* of the container's cgroup (the run's home) is mounted inside the container.
	EnvCgroup = "AJ_SHIM_CGROUP"
	// EnvMemoryBytes is the memory limit of the submission: a decimal number of bytes.
	EnvMemoryBytes = "AJ_SHIM_MEMORY_BYTES"
)

// Paths inside containers (spec/sandbox.md 0.4). They are fixed: an image, a command line and a mount agree on them.
const (
	// ShimPath is where the Runner mounts its shim, read-only, mode 0500, owned by root.
	ShimPath = "/usr/local/bin/aj-shim"
	// CgroupPath is where the run's home is mounted read-write; the value of EnvCgroup.
	CgroupPath = "/aj/cgroup"
	// OutputDir holds the channels of a judged run. The directory and its FIFOs are root's: container root has no
	// CAP_DAC_OVERRIDE and opens them only because it owns them.
	OutputDir = "/aj-out"
	// StdinPath is the input of an interactive run (a FIFO), or the socket a descriptor is handed over.
	StdinPath = OutputDir + "/stdin"
	// StdoutPath is the FIFO that becomes the submission's standard output. Opening it is the barrier of a run that
	// was started ahead: the shim waits there until the Runner opens the reading end.
	StdoutPath = OutputDir + "/stdout"
	// ReportPath is the FIFO of the report; the value of EnvReport.
	ReportPath = OutputDir + "/report"
	// InputDir is where a test's input is mounted in a judged run, and the package's tests in a judge's.
	InputDir = "/in"
	// ProgramDir holds the built artefact, read-only.
	ProgramDir = "/program"
	// SourceDir holds what a build compiles, read-only.
	SourceDir = "/src"
	// BuildDir is where a build leaves its artefact.
	BuildDir = "/out"
	// AnswersDir holds the channels of a checker or an interactor.
	AnswersDir = "/answers"
	// WorkDir is the working directory of every container.
	WorkDir = "/work"
)

// Nobody is the user and the group every submission runs as.
const Nobody = 65534

// How many processes there are room for (docs/decisions). The shim is a Go program and has threads of its own, which the
// kernel counts like processes; so the container's limit has room for them, and the submission's own limit stands on
// its box. 32 leaves the shim 17 tasks; it was seen to use at most 7.
const (
	// PidsLimitContainer is HostConfig.PidsLimit of a judged container.
	PidsLimitContainer = 32
	// PidsMaxBox is pids.max of the box: tasks (processes and threads) the submission may have at once.
	PidsMaxBox = 15
)

// Names of the two cgroups the shim makes inside the container's own cgroup.
const (
	// ShimCgroup holds the shim: a cgroup holds processes or delegates controllers, never both.
	ShimCgroup = "shim"
	// BoxCgroup holds the submission and nothing else.
	BoxCgroup = "box"
)

// Exit codes of a judged container (spec/sandbox.md 3.8). Anything else is the submission's own code, or 128 plus the
// number of the signal that ended it. The submission may exit with these codes too: the report tells the difference.
const (
	// ExitShimFailed: the shim could not do its work. Never a verdict.
	ExitShimFailed = 125
	// ExitNotRunnable: the program was found and could not be run.
	ExitNotRunnable = 126
	// ExitNotFound: there is no such program.
	ExitNotFound = 127
	// ExitSignalBase is added to the number of the signal that ended the submission.
	ExitSignalBase = 128
)

// Bytes is a size in bytes.
type Bytes int64
