/* How things are tried. */
#include "attack.h"

/* A probe may take this long; then it is a failure, since nothing here has a reason to wait. */
#define PROBE_SECONDS 20

static void tell(const char *name, const char *result)
{
	printf("%s\t%s\n", name, result);
	fflush(stdout);
}

void probe_all(const struct probe *probes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int status = 0;
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			alarm(PROBE_SECONDS);
			errno = 0;
			long result = probes[i].try();
			_exit(result >= 0 ? 0 : errno > 0 && errno < 254 ? errno : 254);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid) {
			tell(probes[i].name, "could not be tried");
			continue;
		}
		if (WIFSIGNALED(status)) {
			char word[32];
			snprintf(word, sizeof word, "SIG%s", sigabbrev_np(WTERMSIG(status)));
			tell(probes[i].name, word);
		} else if (WEXITSTATUS(status) == 0) {
			tell(probes[i].name, "ok");
		} else {
			const char *word = strerrorname_np(WEXITSTATUS(status));
			tell(probes[i].name, word ? word : "an unknown error");
		}
	}
}
