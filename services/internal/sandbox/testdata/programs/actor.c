/*
 * The test program of the sandbox's guest suite: many behaviours in one file, done one after the other as the arguments
 * name them, so that one container shows many things. It is built once, statically, and injected without a build.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap(double seconds) {
	struct timespec t = {(time_t)seconds, (long)((seconds - (long)seconds) * 1e9)};
	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

static double used(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void burn(double seconds) {
	volatile unsigned long x = 0;
	seconds += used();
	while (used() < seconds)
		for (int i = 0; i < 100000; i++)
			x += i;
}

static void all(int fd, const char *p, size_t n) {
	while (n > 0) {
		ssize_t w = write(fd, p, n);
		if (w < 0)
			return;
		p += w;
		n -= w;
	}
}

static void touch(double mib) {
	size_t n = (size_t)(mib * 1048576);
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		exit(77);
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
}

static void shm(double mib) {
	static char piece[1048576];
	memset(piece, 'x', sizeof piece);
	int fd = open("/dev/shm/file", O_CREAT | O_WRONLY, 0600);
	if (fd < 0)
		exit(78);
	for (int i = 0; i < (int)mib; i++)
		if (write(fd, piece, sizeof piece) != sizeof piece)
			exit(79);
}

/* Work in a process whose parent has left: nobody of the program waits for it. */
static void orphan(double seconds) {
	int done[2];
	char c;
	if (pipe(done) != 0)
		exit(70);
	if (fork() == 0) {
		if (fork() == 0) {
			burn(seconds);
			write(done[1], "x", 1);
			_exit(0);
		}
		_exit(0);
	}
	wait(NULL);
	read(done[0], &c, 1);
}

/* Leaves the process group, the session and the parent, and holds the output. */
static void escape(void) {
	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			signal(SIGTERM, SIG_IGN);
			signal(SIGHUP, SIG_IGN);
			for (;;)
				pause();
		}
		_exit(0);
	}
	wait(NULL);
}

/* What looks like a report, on every descriptor and into everything that can be opened. */
static void forge(void) {
	static const char line[] = "0123456789abcdef0123456789abcdef aj-shim1 ok 0 0 1 1 1 1 0\n";
	static const char *const paths[] = {"/aj-out/report", "/aj-out/stdout", "/aj-out/stdin", "/proc/1/fd/1", "/proc/1/fd/2",
					    "/proc/1/fd/3",   "/proc/1/fd/4",	"/proc/1/fd/5",	 "/dev/stdout",  "/dev/tty"};
	for (int fd = 0; fd < 256; fd++)
		all(fd, line, sizeof line - 1);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		int fd = open(paths[i], O_WRONLY | O_NONBLOCK);
		if (fd >= 0) {
			printf("opened %s\n", paths[i]);
			all(fd, line, sizeof line - 1);
		}
	}
	fflush(stdout);
}

/* How many processes there can be besides this one. */
static void count(void) {
	static pid_t child[1000];
	int n = 0;
	for (; n < 1000; n++) {
		child[n] = fork();
		if (child[n] < 0)
			break;
		if (child[n] == 0)
			for (;;)
				pause();
	}
	printf("processes: %d\n", n);
	fflush(stdout);
	for (int i = 0; i < n; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
}

static void list(const char *dir) {
	DIR *d = opendir(dir);
	struct dirent *e;
	printf("%s:", dir);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			printf(" %s", e->d_name);
	printf("\n");
}

static void try_write(const char *path) {
	int fd = open(path, O_WRONLY | O_CREAT, 0666);
	printf("write %s: %s\n", path, fd >= 0 ? "ALLOWED" : strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void inode(const char *path) {
	struct stat s;
	if (stat(path, &s) == 0)
		printf("inode %s %lu:%lu\n", path, (unsigned long)s.st_dev, (unsigned long)s.st_ino);
	else
		printf("inode %s: %s\n", path, strerror(errno));
}

/* What there is to see and to write to. */
static void look(void) {
	static const char *const dirs[] = {"/in", "/program", "/aj-out", "/aj/cgroup", "/sys/fs/cgroup", "/answers", "/src", "/out", "/work", "/dev/shm"};
	static const char *const files[] = {"/oops",	   "/in/oops",	  "/in/1a.in",	    "/in/1a.out",	       "/program/actor",
					    "/aj-out/oops", "/work/oops",  "/tmp/oops",	    "/usr/local/bin/aj-shim", "/aj/cgroup/cgroup.procs",
					    "/etc/oops",	    "/dev/oops",   "/dev/shm/oops"};
	char buf[65536];
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		list(dirs[i]);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		try_write(files[i]);
	inode("/in/1a.in");
	inode("/program/actor");
	printf("core limit, files, sizes: ");
	fflush(stdout);
	int fd = open("/proc/self/limits", O_RDONLY);
	ssize_t n = read(fd, buf, sizeof buf - 1);
	buf[n > 0 ? n : 0] = 0;
	for (char *l = strtok(buf, "\n"); l; l = strtok(NULL, "\n"))
		if (strncmp(l, "Max core", 8) == 0 || strncmp(l, "Max open", 8) == 0 || strncmp(l, "Max file size", 13) == 0)
			printf("[%s]", l);
	printf("\n");
}

/* Copies what can be read, whatever it is. */
static void copy(int from, int to) {
	char buf[65536];
	ssize_t n;
	while ((n = read(from, buf, sizeof buf)) > 0)
		all(to, buf, n);
}

/* What the kernel says of this process. */
static void status(void) {
	char line[4096];
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "Cpus_allowed_list", 17) == 0 || strncmp(line, "Uid", 3) == 0 || strncmp(line, "Cap", 3) == 0 ||
		    strncmp(line, "Seccomp:", 8) == 0 || strncmp(line, "NoNewPrivs", 10) == 0)
			fputs(line, stdout);
	if (f)
		fclose(f);
	fflush(stdout);
}

/* A checker: command, verb, input, output, reference. */
static int checker(const char *verb, int argc, char **argv) {
	char buf[65536];
	long total = 0;
	ssize_t n;
	if (strcmp(verb, "check-leave") == 0) {
		puts("OK\nleft");
		return 0;
	}
	if (strcmp(verb, "check-crash") == 0)
		abort();
	if (strcmp(verb, "check-status") == 0) {
		puts("OK");
		status();
		return 0;
	}
	if (argc < 5)
		return 3;
	int fd = open(argv[3], O_RDONLY);
	if (fd < 0)
		return 4;
	while ((n = read(fd, buf, sizeof buf)) > 0)
		total += n;
	int reference = open(argv[4], O_RDONLY);
	printf("%s\n%s %s %ld %s %s\n", strcmp(verb, "check-ok") == 0 ? "OK" : "WRONG", getenv("AJ_TEST"), getenv("AJ_GROUP"), total,
	       reference >= 0 ? "reference" : "no reference", lseek(fd, 0, SEEK_SET) < 0 ? "stream" : "file");
	return 0;
}

/* An interactor: verb, input, verdict, reference. It names a number of rounds and counts the answers. */
static int interactor(int argc, char **argv) {
	int answers = 0, x;
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("3\n");
	for (int i = 0; i < 3; i++) {
		printf("%d\n", i * 10);
		if (scanf("%d", &x) == 1 && x == i * 10 + 1)
			answers++;
	}
	for (int i = 0; i < 1000; i++)
		fprintf(stderr, "a word that nobody needs, and many of it %d\n", i);
	/* More than a channel holds, to a submission that may have left. */
	for (int i = 0; i < 20000; i++)
		printf("rest\n");
	FILE *f = fopen(argc > 3 ? argv[3] : "", "w");
	if (!f)
		return 5;
	fprintf(f, "%s\nanswers %d\n", answers == 3 ? "OK" : "WRONG", answers);
	return fclose(f) == 0 ? 0 : 6;
}

/* Writes for ever and never reads; answers when nobody is left to write to. */
static int flooding_interactor(int argc, char **argv) {
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 400000; i++)
		if (write(1, "a line that nobody reads, and another one of them\n", 50) < 0)
			break;
	FILE *f = fopen(argc > 3 ? argv[3] : "", "w");
	if (!f)
		return 5;
	fprintf(f, "WRONG\nnobody read\n");
	return fclose(f) == 0 ? 0 : 6;
}

/* Never reads and never writes, until its own input has been closed for long; answers then. */
static int mute_interactor(int argc, char **argv) {
	char c;
	nap(3);
	while (read(0, &c, 1) > 0)
		nap(0.001);
	FILE *f = fopen(argc > 3 ? argv[3] : "", "w");
	if (!f)
		return 5;
	fprintf(f, "WRONG\nmute\n");
	return fclose(f) == 0 ? 0 : 6;
}

/* Takes processor 1 from everybody else for so long. For the host, as root, and never in a container. */
static int hog(double seconds) {
	struct sched_param p = {.sched_priority = 50};
	struct timespec from, now;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(1, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0 || sched_setscheduler(0, SCHED_FIFO, &p) != 0)
		return 71;
	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec - from.tv_sec + (now.tv_nsec - from.tv_nsec) / 1e9 < seconds);
	return 0;
}

static int player(void) {
	int n, x;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (scanf("%d", &n) != 1)
		return 7;
	while (n-- > 0 && scanf("%d", &x) == 1)
		printf("%d\n", x + 1);
	return 0;
}

/* Does one thing; returns how many arguments it took besides its name. */
static int act(const char *verb, double x) {
#define IS(name) (strcmp(verb, name) == 0)
	if (IS("exit"))
		exit((int)x);
	if (IS("spin"))
		for (;;)
			;
	if (IS("wake")) /* a millisecond of work a tick, for ever */
		for (;;) {
			nap(0.2);
			burn(0.001);
		}
	if (IS("drip")) /* a byte a tick, for ever */
		for (;;) {
			nap(0.2);
			all(1, "x", 1);
		}
	if (IS("chatter")) { /* talks for ever and never listens */
		static char piece[65536];
		memset(piece, 'q', sizeof piece);
		for (;;)
			all(1, piece, sizeof piece);
	}
	if (IS("status")) {
		status();
		return 0;
	}
	if (IS("bomb"))
		for (;;)
			fork();
	if (IS("flood") || IS("token")) {
		static char piece[65536];
		memset(piece, 'a', sizeof piece);
		for (size_t i = 63; IS("flood") && i < sizeof piece; i += 64)
			piece[i] = '\n';
		for (;;)
			all(1, piece, sizeof piece);
	}
	if (IS("burst")) {
		size_t n = (size_t)(x * 1048576);
		char *p = malloc(n);
		memset(p, 'b', n);
		all(1, p, n);
		_exit(0);
	}
	if (IS("token-of")) {
		static char piece[1048576];
		memset(piece, 't', sizeof piece);
		for (int i = 0; i < (int)x; i++)
			all(1, piece, sizeof piece);
		return 1;
	}
	if (IS("child")) { /* the child is killed, and its parent ends well */
		if (fork() == 0) {
			touch(x);
			_exit(0);
		}
		wait(NULL);
		return 1;
	}
	if (IS("copy")) {
		copy(0, 1);
		return 0;
	}
	if (IS("again")) {
		lseek(0, 0, SEEK_SET);
		return 0;
	}
	if (IS("close")) {
		close(1);
		return 0;
	}
	if (IS("escape")) {
		escape();
		return 0;
	}
	if (IS("forge")) {
		forge();
		return 0;
	}
	if (IS("count")) {
		count();
		return 0;
	}
	if (IS("look")) {
		look();
		return 0;
	}
	if (IS("sleep"))
		nap(x);
	else if (IS("burn"))
		burn(x);
	else if (IS("touch"))
		touch(x);
	else if (IS("shm"))
		shm(x);
	else if (IS("orphan"))
		orphan(x);
	else
		exit(66);
	return 1;
}

int main(int argc, char **argv) {
	const char *first = argc > 1 ? argv[1] : "";
	if (strncmp(first, "check-", 6) == 0)
		return checker(first, argc, argv);
	if (strcmp(first, "interact") == 0)
		return interactor(argc, argv);
	if (strcmp(first, "interact-flood") == 0)
		return flooding_interactor(argc, argv);
	if (strcmp(first, "interact-mute") == 0)
		return mute_interactor(argc, argv);
	if (strcmp(first, "hog") == 0)
		return hog(argc > 2 ? atof(argv[2]) : 0);
	if (strcmp(first, "play") == 0)
		return player();
	for (int i = 1; i < argc; i++)
		i += act(argv[i], i + 1 < argc ? atof(argv[i + 1]) : 0);
	fflush(stdout);
	all(1, "done\n", 5);
	return 0;
}
