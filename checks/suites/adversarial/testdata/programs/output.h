/* Output: too much of it, late, nowhere, and what looks like somebody else's. */
#include "attack.h"

static char piece[65536];

static void v_token(double x)
{
	(void)x;
	memset(piece, 'a', sizeof piece);
	for (;;)
		all(1, piece, sizeof piece);
}

static void v_lines(double x)
{
	(void)x;
	memset(piece, 'a', sizeof piece);
	for (size_t i = 63; i < sizeof piece; i += 64)
		piece[i] = '\n';
	for (;;)
		all(1, piece, sizeof piece);
}

/* More than the cap, and gone before anybody has read it (C37). */
static void v_burst(double mib)
{
	memset(piece, 'b', sizeof piece);
	for (long i = 0; i < (long)(mib * 16); i++)
		all(1, piece, sizeof piece);
	_exit(0);
}

static void v_bytes(double n)
{
	for (long i = 0; i < (long)n; i++)
		say("x");
}

static void v_copy(double x)
{
	ssize_t n;
	(void)x;
	while ((n = read(0, piece, sizeof piece)) > 0)
		all(1, piece, (size_t)n);
}

/* A report of somebody who used nothing, on everything that is open and everything that can be opened. */
static void v_forge(double x)
{
	static const char line[] = "\n0123456789abcdef0123456789abcdef aj-shim1 ok 0 0 1 1 1 1 0\n aj-shim1 ok 0 0 1 1 1 1 0\n";
	static const char *const paths[] = {"/aj-out/report", "/aj-out/stdout", "/dev/stdout", "/dev/tty", "/dev/console"};
	char path[64];
	(void)x;
	fflush(stdout); /* what was printed before keeps its lines */
	for (int fd = 0; fd < 256; fd++)
		if (write(fd, line, sizeof line - 1) < 0)
			continue;
	for (size_t i = 0; i < COUNT(paths); i++) {
		int fd = open(paths[i], O_WRONLY | O_NONBLOCK);
		if (fd >= 0) {
			printf("opened %s\n", paths[i]);
			all(fd, line, sizeof line - 1);
		}
	}
	for (int fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof path, "/proc/1/fd/%d", fd);
		int other = open(path, O_WRONLY | O_NONBLOCK);
		if (other >= 0)
			printf("opened %s\n", path);
	}
}

/* As much as a descriptor takes without waiting, up to so many MiB. */
static void flood(int fd, double mib)
{
	fcntl(fd, F_SETFL, O_WRONLY | O_NONBLOCK);
	for (long i = 0; i < (long)(mib * 16); i++)
		if (write(fd, piece, sizeof piece) <= 0)
			return;
}

/* Floods everything but standard output, which has floods of its own: what can be opened by name, and what is open, standard error on
 * every number there is. */
static void v_flood_rest(double mib)
{
	static const char *const closed[] = {"/aj-out/report", "/aj-out/stdout", "/aj-out/stdin", "/proc/self/fd/0", "/dev/console", "/dev/kmsg", "/dev/tty", "/dev/mem"};
	static const char *const open_to_all[] = {"/dev/stderr", "/dev/null", "/dev/full", "/dev/zero", "/dev/random", "/dev/ptmx"};
	char path[64];
	memset(piece, 'f', sizeof piece);
	for (size_t i = 0; i < COUNT(closed) + 64; i++) {
		snprintf(path, sizeof path, "/proc/1/fd/%zu", i - COUNT(closed));
		const char *name = i < COUNT(closed) ? closed[i] : path;
		int fd = open(name, O_WRONLY | O_NONBLOCK);
		if (fd < 0)
			continue;
		printf("opened %s\n", name);
		flood(fd, mib);
		close(fd);
	}
	for (size_t i = 0; i < COUNT(open_to_all); i++) {
		int fd = open(open_to_all[i], O_WRONLY | O_NONBLOCK);
		if (fd < 0)
			continue;
		flood(fd, i < 4 ? mib : 1); /* what is written to the source of randomness is stirred in, and costs */
		close(fd);
	}
	for (int fd = 3; fd < 256; fd++)
		dup2(2, fd);
	for (int fd = 0; fd < 256; fd++)
		if (fd != 1)
			flood(fd, mib);
	say("flooded\n");
}

/* The output goes to whoever comes last: a child that outlives its parent, and would write. */
static void v_late(double x)
{
	(void)x;
	if (fork() == 0) {
		setsid();
		nap(1);
		say("too late\n");
		_exit(0);
	}
	say("in time\n");
	_exit(0);
}

/* What can be done to a pipe that is shared with the Runner, after which the output must still arrive whole. */
static void v_pipe_tricks(double x)
{
	(void)x;
	fcntl(1, F_SETPIPE_SZ, 4096);
	fcntl(1, F_SETFL, O_WRONLY | O_NONBLOCK | O_DIRECT | O_ASYNC | O_APPEND);
	fcntl(1, F_SETOWN, 1);
	fcntl(1, F_SETSIG, SIGKILL);
	fcntl(1, F_SETLEASE, F_WRLCK);
	ioctl(1, FIOASYNC, &(int){1});
	for (int i = 0; i < 1000; i++)
		while (write(1, "0123456789\n", 11) != 11)
			nap(0.001);
}

static void v_close(double fd) { close((int)fd); }

#define OUTPUT_VERBS                                                                                                              \
	{"token", v_token}, {"lines", v_lines}, {"burst", v_burst}, {"bytes", v_bytes}, {"copy", v_copy}, {"forge", v_forge},     \
		{"flood-rest", v_flood_rest}, {"late", v_late}, {"pipe-tricks", v_pipe_tricks}, {"close", v_close}
