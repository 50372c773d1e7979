package sandbox

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

// The numbers of the six profiles (spec/sandbox.md 0.4 and 1.2).
const (
	buildMemory   = 512 * verdict.MiB
	buildPids     = 128
	buildWall     = 60 * time.Second // times Config.BuildWallFactor
	buildFileSize = 64 * verdict.MiB
	buildTmp      = 64 * verdict.MiB
	buildOutput   = 256 * verdict.KiB // standard output and standard error together

	// judgedAllowance is what a judged container gets above the problem's limit, which stands on the box: room for the
	// shim and for the runtime's start.
	judgedAllowance = 64 * verdict.MiB

	judgeMemory = 256 * verdict.MiB
	judgePids   = 16
	judgeClock  = 30 * time.Second  // from the submission's end; see judge.go
	judgeOutput = 64 * verdict.KiB  // a checker's two streams together; an interactor's answer
	runFileSize = 256 * verdict.MiB // of everything that is not a build
)

// containerName is what a run's container is called.
func containerName(run cgroup.Name) string { return "evalhost-" + string(run) }

// step is what every profile is told.
type step struct {
	run      cgroup.Name
	instance string
	image    engine.Image
	home     *cgroup.Home
	cpuset   string
}

func (s step) spec() engine.Spec {
	return engine.Spec{
		Name: containerName(s.run), Instance: s.instance, Image: s.image, Cpuset: s.cpuset, Parent: s.home.Parent,
	}
}

// buildProfile is the container of either build. A submission's and a judging program's builds differ in what a failure
// means and in nothing that is asked of the daemon.
func buildProfile(s step, command []string, source, said string) engine.Spec {
	spec := s.spec()
	spec.Argv = saying(command)
	spec.WritableRoot = true
	spec.Tmp = buildTmp
	spec.Memory = buildMemory
	spec.Pids = buildPids
	spec.FileSize = buildFileSize
	spec.Mounts = []engine.Mount{{Source: source, Target: wire.SourceDir}, {Source: said, Target: wire.OutputDir}}
	return spec
}

// The channels of what a build or a checker says, in the directory mounted at wire.OutputDir.
const (
	saidOut = "stdout"
	saidErr = "stderr"
)

// saying is a command whose two outputs go to the Runner's channels, opened by a shell that becomes the command.
func saying(command []string) []string {
	script := `exec "$@" >` + wire.OutputDir + "/" + saidOut + " 2>" + wire.OutputDir + "/" + saidErr
	return append([]string{"/bin/sh", "-c", script, "sh"}, command...)
}

// judged is what the judged profiles are told besides.
type judged struct {
	command  []string
	memory   verdict.Bytes
	nonce    string
	shim     string // host path of the job's copy; empty for the image's own
	program  string // host directories and files
	channels string
	nothing  string // an empty directory
	input    string // empty for an interactive run
	test     string
}

// judgedProfile is the container of a judged run, batch or interactive. It is the only profile that starts as root, and
// the only one with capabilities: the shim needs them to drop to nobody.
func judgedProfile(s step, j judged) engine.Spec {
	spec := s.spec()
	in := wire.StdinPath
	if j.input != "" {
		in = wire.InputDir + "/" + j.test + ".in"
	}
	// No shell: the shim is PID 1 from its first instruction, and an image needs no /bin/sh.
	spec.Argv = append([]string{wire.ShimPath, in, wire.StdoutPath}, j.command...)
	spec.Env = []string{
		wire.EnvNonce + "=" + j.nonce,
		wire.EnvReport + "=" + wire.ReportPath,
		wire.EnvCgroup + "=" + wire.CgroupPath,
		wire.EnvMemoryBytes + "=" + strconv.FormatInt(int64(j.memory), 10),
	}
	spec.Shim = true
	spec.Memory = addBytes(j.memory, judgedAllowance)
	spec.Pids = wire.PidsLimitContainer
	spec.FileSize = runFileSize
	spec.Mounts = []engine.Mount{
		// The submission is nobody, and everything of the directory belongs to root: it can open none of the channels.
		// Read-only all the same; a channel can be opened for writing on a read-only mount.
		{Source: j.channels, Target: wire.OutputDir},
		{Source: j.program, Target: wire.ProgramDir},
		// Where the shim makes the box. Writable by owner only, and the submission is not the owner.
		{Source: s.home.Source, Target: wire.CgroupPath, Writable: true},
		// In the host's cgroup namespace the runtime's own mount would show every cgroup of this machine, those of other
		// lanes' submissions too.
		{Source: j.nothing, Target: "/sys/fs/cgroup"},
	}
	if mutant.Off(mutant.HiddenCgroups) {
		spec.Mounts = spec.Mounts[:3]
	}
	if j.input != "" {
		spec.Mounts = append(spec.Mounts, engine.Mount{Source: j.input, Target: in})
	}
	if j.shim != "" {
		spec.Mounts = append(spec.Mounts, engine.Mount{Source: j.shim, Target: wire.ShimPath})
	}
	return spec
}

// judging is what the two judges' profiles are told besides.
type judging struct {
	command  []string
	program  string // host directories
	tests    string
	channels string
	said     string // of a checker
	test     string
	group    uint32
}

func judgeProfile(s step, j judging) engine.Spec {
	spec := s.spec()
	spec.Env = []string{"AJ_TEST=" + j.test, "AJ_GROUP=" + strconv.FormatUint(uint64(j.group), 10)}
	spec.Memory = judgeMemory
	spec.Pids = judgePids
	spec.FileSize = runFileSize
	spec.Mounts = []engine.Mount{
		{Source: j.program, Target: wire.ProgramDir},
		{Source: j.tests, Target: wire.InputDir},
	}
	return spec
}

// checkerProfile is the container of a checker. It reads the submission's output from a channel and answers on its own
// standard output.
func checkerProfile(s step, j judging) engine.Spec {
	spec := judgeProfile(s, j)
	spec.Argv = saying(append(append([]string{}, j.command...),
		wire.InputDir+"/"+j.test+".in", wire.AnswersDir+"/"+j.test+".out", wire.InputDir+"/"+j.test+".out"))
	spec.Mounts = append(spec.Mounts,
		engine.Mount{Source: j.channels, Target: wire.AnswersDir}, engine.Mount{Source: j.said, Target: wire.OutputDir})
	return spec
}

// The interactor's channels, as file names in its channel directory.
const (
	toJudge   = "to-the-judge"
	fromJudge = "from-the-judge"
	verdictOf = "verdict"
)

// interactorProfile is the container of an interactor. Its standard input and output are channels, opened by a shell that
// becomes the interactor, and it answers on a channel of its own.
func interactorProfile(s step, j judging) engine.Spec {
	spec := judgeProfile(s, j)
	words := append(append([]string{}, j.command...),
		wire.InputDir+"/"+j.test+".in", wire.AnswersDir+"/"+verdictOf, wire.InputDir+"/"+j.test+".out")
	spec.Argv = []string{
		"/bin/sh", "-c", "exec " + quote(words...) +
			" < " + quote(wire.AnswersDir+"/"+toJudge) + " > " + quote(wire.AnswersDir+"/"+fromJudge),
	}
	spec.Mounts = append(spec.Mounts, engine.Mount{Source: j.channels, Target: wire.AnswersDir, Writable: true})
	return spec
}

// quote writes words so that a POSIX shell reads exactly those words.
func quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// addBytes adds sizes that are not negative, saturating: nothing bounds the limit of a package above.
func addBytes(a, b verdict.Bytes) verdict.Bytes {
	if a > 1<<63-1-b {
		return 1<<63 - 1
	}
	return a + b
}

// isComponent says whether a name is a single path component that is no special one.
func isComponent(name string) bool {
	return name != "" && name != "." && name != ".." && name == filepath.Base(name) && !strings.ContainsRune(name, 0)
}
