package adversarial

import "strings"

// snippet is one of several attacks on a compiler that end by themselves: they are tried one after the other in one
// container, each with the compiler and the options of the toolchain.
type snippet struct {
	name   string
	kind   kind
	from   string
	source string
	// language is "c" or "c++".
	language string
	// want is "fails", "builds", or both with "|" where either is harmless; says is in the compiler's words.
	want string
	says string
}

// nested is a word many times.
func nested(word string, n int) string { return strings.Repeat(word, n) }

// doubling makes macros a0 to aN, each twice the one before.
func doubling(innermost string, n int) string {
	var s strings.Builder
	s.WriteString("#define A0 " + innermost + "\n")
	for i := range n {
		s.WriteString("#define A" + itoa(i+1) + " A" + itoa(i) + " A" + itoa(i) + "\n")
	}
	return s.String()
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

const ending = "\nint main(void) { return 0; }\n"

// gccSnippets go to gcc as the toolchains call it.
var gccSnippets = []snippet{
	{"C52 include /etc/shadow", including, "C52", `#include "/etc/shadow"` + ending, "c", "fails", "/etc/shadow"},
	{"C52 include by a digraph", including, "C52", `%:include "/etc/passwd"` + ending, "c", "fails", "error"},
	{"C52 include over spliced lines", including, "C52", "#inc\\\nlude \"/etc/eval\\\nhost-planted\"" + ending, "c", "fails", "No such file"},
	{"include the host's key", including, "own", `#include "/var/lib/evalhost-planted/runner.key"` + ending, "c", "fails", "No such file"},
	{"C52 include the expected output", including, "C52", `#include "/in/1a.out"` + ending, "c", "fails", "No such file"},
	{"include the environment of process 1", including, "own", `#include "/proc/1/environ"` + ending, "c", "fails|builds", ""},
	{"include the memory of process 1", including, "own", `#include "/proc/1/mem"` + ending, "c", "fails|builds", ""},
	{"include the compiler's own channel", including, "own", `#include "/aj-out/stdout"` + ending, "c", "fails", "Permission denied"},
	{"show a line of another file in an error", including, "own", "#line 1 \"/etc/evalhost-planted\"\nint x = y;" + ending, "c", "fails", "undeclared"},
	{"embed a file of the host", including, "own", `__asm__(".incbin \"/etc/evalhost-planted\"");` + ending, "c", "fails", "evalhost-planted"},
	{"embed the environment", including, "own", `__asm__(".incbin \"/proc/self/environ\"");` + ending, "c", "builds|fails", ""},
	{"assemble a file of the system", including, "own", `__asm__(".include \"/etc/passwd\"");` + ending, "c", "fails|builds", ""},
	{"a file that includes itself", endless, "own", "#include __FILE__" + ending, "c", "fails", "In file included from"},
	{"a plugin by pragma", plugins, "own", "#pragma GCC optimize (\"-fplugin=/src/main.c\")" + ending, "c", "fails|builds", "optimize"},
	{"a plugin by attribute", plugins, "own", "__attribute__((optimize(\"-fplugin=/src/main.c\"))) int f(void) { return 0; }" + ending, "c", "fails|builds", "optimize"},
	{"specs by pragma", plugins, "own", "#pragma GCC optimize (\"-specs=/src/main.c\")" + ending, "c", "fails|builds", "optimize"},
	{"an absolute output by pragma", outputPaths, "own", "#pragma GCC optimize (\"-o /tmp/../etc/oops\")" + ending, "c", "fails|builds", "optimize"},
	{"an absolute dump by attribute", outputPaths, "own", "__attribute__((optimize(\"-fdump-tree-all=/src/oops\"))) int f(void) { return 0; }" + ending, "c", "fails|builds", ""},
	{"an assembler's file with an absolute name", outputPaths, "own", `__asm__(".file \"/etc/oops\"\n.dwo \"/etc/oops\"");` + ending, "c", "fails|builds", ""},
	{"options of a link-time optimiser", linking, "own", `__asm__(".section .gnu.lto_.opts,\"e\",@progbits\n.ascii \"'-fplugin=/src/main.c' '-o' '/etc/oops'\"\n.byte 0\n` +
		`.section .gnu.lto_.symtab.0,\"e\",@progbits\n.byte 0\n.text");` + ending, "c", "fails|builds", ""},
	{"a library named by a pragma", linking, "own", "#pragma comment(lib, \"/etc/passwd\")" + ending, "c", "builds", ""},
	{"an entry of the dynamic linker", linking, "own", `__asm__(".section .interp,\"a\"\n.asciz \"/proc/self/mem\"\n.text");` + ending, "c", "fails|builds", ""},
	{"C47 an array of a quarter of a gigabyte", gigantic, "C47", "char a[1 << 28] = {1};" + ending, "c", "fails", ""},
	{"an array of a terabyte", gigantic, "own", "char a[1L << 40];\nint main(void) { a[1L << 39] = 1; return 0; }", "c", "fails", ""},
	{"an array larger than memory", gigantic, "own", "char a[1L << 62];" + ending, "c", "fails", ""},
	{"an assembler's fill of two gigabytes", gigantic, "own", `__asm__(".data\n.fill 2000000000, 1, 65\n.text");` + ending, "c", "fails", ""},
	{"an assembler's alignment of a gigabyte", gigantic, "own", `__asm__(".data\n.balign 1073741824, 66\n.byte 1\n.balign 1073741824, 67\n.text");` + ending, "c", "fails", ""},
	{"brackets in brackets", diagnostics, "own", "int x = " + nested("(", 50000) + "1" + nested(")", 50000) + ";" + ending, "c", "fails|builds", ""},
	{"C41 text that is no text", diagnostics, "C41", "\xff\xfe\x00int main( { \x80\xc3\x28 é" + ending, "c", "fails", "error"},
	{"C44 a byte order mark", ordinary, "C44", "\xef\xbb\xbfint main(void) { return 0; }\n", "c", "builds", ""},
	{"C50 templates without end", templates, "C50", "template<int N> struct F { static const int v = F<N + 1>::v; };\nint x = F<0>::v;" + ending, "c++", "fails", "depth"},
	{"C50 a constexpr loop without end", templates, "C50", "constexpr int f() { for (int i = 0;; i++) if (i < 0) return 1; }\nconstexpr int x = f();" + ending, "c++", "fails", "constexpr"},
	{"C50 constexpr recursion without end", templates, "C50", "constexpr int f(int n) { return f(n + 1) + 1; }\nconstexpr int x = f(0);" + ending, "c++", "fails", "expansion of"},
	{"C49 a static assertion with a long message", diagnostics, "C49", "static_assert(false, \"" + nested("x", 100000) + "\");" + ending, "c++", "fails", "xxxx"},
	{"a correct program", ordinary, "own", "int main(void) { return 0; }\n", "c", "builds", ""},
}

// clangSnippets go to clang, which has doors of its own.
var clangSnippets = []snippet{
	{"clang: embed a file of the host", including, "own", "const unsigned char c[] = {\n#embed \"/etc/evalhost-planted\"\n};" + ending, "c", "fails", "not found"},
	{"clang: embed the source's own directory", including, "own", "const unsigned char c[] = {\n#embed \"/src\"\n};" + ending, "c", "fails", ""},
	{"clang: embed zeros without end", gigantic, "own", "const unsigned char c[] = {\n#embed \"/dev/zero\" limit(100)\n};" + ending, "c", "fails|builds", ""},
	{"clang: a library named by a pragma", linking, "own", "#pragma comment(lib, \"/etc/passwd\")" + ending, "c", "fails|builds", ""},
	{"clang: a crash by pragma", diagnostics, "own", "#pragma clang __debug crash" + ending, "c", "fails", ""},
	{"clang: a fatal error of its back end, by pragma", diagnostics, "own", "#pragma clang __debug llvm_fatal_error" + ending, "c", "fails", ""},
	{"C50 clang: a constexpr loop without end", templates, "C50", "constexpr int f() { for (int i = 0;; i++) if (i < 0) return 1; }\nconstexpr int x = f();" + ending, "c++", "fails", "constant expression"},
	{"clang: a correct program", ordinary, "own", "int main(void) { return 0; }\n", "c", "builds", ""},
}

// compilerBuilds do not end by themselves, or are stopped: each has a container of its own.
var compilerBuilds = []build{
	{
		name: "C49 gigabytes of diagnostics", kind: diagnostics, from: "C49", toolchain: "c11-gcc",
		source: doubling("int x = y;", 17) + "A17" + ending, want: builtExpected{stop: "output|on its own", fails: true, capped: true},
	},
	{
		name: "C49 macros that double", kind: endless, from: "C49", toolchain: "c11-gcc",
		source: doubling("x x x x x x x x", 40) + "int main(void) { A40 }", impatient: true, driver: true,
		want: builtExpected{stop: "memory|no progress"},
	},
	{
		name: "includes that double", kind: endless, from: "own", toolchain: "c11-gcc",
		source: "#if __INCLUDE_LEVEL__ < 190\n#include __FILE__\n#include __FILE__\n#endif\n", impatient: true,
		want: builtExpected{stop: "no progress|memory"},
	},
	{
		name: "a device that never ends", kind: endless, from: "own", toolchain: "c11-gcc",
		source: "#include \"/dev/zero\"" + ending, impatient: true, want: builtExpected{stop: "memory|no progress|on its own", fails: true},
	},
	{
		name: "an assembler that repeats", kind: gigantic, from: "own", toolchain: "c11-gcc",
		source: `__asm__(".rept 15000000\n.quad 1\n.quad 2\n.quad 3\n.endr");` + ending, impatient: true,
		want: builtExpected{stop: "memory|no progress"},
	},
	{
		name: "C50 types whose names double", kind: templates, from: "C50", toolchain: "cpp20-gcc",
		source: "template<class A, class B> struct X {};\ntemplate<int N, class T> struct F { typedef typename F<N - 1, X<T, T>>::t t; };\n" +
			"template<class T> struct F<0, T> { typedef T t; };\nint y = F<60, int>::t();\nint main() {}\n", impatient: true,
		want: builtExpected{stop: "memory|no progress|output|on its own", fails: true},
	},
	{
		name: "a compiler whose stack overflows, by pragma", kind: diagnostics, from: "own", toolchain: "c11-clang",
		source: "#pragma clang __debug overflow_stack" + ending, impatient: true, want: builtExpected{stop: "no progress|memory|on its own", fails: true},
	},
	{
		name: "C50 a constant of a gigabyte", kind: templates, from: "C50", toolchain: "cpp20-gcc",
		source: "struct S { unsigned char c[1000000000]; constexpr S() : c() { for (long i = 0; i < 1000000000; i++) c[i] = i; } };\n" +
			"constexpr S s;\nint main() { return s.c[5]; }\n", impatient: true,
		want: builtExpected{stop: "memory|no progress|on its own", fails: true},
	},
}

// The small image's shell plays a compiler that does what its attacker wants.
var hijackedBuilds = []build{
	{name: "C56 a link to a file left for collection", kind: links, from: "C56", command: "ln -s /etc/passwd /out/program", want: builtExpected{stop: "on its own", odd: "a symbolic link"}},
	{name: "C56 a link to a device left for collection", kind: links, from: "C56", command: "ln -s /dev/zero /out/program", want: builtExpected{stop: "on its own", odd: "a symbolic link"}},
	{name: "C53 a link out of the container left for collection", kind: links, from: "C53", command: "ln -s ../../../../../../etc/evalhost-planted /out/program", want: builtExpected{stop: "on its own", odd: "a symbolic link"}},
	{name: "C56 a channel left for collection", kind: links, from: "C56", command: "mkfifo /out/program", want: builtExpected{stop: "on its own", odd: "a named pipe"}},
	{name: "C56 a directory left for collection", kind: links, from: "C56", command: "mkdir -p /out/program/a && cp /bin/sh /out/program/a/program", want: builtExpected{stop: "on its own", odd: "a directory"}},
	{name: "nothing left for collection", kind: links, from: "sandbox 1.4", command: "true", want: builtExpected{refused: "left nothing"}},
	{
		name: "a setuid program that everybody may write", kind: setuid, from: "sandbox 8.1 #26",
		command: "cp /bin/busybox /out/program && chmod 7777 /out/program", want: builtExpected{stop: "on its own", artefact: true},
	},
	{
		name: "C47 an artefact beyond the largest file", kind: gigantic, from: "C47, sandbox 8.1 #22",
		command: "dd if=/dev/zero of=/out/program bs=1M count=70", want: builtExpected{stop: "on its own", fails: true},
	},
	{
		name: "a search for secrets", kind: hijacked, from: "own",
		command: "word=EVALHOST-; for f in /etc/* /src/* /proc/*/environ /proc/*/cmdline /var/lib/*/* /root/* /in/* /answers/* /run/*; do " +
			"grep -s ${word}SECRET $f; done; env; cat /etc/shadow /proc/1/environ /proc/kcore 2>/dev/null | head -c 4000; cp /src/main.c /out/program",
		want: builtExpected{stop: "on its own", artefact: true, silent: []string{"AJ_"}},
	},
	{
		name: "networks, mounts, devices and privileges", kind: hijacked, from: "own",
		command: "try() { \"$@\" >/dev/null 2>&1 && echo \"ALLOWED $*\"; }; try wget -T 3 -O - http://127.0.0.1:47113/; try ip link add x type dummy; " +
			"try mount -t tmpfs none /tmp; try mount -o remount,exec /tmp; try mknod /tmp/d b 254 0; try su -c true; try chown 0 /src/main.c; try touch /src/x; " +
			"try touch /etc/x; try touch /aj-out/x; try rm /aj-out/stdout; try ls /var/run/docker.sock; try sh -c 'cp /bin/busybox /tmp/x && /tmp/x true'; " +
			"try sh -c 'echo 1 >/proc/sys/kernel/sysrq'; try test $(ls /sys/class/net | wc -l) -gt 1; cp /src/main.c /out/program",
		want: builtExpected{stop: "on its own", artefact: true, silent: []string{"ALLOWED"}},
	},
	{
		name: "survivors that hold the output", kind: hijacked, from: "sandbox 8.1 #30",
		command: "for i in 1 2 3 4 5; do (trap '' TERM HUP INT; while :; do sleep 1; echo late; done) & done; cp /src/main.c /out/program",
		want:    builtExpected{stop: "on its own", artefact: true, silent: []string{"late"}},
	},
	{
		name: "C50 C58 a fork bomb", kind: bombs, from: "C50, C58", command: "b() { b & b; }; b", impatient: true, driver: true,
		want: builtExpected{stop: "no progress|on its own", fails: true},
	},
	{
		name: "C50 memory", kind: hijacked, from: "C50", command: "dd if=/dev/zero of=/dev/null bs=600M count=1", driver: true,
		want: builtExpected{stop: "memory"},
	},
	{
		name: "more than /tmp holds", kind: tmpfs, from: "sandbox 1.2",
		command: "for i in 1 2 3; do dd if=/dev/zero of=/tmp/$i bs=1M count=30 2>/dev/null || echo full; done; cp /src/main.c /out/program",
		want:    builtExpected{stop: "on its own", artefact: true, says: []string{"full"}},
	},
	{
		name: "C76 a disk that fills", kind: hijacked, from: "C76",
		command: "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=/out/$i bs=1M count=40 2>/dev/null; done; cp /src/main.c /out/program",
		want:    builtExpected{stop: "on its own", artefact: true},
	},
	{
		name: "many inodes", kind: deep, from: "own",
		command: "seq 1 5000 | (cd /out && xargs touch); cp /src/main.c /out/program", want: builtExpected{stop: "on its own", artefact: true},
	},
	{
		name: "output without end", kind: flood2, from: "sandbox 8.1 #17", command: "yes >&2", want: builtExpected{stop: "output", capped: true},
	},
	{
		name: "every process killed", kind: signals, from: "own", command: "kill -9 -1; kill -9 1; cp /src/main.c /out/program",
		want: builtExpected{stop: "on its own", artefact: true},
	},
}
