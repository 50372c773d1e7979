/* Using up what there is, in ways that end by themselves. */
#include "attack.h"
#include <mqueue.h>

static long e_truncate(void)
{
	int fd = open("/dev/shm/sparse", O_CREAT | O_RDWR, 0600);
	unlink("/dev/shm/sparse");
	return fd < 0 ? -1 : ftruncate(fd, 1L << 40);
}
static long e_far(void)
{
	int fd = open("/dev/shm/far", O_CREAT | O_RDWR, 0600);
	unlink("/dev/shm/far");
	return fd < 0 ? -1 : pwrite(fd, "x", 1, 300 * MIB);
}
static long e_memfd(void) { return ftruncate(memfd_create("sparse", 0), 1L << 40); }
static long e_fill(void)
{
	int fd = open("/dev/shm/fill", O_CREAT | O_RDWR, 0600);
	unlink("/dev/shm/fill");
	return fallocate(fd, 0, 0, 70 * MIB);
}
static long e_files(void)
{
	int n = 0, failed;
	while (n < 400 && dup(0) >= 0)
		n++;
	failed = errno;
	return n > 256 ? n : refused(failed);
}
static long e_forks(void)
{
	int n = 0, failed = 0;
	static pid_t child[64];
	for (; n < 64; n++) {
		if ((child[n] = fork()) < 0) {
			failed = errno;
			break;
		}
		if (child[n] == 0) {
			pause();
			_exit(0);
		}
	}
	for (int i = 0; i < n; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	return n >= 15 ? n : refused(failed);
}
static void *waiting(void *x)
{
	pause();
	return x;
}
static long e_threads(void)
{
	int n = 0, failed = 0;
	pthread_t id;
	for (; n < 64 && (failed = pthread_create(&id, NULL, waiting, NULL)) == 0;)
		n++;
	return n >= 15 ? n : refused(failed);
}
static long e_zombies(void)
{
	int n = 0, failed = 0;
	for (; n < 64; n++) {
		pid_t child = fork();
		if (child < 0) {
			failed = errno;
			break;
		}
		if (child == 0)
			_exit(0);
	}
	return n >= 15 ? n : refused(failed);
}
/* Nobody but process 1 buries these; were it not to, they would use up the numbers. */
static long e_orphans(void)
{
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();
		if (child == 0) {
			if (fork() == 0)
				_exit(0);
			_exit(0);
		}
		for (int again = 0; child < 0 && again < 100; again++) {
			nap(0.01);
			if ((child = fork()) == 0)
				_exit(0);
		}
		if (child < 0)
			return -1;
		waitpid(child, NULL, 0);
	}
	return 0;
}
static long e_deep(void)
{
	int depth = 0;
	if (chdir("/dev/shm") != 0)
		return -1;
	while (depth < 2000 && mkdir("d", 0700) == 0 && chdir("d") == 0)
		depth++;
	for (int i = 0; i < depth && chdir("..") == 0; i++)
		rmdir("d");
	return depth == 2000 ? 0 : -1;
}
static long e_argument(void)
{
	char *word = malloc(3 * MIB), *arguments[] = {"attack", word, NULL};
	memset(word, 'a', 3 * MIB);
	word[3 * MIB - 1] = 0;
	return execv("/proc/self/exe", arguments);
}
static long e_environment(void)
{
	static char word[100000], *words[120], *arguments[] = {"attack", NULL};
	memset(word, 'a', sizeof word - 1);
	for (size_t i = 0; i + 1 < COUNT(words); i++)
		words[i] = word;
	return execve("/proc/self/exe", arguments, words);
}
static long e_queues(void)
{
	int n = 0, failed;
	char name[32];
	struct mq_attr a = {.mq_maxmsg = 10, .mq_msgsize = 8192};
	for (; n < 64; n++) {
		snprintf(name, sizeof name, "/evalhost-%d", n);
		if (mq_open(name, O_CREAT | O_RDWR, 0600, &a) < 0)
			break;
	}
	failed = errno;
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "/evalhost-%d", i);
		mq_unlink(name);
	}
	return n >= 64 ? n : refused(failed);
}
static long e_lock(void)
{
	char *p = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mlock(p, 64 * MIB);
}
static long e_huge(void)
{
	return mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) == MAP_FAILED ? -1 : 0;
}
static long e_stderr(void)
{
	static char piece[MIB];
	for (int i = 0; i < 100; i++)
		if (write(2, piece, sizeof piece) != sizeof piece)
			return -1;
	return 0;
}
static long e_stderr_leads(void)
{
	/* Where it leads: to a device that keeps nothing. */
	struct stat s;
	return fstat(2, &s) == 0 && S_ISCHR(s.st_mode) && s.st_rdev == 0x103 ? refused(ENODATA) : 0;
}
static long e_fault(void) { return *(volatile int *)8; }
static long e_illegal(void)
{
	__asm__ volatile("ud2");
	return 0;
}
static long e_privileged(void)
{
	__asm__ volatile("hlt");
	return 0;
}
static long e_port(void)
{
	__asm__ volatile("outb %%al, %%dx" : : "a"(0), "d"(0x80));
	return 0;
}

static const struct probe exhaust_probes[] = {
	{"a sparse file of a terabyte", e_truncate},
	{"a byte beyond the largest file", e_far},
	{"a memfd of a terabyte", e_memfd},
	{"more than shared memory holds", e_fill},
	{"more than 256 descriptors", e_files},
	{"fifteen children", e_forks},
	{"fifteen threads", e_threads},
	{"fifteen zombies", e_zombies},
	{"two hundred orphans one after the other", e_orphans},
	{"two thousand directories in each other", e_deep},
	{"an argument of three megabytes", e_argument},
	{"an environment of twelve megabytes", e_environment},
	{"C55 message queues without end", e_queues},
	{"lock 64 MiB of memory", e_lock},
	{"huge pages", e_huge},
	{"a hundred megabytes on standard error", e_stderr},
	{"standard error that leads somewhere", e_stderr_leads},
	{"a bad address", e_fault},
	{"an illegal instruction", e_illegal},
	{"halt the processor", e_privileged},
	{"write to a port", e_port},
};
