/* A submission that hands its work to a process nobody waits for, and leaves another behind that escaped into a session of
 * its own, holds the output and would write to it much later. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static double used(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Forks twice, so that the grandchild is nobody's child; returns 1 in the grandchild. */
static int detach(void)
{
	pid_t child = fork();
	if (child == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	int finished[2];
	char byte;
	if (pipe(finished) != 0)
		return 3;
	if (detach()) {
		close(finished[0]);
		while (used() < seconds)
			for (volatile int i = 0; i < 100000; i++)
				;
		_exit(0);
	}
	close(finished[1]);
	if (read(finished[0], &byte, 1) != 0) /* not a wait: the work stays unaccounted for */
		return 3;
	if (detach()) {
		close(finished[0]);
		sleep(60);
		write(1, "late\n", 5);
		_exit(0);
	}
	usleep(200000); /* let the escapee escape */
	write(1, "burnt\n", 6);
	return 0;
}
