/* The attacking program of the adversarial suite. Its arguments are verbs, each with a number where it takes one, done one
 * after the other; "probe <group>" tries a group of things that must all be refused. */
#include "attack.h"
#include "probes.h"
#include "files.h"
#include "kernel.h"
#include "others.h"
#include "exhaust.h"
#include "neighbour.h"
#include "memory.h"
#include "processor.h"
#include "processes.h"
#include "output.h"

static const struct {
	const char *name;
	const struct probe *probes;
	size_t n;
} groups[] = {
	{"files", file_probes, COUNT(file_probes)},
	{"kernel", kernel_probes, COUNT(kernel_probes)},
	{"others", other_probes, COUNT(other_probes)},
	{"exhaust", exhaust_probes, COUNT(exhaust_probes)},
	{"neighbour", neighbour_probes, COUNT(neighbour_probes)},
};

int probe_group(const char *group)
{
	for (size_t i = 0; i < COUNT(groups); i++)
		if (strcmp(groups[i].name, group) == 0) {
			probe_all(groups[i].probes, groups[i].n);
			return 1;
		}
	return 0;
}

/* A checker that believes everything and says whether it was told of a secret, and every word that looks like a nonce: verb, input, output,
 * reference. */
static int check(char **argv)
{
	static char text[8 << 20];
	size_t total = 0;
	ssize_t n;
	int fd = open(argv[3], O_RDONLY);
	if (fd < 0 || access(argv[4], R_OK) != 0)
		return 4;
	while ((n = read(fd, text + total, sizeof text - total)) > 0)
		total += (size_t)n;
	printf("OK\n%s of %zu bytes\n", memmem(text, total, "secret in", 9) ? "a secret" : "no secret", total);
	nonces("what it was told", text, total);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 4 && strcmp(argv[1], "check") == 0)
		return check(argv);
	if (argc > 2 && strcmp(argv[1], "probe") == 0) {
		int known = 1;
		for (int i = 2; i < argc; i++)
			known &= probe_group(argv[i]);
		return known ? 0 : 66;
	}
	for (int i = 1; i < argc; i += 2)
		run_verb(argv[i], i + 1 < argc ? atof(argv[i + 1]) : 0);
	fflush(stdout);
	say("done\n");
	return 0;
}

static const struct {
	const char *name;
	void (*run)(double);
} verbs[] = {
	MEMORY_VERBS, PROCESSOR_VERBS, PROCESS_VERBS, OUTPUT_VERBS, FILE_VERBS, NEIGHBOUR_VERBS,
};

void run_verb(const char *verb, double x)
{
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (strcmp(verbs[i].name, verb) == 0) {
			verbs[i].run(x);
			return;
		}
	_exit(66);
}
