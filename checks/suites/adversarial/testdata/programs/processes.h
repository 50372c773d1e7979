/* Processes without number, and processes that stay. */
#include "attack.h"

static void v_bomb(double x)
{
	(void)x;
	for (;;)
		fork();
}

static void v_vfork_bomb(double x)
{
	(void)x;
	for (;;)
		if (vfork() == 0) {
			execl("/proc/self/exe", "attack", "vfork-bomb", "0", (char *)NULL);
			_exit(1);
		}
}

static void *thread_bomb(void *x)
{
	pthread_t id;
	for (;;)
		pthread_create(&id, NULL, thread_bomb, NULL);
	return x;
}

static void v_thread_bomb(double x)
{
	(void)x;
	thread_bomb(NULL);
}

/* Zombies as fast as they can be made. */
static void v_zombies(double x)
{
	(void)x;
	for (;;)
		if (fork() == 0)
			_exit(0);
}

static void ignoring(void)
{
	sigset_t every;
	sigfillset(&every);
	sigprocmask(SIG_BLOCK, &every, NULL);
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
}

/* Survivors of every kind, and an end with this code: one in its own session, one that blocks every signal, one that is
 * stopped, one that holds the output and would write to it, one that forks for ever. */
static void v_survivors(double code)
{
	for (int kind = 0; kind < 5; kind++)
		if (fork() == 0) {
			setsid();
			if (fork() != 0)
				_exit(0);
			if (kind == 1)
				ignoring();
			if (kind == 2)
				raise(SIGSTOP);
			if (kind == 3)
				for (;;) {
					nap(2);
					say("written by a survivor\n");
				}
			for (;;) {
				if (kind == 4 && fork() != 0)
					_exit(0);
				nap(0.05);
			}
		}
	nap(0.5);
	say("survived by five\n");
	_exit((int)code);
}

/* Every signal to everybody. */
static void v_signals(double code)
{
	for (int s = 1; s < 65; s++) {
		if (s != SIGKILL && s != SIGSTOP)
			signal(s, SIG_IGN);
		kill(-1, s);
		kill(1, s);
		kill(getppid(), s);
	}
	for (pid_t pid = 2; pid < 5000; pid++)
		if (pid != getpid())
			kill(pid, SIGKILL);
	say("signalled\n");
	_exit((int)code);
}

static void v_group(double x)
{
	(void)x;
	kill(0, SIGKILL);
	pause();
}

static void v_exit(double code) { _exit((int)code); }

static void v_raise(double number)
{
	signal((int)number, SIG_DFL);
	raise((int)number);
}

#define PROCESS_VERBS                                                                                                             \
	{"bomb", v_bomb}, {"vfork-bomb", v_vfork_bomb}, {"thread-bomb", v_thread_bomb}, {"zombies", v_zombies},                   \
		{"survivors", v_survivors}, {"signals", v_signals}, {"group", v_group}, {"exit", v_exit}, {"raise", v_raise}
