/* A submission that ends as it is told: `fate exit 42`, `fate signal 11`, `fate divide`, `fate null`, `fate abort`. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	volatile int seven = 7, zero = 0;
	if (argc < 2)
		return 3;
	if (!strcmp(argv[1], "exit"))
		return atoi(argv[2]);
	if (!strcmp(argv[1], "signal"))
		kill(getpid(), atoi(argv[2]));
	if (!strcmp(argv[1], "divide"))
		return seven / zero;
	if (!strcmp(argv[1], "null"))
		return *(volatile int *)(long)zero;
	if (!strcmp(argv[1], "abort"))
		abort();
	return 3;
}
