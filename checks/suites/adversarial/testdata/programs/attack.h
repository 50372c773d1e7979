/* What every part of the attacking program uses. The program is one, so that one file is copied into a lane; its verbs
 * stand in the files beside this one. */
#ifndef ATTACK_H
#define ATTACK_H
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB 1048576L
#define PAGE 4096L
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* One thing that is tried. It returns what the system call did: a negative number is a failure, with errno. */
struct probe {
	const char *name;
	long (*try)(void);
};

static inline void nap(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

static inline double used(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Processor time of the calling thread. */
static inline void burn(double seconds)
{
	volatile unsigned long x = 0;
	double until = used(CLOCK_THREAD_CPUTIME_ID) + seconds;
	while (used(CLOCK_THREAD_CPUTIME_ID) < until)
		for (int i = 0; i < 10000; i++)
			x += (unsigned long)i;
}

static inline void all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, p, n);
		if (w < 0 && errno == EAGAIN) {
			nap(0.001);
			continue;
		}
		if (w < 0)
			return;
		p += w;
		n -= (size_t)w;
	}
}

static inline void say(const char *words)
{
	all(1, words, strlen(words));
}

/* Prints every word of 32 hexadecimal digits and no more, which is what a run's nonce looks like. */
static inline void nonces(const char *where, const char *p, size_t n)
{
	size_t digits = 0;
	for (size_t i = 0; i <= n; i++) {
		if (i < n && ((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f'))) {
			digits++;
			continue;
		}
		if (digits == 32)
			printf("like a nonce in %s: %.32s\n", where, p + i - 32);
		digits = 0;
	}
}

static inline long refused(int with)
{
	errno = with;
	return -1;
}

/* Tries each in a process of its own and prints a line for it: the name, a tab, and "ok", the name of the error, or the
 * name of the signal that ended it. */
void probe_all(const struct probe *probes, size_t n);

int probe_group(const char *group);
void run_verb(const char *verb, double x);

#endif
