package main

// mutation is one control, switched off, and the test that has to notice.
type mutation struct {
	control string
	removed string // what is missing then
	// pkg is the directory of the unit test that notices, test its name.
	pkg, test string
	// inGuest names a test of the sandbox's suite that notices on a real host; empty where the unit test says it all.
	inGuest string
}

const (
	inEngine  = "services/internal/engine"
	inSandbox = "services/internal/sandbox"
	inCgroup  = "services/internal/cgroup"
	inShim    = "shim"

	golden     = "TestTheDaemonIsAskedForExactlyThis"
	fromInside = "TestTheProbeSeesTheContainerFromInside"
	whenAndWhy = "TestWhenARunIsStoppedAndWhy"
	hostile    = "TestAHostileRunInALaneIsMeasuredLikeAnyOther"
)

// mutations is every control of the sandbox and of the shim, in the order of the specification. A test of this package
// makes sure that none is missing.
var mutations = []mutation{
	{"mutant.user", "the image's own user instead of 65534", inSandbox, golden, fromInside},
	{"mutant.entry-point", "the image's own entry point comes first", inSandbox, golden, ""},
	{"mutant.network", "the host's network", inSandbox, golden, ""},
	{"mutant.network-disabled", "the second switch of the network", inSandbox, golden, ""},
	{"mutant.cap-drop", "Docker's default capabilities stay", inSandbox, golden, fromInside},
	{"mutant.cap-add", "SETUID and SETGID for everybody", inSandbox, golden, fromInside},
	{"mutant.no-new-privileges", "setuid files work; the daemon's own setting is left", inSandbox, golden, ""},
	{"mutant.seccomp", "no filter of system calls", inSandbox, golden, fromInside},
	{"mutant.read-only-root", "a writable root", inSandbox, golden, fromInside},
	{"mutant.read-only-mounts", "every mount writable", inSandbox, golden, ""},
	{"mutant.typed-mounts", "binds, whose missing source is made", inSandbox, golden, ""},
	{"mutant.memory", "no memory limit on the container", inSandbox, golden, fromInside},
	{"mutant.swap", "the container may swap", inSandbox, golden, ""},
	{"mutant.pids", "no limit on processes of the container", inSandbox, golden, fromInside},
	{"mutant.processor", "all processors at once", inSandbox, golden, ""},
	{"mutant.cpuset", "not pinned to its lane", inSandbox, golden, "TestEveryContainerIsPinnedToItsLane"},
	{"mutant.open-files", "the daemon's limit on open files", inSandbox, golden, hostile},
	{"mutant.file-size", "files of any size", inSandbox, golden, hostile},
	{"mutant.core-dumps", "core dumps", inSandbox, golden, hostile},
	{"mutant.cgroup-parent", "the container outside its home", inSandbox, golden, ""},
	{"mutant.cgroup-namespace", "the host's cgroup names for everybody", inSandbox, golden, ""},
	{"mutant.ipc", "the host's shared memory", inSandbox, golden, ""},
	{"mutant.log", "the daemon keeps what is said", inSandbox, golden, ""},
	{"mutant.tmp-noexec", "a /tmp that executes", inSandbox, golden, "TestABuildsContainerIsClosed"},
	{"mutant.tmp-size", "a /tmp of any size", inSandbox, golden, "TestABuildsContainerIsClosed"},
	{"mutant.healthcheck", "the image's health check runs inside", inSandbox, golden, ""},
	{"mutant.init", "an init of the daemon's may be PID 1", inSandbox, golden, ""},
	{"mutant.labels", "containers that no sweep finds", inSandbox, golden, ""},
	{"mutant.host-name", "the container's id as host name", inSandbox, golden, ""},
	{"mutant.volumes", "images with volumes", inEngine, "TestASpecThatAsksForLessThanASandboxIsRefused", "TestAnImageThatDeclaresAVolumeIsRefused"},
	{"mutant.socket", "the daemon's socket may be mounted", inEngine, "TestASpecThatAsksForLessThanASandboxIsRefused", ""},
	{"mutant.small-limits", "a memory limit of zero, which is none", inEngine, "TestASpecThatAsksForLessThanASandboxIsRefused", ""},
	{"mutant.remove-volumes", "anonymous volumes stay", inEngine, "TestRemovingWaitsForARemovalThatIsUnderWayAndIgnoresACancelledJob", ""},

	{"mutant.ceiling", "no ceiling on processor time", inSandbox, whenAndWhy, "TestWhatDoesNotEndIsStopped"},
	{"mutant.window", "no window on progress", inSandbox, whenAndWhy, "TestEachWayOfNotEndingIsEndedByItsOwnDeadline"},
	{"mutant.absolute-cap", "no cap on elapsed time", inSandbox, whenAndWhy, ""},
	{"mutant.never-started", "what never started is a verdict", inSandbox, whenAndWhy, "TestAShimThatHangsBeforeItsProgramIsNoVerdict"},
	{"mutant.pressure-brake", "the window runs while a neighbour has the processor", inSandbox, whenAndWhy, "TestAProgramWhoseLaneANeighbourStarvesIsNotStoppedForMakingNoProgress"},
	{"mutant.talking", "bytes that cross are no progress", inSandbox, whenAndWhy, ""},
	{"mutant.wall-clock", "builds and judges without a clock", inSandbox, whenAndWhy, ""},
	{"mutant.judge-clock", "a judge may go on for ever", inSandbox, "TestAJudgeThatDoesNotEndIsStoppedByItsClock", ""},
	{"mutant.open-deadline", "a channel that nobody opens is waited for", inSandbox, "TestNobodyComesWithinTheDeadline", ""},

	{"mutant.floor", "the shim's report alone is charged", inSandbox, "TestWhatAJudgedRunIsChargedFollowsTheGapRule", ""},
	{"mutant.zero-at-go", "starting the container is charged", inSandbox, "TestEverythingIsCountedFromGo", ""},
	{"mutant.memory-events", "the kernel's count of kills is not read", inSandbox, "TestAMemoryKillNeedsTheLimitToHaveBeenReached", ""},
	{"mutant.memory-flag", "the runtime's word is not read", inSandbox, "TestAMemoryKillNeedsTheLimitToHaveBeenReached", ""},
	{"mutant.memory-first", "another stop outranks memory", inSandbox, "TestMemoryOutranksEveryOtherStop", ""},
	{"mutant.host-memory", "the host's lack of memory is the submission's", inSandbox, "TestAHostThatRunsOutOfMemoryIsNoVerdict", ""},
	{"mutant.nonce", "whoever writes to the report channel is believed", inSandbox, "TestWithoutTheShimsReportNothingIsKnown", ""},
	{"mutant.report-owed", "a run without a report has an outcome", inSandbox, "TestARunThatEndedByItselfOwesAReport", "TestARunWhoseContainerIsTakenAwayHasNoOutcome"},
	{"mutant.exit-code", "a lost exit code reads as 0", inSandbox, "TestWithoutAnExitCodeThereIsNoOutcome", ""},
	{"mutant.exit-agrees", "an exit code that is not the reported one is judged", inSandbox, "TestAnExitCodeThatIsNotTheReportedOneIsNoOutcome", ""},
	{"mutant.home-owed", "a home that was taken away reads as no kill", inSandbox, "TestAHomeThatIsTakenAwayInTheMiddleIsNoOutcome", ""},

	{"mutant.output-cap", "output without end", inSandbox, "TestOneByteMoreThanTheCapStopsOnceAndTheRestIsDrained", "TestExactlyTheOutputCapIsLegalAndOneByteMoreIsNot"},
	{"mutant.drain", "reading stops before the end", inSandbox, "TestAfterTheAnswerIsSettledTheRestIsDrainedAndNeverCapped", ""},
	{"mutant.build-output", "diagnostics without end", inSandbox, "TestTheTwoStreamsOfABuildAreCountedTogether", ""},
	{"mutant.closed-channels", "the submission may open its channels", inSandbox, "TestEachRunHasItsOwnInodesAndTheShimIsClosedToNobody", hostile},
	{"mutant.input-owed", "a submission whose input nobody opened is judged", inSandbox, "TestAnInputThatNobodyOpensIsNoOutcome", ""},
	{"mutant.cut-short", "a part of what one side said is taken for the whole", inSandbox, "TestAChannelThatBreaksBetweenTheTwoIsNoOutcome", ""},
	{"mutant.regular-file", "an artefact may be a link or a device", inSandbox, "TestHostileArchivesAreRefused", ""},
	{"mutant.artefact-name", "an artefact may have another name", inSandbox, "TestHostileArchivesAreRefused", ""},
	{"mutant.artefact-cap", "an artefact of any size", inSandbox, "TestTheCapOfAnArtefactIsExact", ""},

	{"mutant.own-program", "lanes share the program's inode", inSandbox, "TestEachRunHasItsOwnInodesAndTheShimIsClosedToNobody", hostile},
	{"mutant.shim-closed", "the submission may read and run the shim", inSandbox, "TestEachRunHasItsOwnInodesAndTheShimIsClosedToNobody", ""},
	{"mutant.no-links", "links are followed when copying", inSandbox, "TestCopiesFollowNoLinks", ""},
	{"mutant.hidden-cgroups", "every cgroup of the host can be seen", inSandbox, golden, hostile},
	{"mutant.sweep-own", "what an earlier life left stays", inSandbox, "TestASweepRemovesItsOwnTheDeadAndTheNamelessAndNothingElse", "TestASweepFindsWhatADeadOwnerLeft"},
	{"mutant.sweep-others", "another's live containers are removed", inSandbox, "TestASweepRemovesItsOwnTheDeadAndTheNamelessAndNothingElse", "TestASweepFindsWhatADeadOwnerLeft"},
	{"mutant.sweep-homes", "cgroups and scratch of an earlier life stay", inSandbox, "TestASweepRemovesItsOwnTheDeadAndTheNamelessAndNothingElse", "TestASweepFindsWhatADeadOwnerLeft"},
	{"mutant.sweep-names", "a name that begins like ours is ours", inCgroup, "TestARunBelongsToExactlyOneInstance", ""},
	{"mutant.sweep-created", "containers that were never started stay", inEngine, "TestContainersAreListedWithTheirInstances", ""},
	{"mutant.sweep-dead", "what a killed local command left stays", inSandbox, "TestASweepRemovesItsOwnTheDeadAndTheNamelessAndNothingElse", ""},
	{"mutant.instance-lock", "two of one instance at once", inSandbox, "TestTwoOfOneInstanceCannotLiveAtOnce", "TestTwoInstancesDoNotTouchEachOther"},
	{"mutant.host-lock", "a command and a Runner judge at once", inSandbox, "TestOneJobAtATimeOnAHostThatIsLocked", ""},
	{"mutant.build-room", "a full disk of the host is the source's fault", inSandbox, "TestAFullDiskOfTheHostIsNotTheSourcesFault", ""},
	{"mutant.lane-turns", "two runs at once in one lane", inSandbox, "TestTwoRunsNeverGoAtOnceInOneLane", ""},
	{"mutant.shared-lanes", "lanes that share a processor", inSandbox, "TestLanesThatShareAProcessorAreRefused", ""},
	{"mutant.judge-lane", "a judging program runs where other tests are measured", inSandbox, "TestEveryContainerIsAskedForInItsOwnLane", "TestEveryContainerIsPinnedToItsLane"},
	{"mutant.home-lane", "a run goes on outside of its lane when the slice's set changes", inSandbox, "TestARunIsNotMadeInAHomeThatMayNotUseItsLane", ""},
	{"mutant.taken-name", "a taken name ends its owner's run", inCgroup, "TestANameThatIsTakenIsRefusedAndItsOwnerIsLeftAlone", "TestAHomeIsNeverSharedAndALivingOneCanBeRemoved"},
	{"mutant.kill-first", "a living slice is asked to end instead of killed", inCgroup, "TestWhatStillLivesInASliceIsKilledBeforeItIsStopped", ""},

	{"mutant.shim.drop", "the submission is started as root", inShim, "TestRootDropsToNobodyAndTheProgramIsFoundOnThePath", "TestAnOrdinaryRun"},
	{"mutant.shim.no-new-privileges", "the shim relies on the runtime for it", inShim, "TestRootDropsToNobodyAndTheProgramIsFoundOnThePath", ""},
	{"mutant.shim.inspection", "a program with privileges is let go", inShim, "TestAProcessWithAnyPrivilegeLeftIsRefusedByName", ""},
	{"mutant.shim.inspection-of-the-box", "a program outside its box is let go", inShim, "TestAProcessOutsideItsBoxIsRefused", ""},
	{"mutant.shim.join", "the program is not put into its box", inShim, "TestAProgramIsInItsBoxBeforeItIsLetGo", "TestAnOrdinaryRun"},
	{"mutant.shim.own-cgroup", "any cgroup is taken for the container's own", inShim, "TestACgroupThatDoesNotHoldTheShimIsNotItsOwn", ""},
	{"mutant.shim.memory.max", "no memory limit on the box", inShim, "TestEveryLimitIsWrittenAndOnlyAnAbsentFileIsForgiven", "TestMemoryIsTheKernelsWord"},
	{"mutant.shim.pids.max", "no limit on processes of the box", inShim, "TestEveryLimitIsWrittenAndOnlyAnAbsentFileIsForgiven", hostile},
	{"mutant.shim.memory.swap.max", "the box may swap", inShim, "TestEveryLimitIsWrittenAndOnlyAnAbsentFileIsForgiven", ""},
	{"mutant.shim.memory.oom.group", "the box dies in parts", inShim, "TestEveryLimitIsWrittenAndOnlyAnAbsentFileIsForgiven", ""},
	{"mutant.shim.absent", "a limit that is refused is forgiven", inShim, "TestEveryLimitIsWrittenAndOnlyAnAbsentFileIsForgiven", ""},
	{"mutant.shim.stragglers", "what the program left lives on", inShim, "TestWithoutABoxAnEscapeeIsDeadBeforeTheReport", ""},
	{"mutant.shim.orphans", "work nobody waited for is free", inShim, "TestTheLargerOfTheTwoReadingsIsReportedWithHalvesThatAddUp", hostile},
	{"mutant.shim.unhand", "a traced child hangs the shim", inShim, "TestAProgramThatAsksToBeTracedIsLetGo", ""},
	{"mutant.shim.descriptors", "the program inherits descriptors", inShim, "TestTheProgramInheritsNothingButItsThreeFiles", ""},
	{"mutant.shim.errors", "the program's errors are its output", inShim, "TestInputComesFromTheFileOutputGoesToTheOtherAndErrorsNowhere", ""},
	{"mutant.shim.environment", "the Runner's variables are the program's", inShim, "TestTheSubmissionGetsTheEnvironmentWithoutTheRunnersVariables", ""},
	{"mutant.shim.scrub", "the secret stays in the shim's environment", inShim, "TestTheSecretsAreInNobodysEnvironment", ""},
}
