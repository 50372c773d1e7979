/* Two submissions that look for each other. "mark" leaves everything that could be found and waits; the group of probes
 * "neighbour" looks for it. */
#include "attack.h"
#include <mqueue.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#define MARK_KEY 0x5ec0de
#define MARK_PORT 47114
#define MARK_WORD "evalhost-mark"

static int listening_abstract(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0" MARK_WORD};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	return bind(s, (struct sockaddr *)&a, sizeof(sa_family_t) + sizeof MARK_WORD) == 0 && listen(s, 1) == 0;
}

static int listening_path(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/dev/shm/" MARK_WORD ".socket"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	unlink(a.sun_path);
	return bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 1) == 0;
}

static int listening_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(MARK_PORT), .sin_addr.s_addr = htonl(0x7f000001)};
	int s = socket(AF_INET, SOCK_STREAM, 0);
	return bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 1) == 0;
}

static int locking(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	return flock(fd, LOCK_EX | LOCK_NB) == 0 && fcntl(fd, F_SETLK, &l) == 0;
}

/* Says what it could leave, so that a mark that was not made is not taken for one that was not found. */
static void v_mark(double seconds)
{
	struct { long kind; char text[16]; } message = {1, MARK_WORD};
	int queue = msgget(MARK_KEY, IPC_CREAT | 0666);
	struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 16};
	int file = open("/dev/shm/" MARK_WORD, O_CREAT | O_WRONLY, 0666);
	printf("marks %d%d%d%d%d%d%d%d%d%d\n", shmget(MARK_KEY, 4096, IPC_CREAT | 0666) >= 0,
	       semget(MARK_KEY, 1, IPC_CREAT | 0666) >= 0, queue >= 0 && msgsnd(queue, &message, 16, IPC_NOWAIT) == 0,
	       mq_open("/" MARK_WORD, O_CREAT | O_RDWR, 0666, &a) >= 0, file >= 0 && write(file, MARK_WORD, 13) == 13,
	       listening_abstract(), listening_path(), listening_port(), locking("/proc/self/exe"), locking("/in/1a.in"));
	fflush(stdout);
	nap(seconds);
}

/* Takes the marks away again, where nobody else does: outside of a sandbox. */
static void v_unmark(double x)
{
	(void)x;
	shmctl(shmget(MARK_KEY, 0, 0), IPC_RMID, NULL);
	semctl(semget(MARK_KEY, 0, 0), 0, IPC_RMID);
	msgctl(msgget(MARK_KEY, 0), IPC_RMID, NULL);
	mq_unlink("/" MARK_WORD);
	unlink("/dev/shm/" MARK_WORD);
	unlink("/dev/shm/" MARK_WORD ".socket");
}

static long f_sysv_shm(void) { return shmget(MARK_KEY, 0, 0); }
static long f_sysv_sem(void) { return semget(MARK_KEY, 0, 0); }
static long f_sysv_msg(void) { return msgget(MARK_KEY, 0); }
static long f_mq(void) { return mq_open("/" MARK_WORD, O_RDWR); }
static long f_shm_file(void) { return open("/dev/shm/" MARK_WORD, O_RDONLY); }
static long f_abstract(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0" MARK_WORD};
	return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(sa_family_t) + sizeof MARK_WORD);
}
static long f_path(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/dev/shm/" MARK_WORD ".socket"};
	return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof a);
}
static long f_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(MARK_PORT), .sin_addr.s_addr = htonl(0x7f000001)};
	return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof a);
}
/* ok: somebody else holds the lock. */
static long f_lock(const char *path)
{
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	return flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK ? 0 : refused(ENODATA);
}
static long f_program_lock(void) { return f_lock("/proc/self/exe"); }
static long f_input_lock(void) { return f_lock("/in/1a.in"); }
/* ok: a process is there whose command line holds the word "mark". */
static long f_process(void)
{
	struct dirent *e;
	char path[300], line[4096];
	DIR *proc = opendir("/proc");
	while (proc && (e = readdir(proc))) {
		snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
		int fd = open(path, O_RDONLY);
		ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line);
		if (fd >= 0)
			close(fd);
		if (n > 0 && memmem(line, (size_t)n, "\0mark", 6))
			return 0;
	}
	return refused(ESRCH);
}

static const struct probe neighbour_probes[] = {
	{"C55 find System V shared memory", f_sysv_shm},
	{"C55 find System V semaphores", f_sysv_sem},
	{"C55 find a System V queue", f_sysv_msg},
	{"C55 find a POSIX queue", f_mq},
	{"C55 find a file in shared memory", f_shm_file},
	{"C55 find an abstract socket", f_abstract},
	{"C55 find a socket in shared memory", f_path},
	{"find a port of the loopback", f_port},
	{"find a lock on the program", f_program_lock},
	{"find a lock on the input", f_input_lock},
	{"find a process", f_process},
};

#define NEIGHBOUR_VERBS {"mark", v_mark}, {"unmark", v_unmark}, {"status", v_status}
