package policy

import "strings"

// The rules of spec/judging.md 9.4, written down a second time by hand. A rule that is lost from the profile, or added
// there alone, fails against this list.

var goldenHeaders = strings.Fields(`
	unistd.h fcntl.h dlfcn.h pthread.h sched.h spawn.h poll.h dirent.h ftw.h glob.h utime.h libgen.h wordexp.h fts.h mntent.h
	paths.h netdb.h ifaddrs.h net/if.h netinet/in.h netinet/tcp.h arpa/inet.h sys/socket.h sys/un.h sys/stat.h sys/wait.h
	sys/mman.h sys/ptrace.h sys/syscall.h sys/resource.h sys/times.h sys/uio.h sys/file.h sys/ioctl.h sys/epoll.h sys/inotify.h
	sys/eventfd.h sys/signalfd.h sys/timerfd.h sys/sendfile.h sys/vfs.h sys/statvfs.h sys/mount.h sys/reboot.h sys/personality.h
	sys/prctl.h sys/capability.h sys/xattr.h sys/sysinfo.h sys/utsname.h sys/user.h sys/io.h linux/* asm/* asm-generic/* io.h
	process.h windows.h conio.h direct.h fstream filesystem thread future mutex shared_mutex condition_variable semaphore latch
	barrier stop_token execution syncstream ext/stdio_filebuf.h ext/stdio_sync_filebuf.h`)

type goldenGroup struct {
	id, name    string
	off         bool
	identifiers []string
	// spellings of each pattern: the closest one first
	patterns [][]string
}

var goldenGroups = []goldenGroup{
	{"P", "Running another program", false, strings.Fields(`system popen pclose`), [][]string{{"std::system", "std :: system", "std\t::\n system"}}},
	{"F", "Opening a file", false, strings.Fields(`
		fopen fopen64 freopen freopen64 fdopen fmemopen open_memstream fopencookie tmpfile tmpfile64 tmpnam tmpnam_r tempnam mkstemp
		mkstemps mkostemp mkostemps mkdtemp realpath ctermid cuserid ifstream ofstream fstream filebuf wifstream wofstream wfstream
		wfilebuf stdio_filebuf`), [][]string{{"std::filesystem", "std:: filesystem"}}},
	{"D", "Changing the file system", true, strings.Fields(`remove rename`), nil},
	{"E", "Reading the environment", false, strings.Fields(`getenv secure_getenv setenv putenv unsetenv clearenv environ`), nil},
	{"L", "Loading external code", false, strings.Fields(`dlopen dlsym dlmopen dlvsym dlclose dladdr`), nil},
	{"K", "Calling the kernel directly", false, strings.Fields(`syscall ptrace`), nil},
	{"A", "Inline assembly", false, strings.Fields(`asm __asm __asm__`), nil},
	{"T", "Creating threads", false, strings.Fields(`pthread_create pthread_attr_init thrd_create omp_set_num_threads`), [][]string{
		{"std::thread", "std ::thread", "std\u00a0::\u3000thread"}, {"std::jthread", "std:: jthread"}, {"std::async", "std :: async"}, {"std::this_thread", "std::\tthis_thread"},
	}},
	{"O", "Changing compiler optimization", false, nil, [][]string{
		{"#pragma GCC optimize", "#  pragma\tGCC  optimize"}, {"#pragma GCC target", "# pragma GCC target"}, {"#pragma omp", "#\tpragma  omp"},
	}},
}

var goldenNeverDeniedC = strings.Fields(`
	open read write close fork printf scanf fprintf fscanf fgetc fgetc_unlocked getc getc_unlocked getchar fputc putc putchar putw
	getw fputs fgets getline getdelim fread fwrite setbuf setbuffer setvbuf setlinebuf sync_with_stdio fseek ftell rewind fgetpos
	fsetpos fflush fclose feof ferror clearerr ungetc fileno flockfile funlockfile signal raise sleep usleep nice malloc sbrk exit
	abort _exit`)

var goldenImports = strings.Fields(`
	os subprocess shutil pathlib tempfile glob fnmatch fileinput linecache socket socketserver ssl select selectors asyncio http
	urllib ftplib smtplib telnetlib xmlrpc requests ctypes cffi mmap multiprocessing threading concurrent _thread signal resource
	pty tty termios fcntl grp pwd spwd crypt posix nt pipes sched importlib runpy imp py_compile compileall platform getpass
	webbrowser distutils setuptools pip venv zipfile tarfile gzip bz2 lzma sqlite3 dbm shelve marshal faulthandler tracemalloc
	cProfile`)

var (
	goldenBuiltins       = strings.Fields(`open exec eval compile __import__ breakpoint`)
	goldenPythonPatterns = strings.Fields(`sys.modules sys.settrace sys.setprofile`)
	goldenNeverDeniedPy  = strings.Fields(`sys gc input print io`)
)

// What is carried for languages that nothing applies: by language, member and entries.
var goldenCarried = map[string]map[string][]string{
	"rust": {
		"deniedPaths":      strings.Fields(`std::fs std::process std::net std::thread std::os std::env std::mem::transmute libc windows_sys nix`),
		"identifiers":      strings.Fields(`Command File OpenOptions ReadDir TcpStream TcpListener UdpSocket JoinHandle`),
		"deniedMacros":     strings.Fields(`asm! global_asm! naked_asm! include_str! include_bytes! env! option_env!`),
		"deniedAttributes": strings.Fields(`#[link] #[no_mangle]`),
	},
	"java": {
		"identifiers": strings.Fields(`
			java.io.File FileInputStream FileOutputStream FileReader FileWriter RandomAccessFile FileDescriptor java.nio.file Files
			Paths java.net Socket ServerSocket URL URLConnection HttpClient ProcessBuilder Process Class.forName java.lang.reflect
			sun.misc.Unsafe Thread ExecutorService Executors ForkJoinPool java.util.concurrent MethodHandles ScriptEngine`),
		"deniedPatterns": strings.Fields(`Runtime\.getRuntime System\.load System\.loadLibrary System\.getenv System\.setProperty`),
		"neverDenied":    strings.Fields(`System.exit System.out System.err System.in BufferedReader InputStreamReader StringBuilder Scanner`),
	},
}
