package adversarial

// exhaustProbes use up what there is, in ways that end by themselves.
var exhaustProbes = []probe{
	{name: "a sparse file of a terabyte", kind: sparse, from: "sandbox 8.1 #20", want: "SIGXFSZ"},
	{name: "a byte beyond the largest file", kind: sparse, from: "sandbox 8.1 #20", want: "SIGXFSZ"},
	{name: "a memfd of a terabyte", kind: sparse, from: "sandbox 8.1 #20", want: "SIGXFSZ"},
	{name: "more than shared memory holds", kind: tmpfs, from: "sandbox 9.1 #29", want: "ENOSPC"},
	{name: "more than 256 descriptors", kind: rlimits, from: "sandbox 1.1", want: "EMFILE"},
	{name: "fifteen children", kind: bombs, from: "sandbox 8.1 #4, #39", want: "EAGAIN"},
	{name: "fifteen threads", kind: bombs, from: "sandbox 8.1 #4, #39", want: "EAGAIN"},
	{name: "fifteen zombies", kind: bombs, from: "sandbox 8.1 #4, #39", want: "EAGAIN"},
	{name: "two hundred orphans one after the other", kind: bombs, from: "sandbox N12", want: "ok"},
	{name: "two thousand directories in each other", kind: deep, from: "own", want: "ok"},
	{name: "an argument of three megabytes", kind: argv, from: "own", want: "E2BIG", nowhere: "the kernel bounds it for everybody"},
	{name: "an environment of twelve megabytes", kind: argv, from: "own", want: "E2BIG", nowhere: "the kernel bounds it for everybody"},
	{name: "C55 message queues without end", kind: posix, from: "C55", want: "EMFILE", nowhere: "the limit on queues holds for root too"},
	{name: "lock 64 MiB of memory", kind: rlimits, from: "sandbox 1.1", want: "ENOMEM|EPERM"},
	{name: "huge pages", kind: heap, from: "own", want: "ENOMEM", nowhere: "the machine has no huge pages"},
	{name: "a hundred megabytes on standard error", kind: flood2, from: "sandbox 3.2", want: "ok"},
	{name: "standard error that leads somewhere", kind: flood2, from: "sandbox 3.2", want: "ENODATA"},
	{name: "a bad address", kind: faulting, from: "sandbox 3.8", want: "SIGSEGV", nowhere: "the processor faults for everybody"},
	{name: "an illegal instruction", kind: faulting, from: "sandbox 3.8", want: "SIGILL", nowhere: "the processor faults for everybody"},
	{name: "halt the processor", kind: faulting, from: "sandbox 3.8", want: "SIGSEGV", nowhere: "the processor faults for everybody"},
	{name: "write to a port", kind: faulting, from: "sandbox 3.8", want: "SIGSEGV", nowhere: "the processor faults for everybody"},
}
