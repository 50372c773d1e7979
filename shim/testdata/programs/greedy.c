/* A submission whose child takes more memory than there is. Were the child alone to die of it, the parent would exit
 * with 0; the whole box dies together. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	if (fork() == 0) {
		for (;;) {
			volatile char *block = malloc(1 << 16);
			for (int i = 0; block && i < 1 << 16; i += 4096)
				block[i] = 1;
		}
	}
	wait(NULL);
	sleep(1);
	return 0;
}
