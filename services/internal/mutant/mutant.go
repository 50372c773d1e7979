// Package mutant names every control of the sandbox and can switch one of them off, to see which test notices.
//
// The switch exists in builds with the tag "mutants" alone. In every other build Off is a constant false, which the
// compiler removes with whatever depends on it; a test looks into the built programs for what would be left. The shim has
// a switch of its own, because it imports nothing of the services.
//
// make mutants goes through all of them.
package mutant

// Control is one control, by the name it is switched off with.
type Control string

// What the daemon is asked for, for every container (spec/sandbox.md 1.1).
const (
	User            Control = "mutant.user"
	EntryPoint      Control = "mutant.entry-point"
	Network         Control = "mutant.network"
	NetworkDisabled Control = "mutant.network-disabled"
	CapDrop         Control = "mutant.cap-drop"
	CapAdd          Control = "mutant.cap-add"
	NoNewPrivileges Control = "mutant.no-new-privileges"
	Seccomp         Control = "mutant.seccomp"
	ReadOnlyRoot    Control = "mutant.read-only-root"
	ReadOnlyMounts  Control = "mutant.read-only-mounts"
	TypedMounts     Control = "mutant.typed-mounts"
	Memory          Control = "mutant.memory"
	Swap            Control = "mutant.swap"
	Pids            Control = "mutant.pids"
	Processor       Control = "mutant.processor"
	Cpuset          Control = "mutant.cpuset"
	OpenFiles       Control = "mutant.open-files"
	FileSize        Control = "mutant.file-size"
	CoreDumps       Control = "mutant.core-dumps"
	CgroupParent    Control = "mutant.cgroup-parent"
	CgroupNamespace Control = "mutant.cgroup-namespace"
	IPC             Control = "mutant.ipc"
	Log             Control = "mutant.log"
	TmpNoExec       Control = "mutant.tmp-noexec"
	TmpSize         Control = "mutant.tmp-size"
	Healthcheck     Control = "mutant.healthcheck"
	Init            Control = "mutant.init"
	Labels          Control = "mutant.labels"
	HostName        Control = "mutant.host-name"
)

// What is refused or cleaned up around a container.
const (
	Volumes       Control = "mutant.volumes"
	RemoveVolumes Control = "mutant.remove-volumes"
	Socket        Control = "mutant.socket"
	SmallLimits   Control = "mutant.small-limits"
)

// Deadlines (spec/sandbox.md 5).
const (
	Ceiling      Control = "mutant.ceiling"
	Window       Control = "mutant.window"
	AbsoluteCap  Control = "mutant.absolute-cap"
	NeverStarted Control = "mutant.never-started"
	Brake        Control = "mutant.pressure-brake"
	Talking      Control = "mutant.talking"
	WallClock    Control = "mutant.wall-clock"
	JudgeClock   Control = "mutant.judge-clock"
	OpenDeadline Control = "mutant.open-deadline"
)

// What is measured and decided on (spec/sandbox.md 4).
const (
	Floor        Control = "mutant.floor"
	ZeroAtGo     Control = "mutant.zero-at-go"
	MemoryEvents Control = "mutant.memory-events"
	MemoryFlag   Control = "mutant.memory-flag"
	MemoryFirst  Control = "mutant.memory-first"
	HostMemory   Control = "mutant.host-memory"
	Nonce        Control = "mutant.nonce"
	ReportOwed   Control = "mutant.report-owed"
	ExitCode     Control = "mutant.exit-code"
	ExitAgrees   Control = "mutant.exit-agrees"
	HomeOwed     Control = "mutant.home-owed"
)

// Channels and what is collected (spec/sandbox.md 6, 1.4).
const (
	OutputCap    Control = "mutant.output-cap"
	BuildOutput  Control = "mutant.build-output"
	Drain        Control = "mutant.drain"
	RegularFile  Control = "mutant.regular-file"
	ArtefactName Control = "mutant.artefact-name"
	ArtefactCap  Control = "mutant.artefact-cap"
	ClosedFIFO   Control = "mutant.closed-channels"
	InputOwed    Control = "mutant.input-owed"
	CutShort     Control = "mutant.cut-short"
)

// What jobs share and leave (spec/sandbox.md 7.4; decisions 6 to 8).
const (
	OwnProgram    Control = "mutant.own-program"
	ShimClosed    Control = "mutant.shim-closed"
	NoLinks       Control = "mutant.no-links"
	HiddenCgroups Control = "mutant.hidden-cgroups"
	SweepOwn      Control = "mutant.sweep-own"
	SweepOthers   Control = "mutant.sweep-others"
	SweepHomes    Control = "mutant.sweep-homes"
	SweepNames    Control = "mutant.sweep-names"
	SweepCreated  Control = "mutant.sweep-created"
	SweepDead     Control = "mutant.sweep-dead"
	InstanceLock  Control = "mutant.instance-lock"
	HostLock      Control = "mutant.host-lock"
	BuildRoom     Control = "mutant.build-room"
	LaneTurns     Control = "mutant.lane-turns"
	SharedLanes   Control = "mutant.shared-lanes"
	JudgeLane     Control = "mutant.judge-lane"
	HomeLane      Control = "mutant.home-lane"
	TakenName     Control = "mutant.taken-name"
	KillFirst     Control = "mutant.kill-first"
)
