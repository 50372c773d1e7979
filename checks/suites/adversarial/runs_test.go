package adversarial

import (
	"bytes"
	"encoding/binary"
	"time"
)

// The limits most runs have: a short one for what does not end, a small one for what takes memory.
var (
	short = limit{100, 64}
	small = limit{20000, 24}
	roomy = limit{20000, 64}
)

// killed is what becomes of whatever takes more memory than it may.
var killed = expected{stop: "memory", peakFrom: 16, peakTo: 24}

// ended is a run that ends by itself with this code.
func ended(code int) expected { return expected{stop: "on its own", exit: code} }

// memoryRuns take more memory than they may.
var memoryRuns = []attack{
	{name: "heap", kind: heap, from: "sandbox 8.1 #10", words: []string{"heap", "256"}, limit: small, want: killed, driver: true},
	{name: "program break", kind: heap, from: "own", words: []string{"brk", "256"}, limit: small, want: killed},
	{name: "C77 stack", kind: stack, from: "C77", words: []string{"stack", "200"}, limit: small, want: killed},
	{name: "C01 C14 static array", kind: bss, from: "C01, C14", words: []string{"bss", "256"}, limit: small, want: killed},
	{
		name: "C01 C10 static array that is declared only", kind: bss, from: "C01, C10", words: []string{"declared", "1"}, limit: small,
		want: expected{stop: "on its own", peakTo: 8},
	},
	{name: "shared memory file", kind: tmpfs, from: "sandbox 8.1 #10", words: []string{"shm", "60"}, limit: small, want: killed, driver: true},
	{name: "memfd", kind: memfd, from: "own", words: []string{"memfd", "200"}, limit: small, want: killed},
	{name: "C55 System V", kind: sysv, from: "C55", words: []string{"sysv", "200"}, limit: small, want: killed},
	{name: "shared mapping", kind: heap, from: "own", words: []string{"shared", "200"}, limit: small, want: killed},
	{name: "C02 a child that is killed while its parent ends well", kind: childMemory, from: "C02", words: []string{"child", "256"}, limit: small, want: killed, driver: true},
	{name: "eight children, none above the limit", kind: childMemory, from: "sandbox 8.4", words: []string{"family", "64"}, limit: small, want: killed, driver: true},
	{name: "eight threads", kind: heap, from: "own", words: []string{"threads-memory", "64"}, limit: small, want: killed},
	{name: "contents of pipes", kind: kernelMem, from: "own", words: []string{"pipes", "100"}, limit: small, want: killed},
	{name: "contents of sockets", kind: kernelMem, from: "own", words: []string{"sockets", "100"}, limit: small, want: killed},
	{name: "inodes", kind: deep, from: "own", words: []string{"inodes", "60"}, limit: limit{20000, 12}, want: expected{stop: "memory", peakFrom: 8, peakTo: 12}},
	{name: "page tables", kind: kernelMem, from: "own", words: []string{"tables", "64"}, limit: small, want: killed},
	{
		name: "the input written over in private", kind: mapped, from: "own", words: []string{"input-private", "4"}, input: 4,
		limit: small, want: killed,
	},
	{
		name: "C08 C16 the input read by mapping it", kind: pageCache, from: "C08, C16", words: []string{"input-read", "8"}, input: 8,
		limit: limit{20000, 6}, want: expected{stop: "on its own", peakTo: 6},
	},
	{name: "within a limit of one mebibyte", kind: ordinary, from: "sandbox 8.1 #36", words: []string{"copy", "0"}, limit: limit{20000, 1}, want: expected{stop: "on its own", peakTo: 1, says: []string{"the input\ndone\n"}}},
}

// processorRuns spend processor time, or none.
var processorRuns = []attack{
	{name: "a loop without end", kind: byThreads, from: "sandbox 8.1 #2", words: []string{"spin", "0"}, limit: short, want: expected{stop: "processor ceiling", atLeast: 2100 * time.Millisecond}, driver: true},
	{name: "C20 a limit of ten milliseconds", kind: byThreads, from: "C20", words: []string{"spin", "0"}, limit: limit{10, 64}, want: expected{stop: "processor ceiling", atLeast: 2010 * time.Millisecond}},
	{name: "threads whose process has no first one", kind: byThreads, from: "own", words: []string{"threads", "8"}, limit: short, want: expected{stop: "processor ceiling", atLeast: 2100 * time.Millisecond}},
	{name: "children", kind: byChildren, from: "own", words: []string{"children", "8"}, limit: short, want: expected{stop: "processor ceiling", atLeast: 2100 * time.Millisecond}, driver: true},
	{name: "orphans in sessions of their own", kind: byOrphans, from: "own", words: []string{"sessions", "4"}, limit: short, want: expected{stop: "processor ceiling", atLeast: 2100 * time.Millisecond}, driver: true},
	{name: "an orphan that nobody waits for", kind: byOrphans, from: "sandbox 8.1 #33, N3", words: []string{"orphan", "1.5"}, limit: roomy, want: expected{stop: "on its own", atLeast: 1450 * time.Millisecond}, driver: true},
	{name: "a relay of short lives", kind: byChildren, from: "own", words: []string{"relay", "1"}, limit: roomy, want: expected{stop: "on its own", atLeast: 950 * time.Millisecond}},
	{name: "C22 more than the limit and an end", kind: byThreads, from: "C22", words: []string{"burn", "0.8"}, limit: limit{500, 64}, want: expected{stop: "on its own", atLeast: 790 * time.Millisecond}},
	{name: "the kernel's time", kind: byThreads, from: "own", words: []string{"kernel", "0"}, limit: short, want: expected{stop: "processor ceiling", atLeast: 2100 * time.Millisecond}},
	{name: "a storm of signals", kind: byThreads, from: "own", words: []string{"storm", "0"}, limit: short, want: expected{stop: "processor ceiling", atLeast: 2100 * time.Millisecond}},
	{name: "everything closed", kind: byThreads, from: "own", words: []string{"closed", "0"}, limit: short, want: expected{stop: "processor ceiling", atLeast: 2100 * time.Millisecond}},
	{name: "sleep", kind: idling, from: "sandbox 8.4", words: []string{"sleep", "3600"}, limit: short, want: expected{stop: "no progress", wall: 4400 * time.Millisecond, atMost: 2 * time.Second}, driver: true},
	{name: "a wait for what never comes", kind: idling, from: "own", words: []string{"wait", "0"}, limit: short, want: expected{stop: "no progress", wall: 4400 * time.Millisecond, atMost: 2 * time.Second}},
	{name: "stopped by itself", kind: idling, from: "own", words: []string{"stop", "0"}, limit: short, want: expected{stop: "no progress", wall: 4400 * time.Millisecond, atMost: 2 * time.Second}},
	{name: "a little work now and then", kind: idling, from: "sandbox 8.3", words: []string{"ticks", "0"}, limit: short, want: expected{stop: "absolute cap|processor ceiling", wall: 4400 * time.Millisecond}},
	{name: "a sleep within the window", kind: ordinary, from: "sandbox 8.1 #3", words: []string{"sleep", "3"}, limit: limit{1000, 64}, want: expected{stop: "on its own", wall: 3 * time.Second, atMost: time.Second}},
}

// processRuns are about numbers of processes, signals and ends.
var processRuns = []attack{
	{name: "C58 fork bomb", kind: bombs, from: "C58", words: []string{"bomb", "0"}, limit: short, want: expected{stop: "processor ceiling"}, driver: true},
	{name: "vfork bomb", kind: bombs, from: "own", words: []string{"vfork-bomb", "0"}, limit: short, want: expected{stop: "processor ceiling|no progress"}},
	{name: "thread bomb", kind: bombs, from: "own", words: []string{"thread-bomb", "0"}, limit: short, want: expected{stop: "processor ceiling"}, driver: true},
	{name: "C58 zombie flood", kind: bombs, from: "C58, N12", words: []string{"zombies", "0"}, limit: short, want: expected{stop: "processor ceiling"}},
	{
		name: "survivors of five kinds", kind: survivors, from: "sandbox 8.1 #30, #35", words: []string{"survivors", "6"}, limit: roomy,
		want: expected{stop: "on its own", exit: 6, says: []string{"survived by five\n"}, silent: []string{"written by a survivor"}}, driver: true,
	},
	{name: "every signal to everybody", kind: signals, from: "sandbox N2", words: []string{"signals", "5"}, limit: roomy, want: expected{stop: "on its own", exit: 5, says: []string{"signalled\n"}}},
	{name: "its own process group killed", kind: signals, from: "own", words: []string{"group", "0"}, limit: roomy, want: ended(137)},
	{name: "a real-time signal", kind: signals, from: "sandbox 3.8", words: []string{"raise", "34"}, limit: roomy, want: ended(162)},
	{name: "the shim's own code for failing", kind: forgery, from: "sandbox 3.8", words: []string{"exit", "125"}, limit: roomy, want: ended(125)},
	{name: "the code of a program that is not there", kind: forgery, from: "sandbox 3.8", words: []string{"exit", "127"}, limit: roomy, want: ended(127)},
	{name: "the code of a kill", kind: forgery, from: "sandbox 9.1 #32", words: []string{"exit", "137"}, limit: roomy, want: ended(137)},
	{name: "C14 abort", kind: faulting, from: "C14", words: []string{"raise", "6"}, limit: limit{20000, 4}, want: ended(134)},
}

// outputRuns write too much, too late, nowhere, or what looks like somebody else's.
var outputRuns = []attack{
	{name: "an endless token", kind: flood1, from: "sandbox 8.4", words: []string{"token", "0"}, limit: limit{30000, 64}, want: expected{stop: "output", capped: true}, driver: true},
	{name: "C37 a burst and an immediate end", kind: flood1, from: "C37, sandbox 8.1 #18", words: []string{"burst", "65"}, limit: limit{30000, 64}, want: expected{stop: "output|on its own", capped: true}},
	{name: "an endless answer that is settled", kind: flood1, from: "sandbox 8.4", words: []string{"settled", "lines", "0"}, limit: limit{30000, 64}, want: expected{stop: "decided"}},
	{name: "twenty thousand writes of a byte", kind: flood1, from: "own", words: []string{"bytes", "20000"}, limit: roomy, want: expected{stop: "on its own", says: []string{"xxxxxxxxxxdone\n"}}},
	{name: "a forged report on every descriptor", kind: floodAny, from: "sandbox 3.7", words: []string{"burn", "0.5", "forge", "0", "exit", "9"}, limit: roomy, want: expected{stop: "on its own", exit: 9, atLeast: 490 * time.Millisecond, silent: []string{"opened"}}},
	{name: "everything flooded but standard output", kind: floodAny, from: "own", words: []string{"flood-rest", "65"}, limit: roomy, want: expected{stop: "on its own", says: []string{"flooded\ndone\n"}, silent: []string{"opened", "ffff"}}},
	{name: "C38 a word after the end", kind: survivors, from: "C38", words: []string{"late", "0"}, limit: roomy, want: expected{stop: "on its own", says: []string{"in time\n"}, silent: []string{"too late"}}},
	{name: "tricks with the pipe", kind: flood1, from: "own", words: []string{"pipe-tricks", "0"}, limit: roomy, want: expected{stop: "on its own", says: []string{"0123456789\n0123456789\n", "done\n"}}},
	{name: "standard output closed early", kind: flood1, from: "own", words: []string{"close", "1", "burn", "0.3"}, limit: roomy, want: expected{stop: "on its own", atLeast: 290 * time.Millisecond, silent: []string{"done"}}},
	{name: "an input that is never read", kind: flood1, from: "own", words: []string{"exit", "0"}, input: 4, limit: roomy, want: ended(0)},
}

// fileRuns are files that the kernel cannot load, or not wholly. That is the program's fate and nobody else's.
var fileRuns = []attack{
	{name: "an empty file", kind: faulting, from: "sandbox 3.8", words: []string{"exit", "0"}, limit: roomy, want: expected{stop: "on its own", exit: 126, unloaded: true}, program: func([]byte) []byte { return nil }},
	{name: "a script that is its own interpreter", kind: faulting, from: "own", words: []string{"exit", "0"}, limit: roomy, want: expected{stop: "on its own", exit: 126, unloaded: true}, program: func([]byte) []byte {
		return []byte("#!/program/attack\n")
	}},
	{name: "a program that asks for more memory than there is", kind: gigantic, from: "decisions 16", words: []string{"exit", "0"}, limit: roomy, want: expected{stop: "on its own|memory", exits: []int{126, 137, 139}, unloaded: true}, program: func(elf []byte) []byte {
		return withHeader(elf, 1, func(header []byte) { binary.LittleEndian.PutUint64(header[40:], 1<<46) })
	}},
	{name: "a program that begins nowhere", kind: faulting, from: "own", words: []string{"exit", "0"}, limit: roomy, want: ended(139), program: func(elf []byte) []byte {
		elf = bytes.Clone(elf)
		binary.LittleEndian.PutUint64(elf[24:], 8)
		return elf
	}},
	{name: "a program whose loader is the memory of process 1", kind: linking, from: "own", words: []string{"exit", "0"}, limit: roomy, want: expected{stop: "on its own", exits: []int{126, 127}, unloaded: true}, program: func(elf []byte) []byte {
		at, loader := len(elf), "/proc/1/mem\x00"
		return append(withHeader(elf, 4, func(header []byte) {
			binary.LittleEndian.PutUint32(header, 3) // an interpreter instead of a note
			binary.LittleEndian.PutUint64(header[8:], uint64(at))
			binary.LittleEndian.PutUint64(header[32:], uint64(len(loader)))
		}), loader...)
	}},
}

// withHeader copies an ELF file of 64 bits and changes its last program header of a kind (1 is to be loaded, 4 a note).
func withHeader(elf []byte, kind uint32, change func(header []byte)) []byte {
	elf = bytes.Clone(elf)
	headers, n := int(binary.LittleEndian.Uint64(elf[32:])), int(binary.LittleEndian.Uint16(elf[56:]))
	for i := n - 1; i >= 0; i-- {
		if header := elf[headers+56*i:][:56]; binary.LittleEndian.Uint32(header) == kind {
			change(header)
			return elf
		}
	}
	panic("the attacking program has no such header")
}
