/* Processor time, spent so that it might not be seen, and time spent without it. */
#include "attack.h"

static void forever(void)
{
	volatile unsigned long x = 0;
	for (;;)
		x++;
}

static void v_spin(double x) { (void)x; forever(); }

static void *thread_spins(void *x)
{
	forever();
	return x;
}

static void v_threads(double n)
{
	pthread_t id;
	for (int i = 0; i < (int)n; i++)
		pthread_create(&id, NULL, thread_spins, NULL);
	pthread_exit(NULL); /* the first thread is gone, and the process is not */
}

static void v_children(double n)
{
	for (int i = 0; i < (int)n; i++)
		if (fork() == 0)
			forever();
	while (wait(NULL) > 0)
		;
}

/* Nobody of the program waits for them, and none is in its session. */
static void v_sessions(double n)
{
	for (int i = 0; i < (int)n; i++)
		if (fork() == 0) {
			setsid();
			if (fork() == 0)
				forever();
			_exit(0);
		}
	for (;;)
		pause();
}

/* x seconds of work in an orphan, of which wait4 tells nothing. */
static void v_orphan(double x)
{
	int done[2];
	char c;
	if (pipe(done) != 0)
		_exit(70);
	if (fork() == 0) {
		if (fork() == 0) {
			burn(x);
			all(done[1], "x", 1);
			_exit(0);
		}
		_exit(0);
	}
	wait(NULL);
	if (read(done[0], &c, 1) != 1)
		_exit(71);
}

/* x seconds of work, ten milliseconds a process: none lives long enough to be looked at. */
static void v_relay(double x)
{
	for (int i = 0; i < (int)(x * 100); i++) {
		if (fork() == 0) {
			burn(0.01);
			_exit(0);
		}
		signal(SIGCHLD, SIG_IGN); /* and nobody waits */
		while (wait(NULL) > 0)
			;
	}
}

static void v_burn(double x) { burn(x); }

static void v_kernel(double x)
{
	static char piece[MIB];
	int zero = open("/dev/zero", O_RDONLY);
	(void)x;
	for (;;)
		if (read(zero, piece, sizeof piece) < 0)
			_exit(70);
}

static void on_signal(int number)
{
	(void)number;
	burn(0.002);
}

static void v_storm(double x)
{
	struct itimerval every = {{0, 1000}, {0, 1000}};
	(void)x;
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &every, NULL);
	for (;;)
		pause();
}

static void v_sleep(double x) { nap(x); }

static void v_wait(double x)
{
	int p[2];
	char c;
	(void)x;
	if (pipe(p) != 0 || read(p[0], &c, 1) < 0)
		_exit(70);
}

/* A little work, now and then, for ever: it makes progress and never ends. */
static void v_ticks(double x)
{
	(void)x;
	for (;;) {
		burn(0.001);
		nap(0.2);
	}
}

static void v_stop(double x)
{
	(void)x;
	raise(SIGSTOP);
}

static void v_closed(double x)
{
	(void)x;
	close(0);
	close(1);
	close(2);
	forever();
}

#define PROCESSOR_VERBS                                                                                                           \
	{"spin", v_spin}, {"threads", v_threads}, {"children", v_children}, {"sessions", v_sessions}, {"orphan", v_orphan},       \
		{"relay", v_relay}, {"burn", v_burn}, {"kernel", v_kernel}, {"storm", v_storm}, {"sleep", v_sleep}, {"wait", v_wait}, \
		{"ticks", v_ticks}, {"stop", v_stop}, {"closed", v_closed}
