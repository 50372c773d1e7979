package adversarial

// neighbourProbes look for what another submission left or holds. They are tried beside it, and after it in its own lane.
var neighbourProbes = []probe{
	{name: "C55 find System V shared memory", kind: sysv, from: "C55", want: "ENOENT"},
	{name: "C55 find System V semaphores", kind: sysv, from: "C55", want: "ENOENT"},
	{name: "C55 find a System V queue", kind: sysv, from: "C55", want: "ENOENT"},
	{name: "C55 find a POSIX queue", kind: posix, from: "C55", want: "ENOENT"},
	{name: "C55 find a file in shared memory", kind: posix, from: "C55", want: "ENOENT"},
	{name: "C55 find an abstract socket", kind: abstract, from: "C55", want: "ECONNREFUSED"},
	{name: "C55 find a socket in shared memory", kind: posix, from: "C55", want: "ENOENT"},
	{name: "find a port of the loopback", kind: network, from: "own", want: "ECONNREFUSED"},
	{name: "find a lock on the program", kind: locks, from: "sandbox 9.1 #40", want: "ENODATA"},
	{name: "find a lock on the input", kind: locks, from: "sandbox 9.1 #40", want: "ENODATA"},
	{name: "find a process", kind: probing, from: "own", want: "ESRCH"},
}
