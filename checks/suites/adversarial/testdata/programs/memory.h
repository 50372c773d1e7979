/* Memory beyond the limit, kind by kind. Each takes x MiB and then ends well: a limit that does not hold shows as an end
 * with code 0. */
#include "attack.h"
#include <sys/msg.h>
#include <sys/shm.h>

static void touched(char *p, double mib)
{
	if (p == MAP_FAILED || p == NULL)
		_exit(77);
	for (long i = 0; i < (long)(mib * MIB); i += PAGE)
		p[i] = 1;
}

static void v_heap(double mib)
{
	for (long i = 0; i < (long)mib; i++)
		touched(malloc(MIB), 1);
}

static void v_brk(double mib)
{
	for (long i = 0; i < (long)mib; i++)
		touched(sbrk(MIB), 1);
}

static long deeper(long depth)
{
	volatile char room[64 * 1024];
	room[0] = room[32 * 1024] = (char)depth;
	for (size_t i = 0; i < sizeof room; i += PAGE)
		room[i] = 1;
	return depth <= 0 ? room[0] : deeper(depth - 1) + room[1];
}

/* On a stack of its own, larger than the limit on stacks: C77's endless recursion with a stack to match. */
static void *recursing(void *mib)
{
	return (void *)deeper((long)*(double *)mib * 16);
}

static void v_stack(double mib)
{
	pthread_attr_t a;
	pthread_t thread;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, (size_t)(mib + 8) * MIB);
	if (pthread_create(&thread, &a, recursing, &mib) != 0)
		_exit(76);
	pthread_join(thread, NULL);
}

static char static_array[256 * MIB];

static void v_bss(double mib) { touched(static_array, mib); }
static void v_declared(double mib) { touched(static_array, mib); }

static void *thread_touches(void *mib)
{
	touched(mmap(NULL, (size_t)(*(double *)mib * MIB), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *(double *)mib);
	pause();
	return NULL;
}

static void v_threads_memory(double mib)
{
	pthread_t id;
	double each = mib / 8;
	for (int i = 0; i < 8; i++)
		if (pthread_create(&id, NULL, thread_touches, &each) != 0)
			_exit(76);
	nap(60);
}

/* The child is killed, and its parent ends well (C02). */
static void v_child(double mib)
{
	if (fork() == 0) {
		v_heap(mib);
		_exit(0);
	}
	wait(NULL);
}

/* None of them is above the limit; all of them are. */
static void v_family(double mib)
{
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			v_heap(mib / 8);
			pause();
		}
	nap(60);
}

static void v_shm(double mib)
{
	static char piece[MIB];
	int fd = open("/dev/shm/file", O_CREAT | O_WRONLY, 0600);
	memset(piece, 'x', sizeof piece);
	for (long i = 0; i < (long)mib; i++)
		if (write(fd, piece, sizeof piece) != sizeof piece)
			_exit(78);
}

static void v_memfd(double mib)
{
	int fd = memfd_create("memory", 0);
	if (ftruncate(fd, (long)(mib * MIB)) != 0)
		_exit(78);
	touched(mmap(NULL, (size_t)(mib * MIB), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), mib);
}

static void v_sysv(double mib)
{
	int id = shmget(IPC_PRIVATE, (size_t)(mib * MIB), IPC_CREAT | 0600);
	char *p = shmat(id, NULL, 0);
	touched(p == (char *)-1 ? NULL : p, mib);
}

static void v_shared(double mib)
{
	touched(mmap(NULL, (size_t)(mib * MIB), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), mib);
}

/* Kernel memory: what is in the pipes belongs to whoever wrote it. */
static void v_pipes(double mib)
{
	static char piece[65536];
	for (long i = 0; i < (long)mib * 16; i++) {
		int p[2];
		if (i % 100 == 99 && fork() != 0) /* a process holds no more than 256 descriptors */
			for (;;)
				pause();
		if (i % 100 == 99)
			for (int fd = 3; fd < 256; fd++)
				close(fd);
		if (pipe(p) != 0)
			_exit(75);
		fcntl(p[1], F_SETFL, O_NONBLOCK);
		while (write(p[1], piece, sizeof piece) > 0)
			;
	}
}

static void v_sockets(double mib)
{
	static char piece[4096];
	for (long i = 0; i < (long)mib * 5; i++) {
		int p[2];
		if (i % 100 == 99 && fork() != 0)
			for (;;)
				pause();
		if (i % 100 == 99)
			for (int fd = 3; fd < 256; fd++)
				close(fd);
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) != 0)
			_exit(75);
		while (write(p[1], piece, sizeof piece) > 0)
			;
	}
}

static void v_inodes(double thousands)
{
	char name[64];
	for (long i = 0; i < (long)(thousands * 1000); i++) {
		snprintf(name, sizeof name, "/dev/shm/%ld", i);
		int fd = open(name, O_CREAT | O_WRONLY, 0600);
		if (fd < 0)
			_exit(74);
		close(fd);
	}
}

/* Page tables alone: one page of zeros seen from many places. */
static void v_tables(double mib)
{
	size_t far = (size_t)(mib * 256) * 2 * MIB;
	char *p = mmap(NULL, far, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	volatile char c;
	if (p == MAP_FAILED)
		_exit(77);
	madvise(p, far, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < far; i += 2 * MIB)
		c = p[i];
	(void)c;
}

/* The input's pages are there already; what is written over them is not. */
static void v_input_private(double mib)
{
	for (int i = 0; i < 64; i++)
		touched(mmap(NULL, (size_t)(mib * MIB), PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, 0), mib);
}

static void v_input_read(double mib)
{
	char *p = mmap(NULL, (size_t)(mib * MIB), PROT_READ, MAP_SHARED, 0, 0);
	volatile char c;
	if (p == MAP_FAILED)
		_exit(77);
	for (long i = 0; i < (long)(mib * MIB); i += PAGE)
		c = p[i];
	(void)c;
}

#define MEMORY_VERBS                                                                                                              \
	{"heap", v_heap}, {"brk", v_brk}, {"stack", v_stack}, {"bss", v_bss}, {"declared", v_declared},                           \
		{"threads-memory", v_threads_memory}, {"child", v_child}, {"family", v_family}, {"shm", v_shm}, {"memfd", v_memfd}, \
		{"sysv", v_sysv}, {"shared", v_shared}, {"pipes", v_pipes}, {"sockets", v_sockets}, {"inodes", v_inodes},           \
		{"tables", v_tables}, {"input-private", v_input_private}, {"input-read", v_input_read}
