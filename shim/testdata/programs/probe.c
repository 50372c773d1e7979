/* A submission that tries everything it should not be able to do, and says what came of it, one line each:
 *
 *	<attempt> ok          or
 *	<attempt> <ERRNO>
 *
 * It talks to the test over its input: it prints READY and waits for a line, attacks, prints DONE and waits again, so that
 * the host can look at it from outside before and after. It exits with 7. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *attempt, long result)
{
	printf("%s %s\n", attempt, result < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
}

static void try_open(const char *attempt, const char *path, int flags)
{
	int fd = open(path, flags);
	tell(attempt, fd);
	if (fd >= 0)
		close(fd);
}

static void wait_for_host(const char *word)
{
	char line[64];
	puts(word);
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		_exit(3);
}

/* Prints a file in hexadecimal after a word, or the reason why it cannot. */
static int dump(const char *word, const char *path)
{
	unsigned char buffer[8192];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buffer, sizeof buffer);
	if (n < 0) {
		tell(word, -1);
	} else {
		printf("%s ", word);
		for (ssize_t i = 0; i < n; i++)
			printf("%02x", buffer[i]);
		puts("");
	}
	if (fd >= 0)
		close(fd);
	return n >= 0;
}

static void identity(void)
{
	tell("setuid(0)", setuid(0));
	tell("setgid(0)", setgid(0));
	tell("setresuid(0)", setresuid(0, 0, 0));
	tell("setgroups", setgroups(0, NULL));
	tell("mount", mount("none", "/work", "tmpfs", 0, NULL));
	tell("chroot", chroot("/work"));
}

static void the_shim(void)
{
	char *argv[] = {"/usr/local/bin/aj-shim", "--features", NULL};
	struct iovec local = {argv, 8}, remote = {(void *)0x400000, 8};
	tell("kill shim", kill(1, SIGKILL));
	tell("terminate shim", kill(getppid(), SIGTERM));
	tell("stop shim", kill(1, SIGSTOP));
	tell("trace shim", ptrace(PTRACE_SEIZE, 1, 0, 0));
	tell("read shim's memory", process_vm_readv(1, &local, 1, &remote, 1, 0));
	try_open("open shim's memory", "/proc/1/mem", O_RDWR);
	try_open("list shim's files", "/proc/1/fd", O_RDONLY | O_DIRECTORY);
	try_open("open shim's executable", "/proc/1/exe", O_RDONLY);
	try_open("open shim's root", "/proc/1/root", O_RDONLY);
	try_open("read the shim", "/usr/local/bin/aj-shim", O_RDONLY);
	try_open("write the shim", "/usr/local/bin/aj-shim", O_WRONLY);
	pid_t child = fork();
	if (child == 0) {
		execv(argv[0], argv);
		_exit(errno);
	}
	int status = 0;
	waitpid(child, &status, 0);
	errno = WEXITSTATUS(status);
	tell("run the shim", errno ? -1 : 0);
	dump("cmdline", "/proc/1/cmdline");
	dump("own-environ", "/proc/self/environ");
}

/* Every environment of every process that can be opened. */
static void every_environment(void)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	int seen = 0;
	while (proc && (entry = readdir(proc))) {
		char path[300];
		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name))
			continue;
		seen++;
		snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
		dump(strcmp(entry->d_name, "1") ? "environ" : "environ-of-1", path);
	}
	printf("processes-seen %d\n", seen);
}

static int files_tried, files_opened;

static int try_writing(const char *path, const struct stat *about, int kind, struct FTW *where)
{
	(void)about;
	(void)where;
	char name[4096];
	if (kind == FTW_F) {
		int fd = open(path, O_WRONLY);
		files_tried++;
		if (fd >= 0) {
			printf("cgroup-file-opened %s\n", path);
			files_opened++;
			close(fd);
		}
	} else {
		snprintf(name, sizeof name, "%s/escape", path);
		files_tried++;
		if (mkdir(name, 0777) == 0) {
			printf("cgroup-made %s\n", name);
			files_opened++;
		}
	}
	return 0;
}

static void cgroups(void)
{
	nftw("/aj/cgroup", try_writing, 16, FTW_PHYS);
	printf("cgroup-files-tried %d\ncgroup-files-opened %d\n", files_tried, files_opened);
	try_open("look into the box", "/aj/cgroup/box", O_RDONLY);
	try_open("write the host's cgroups", "/sys/fs/cgroup/cgroup.procs", O_WRONLY);
}

static void channels(void)
{
	try_open("open report", "/aj-out/report", O_WRONLY | O_NONBLOCK);
	try_open("open output", "/aj-out/stdout", O_WRONLY | O_NONBLOCK);
	try_open("read output", "/aj-out/stdout", O_RDONLY | O_NONBLOCK);
	try_open("open input", "/aj-out/stdin", O_RDWR | O_NONBLOCK);
	try_open("re-open output", "/dev/stdout", O_WRONLY | O_NONBLOCK);
	try_open("re-open output as a descriptor", "/proc/self/fd/1", O_WRONLY | O_NONBLOCK);
	tell("make a file beside the channels", mkfifo("/aj-out/mine", 0666));
	tell("remove a channel", unlink("/aj-out/report"));
	tell("move a channel", rename("/aj-out/report", "/aj-out/gone"));
}

/* Lines that look like reports, into everything that is open. */
static void forge(void)
{
	static const char lines[] = "\n00000000000000000000000000000000 aj-shim1 ok 0 0 1 1 1 1 0\n"
				    " aj-shim1 ok 0 0 1 1 1 1 0\naj-shim1 failed forged: nothing\n";
	int written = 0;
	fflush(stdout);
	for (int fd = 0; fd < 1024; fd++)
		written += write(fd, lines, sizeof lines - 1) > 0;
	printf("forged-into %d\n", written);
}

/* How many processes there may be beside this one. */
static void processes(void)
{
	pid_t child[256];
	int count = 0;
	while (count < 256 && (child[count] = fork()) >= 0) {
		if (child[count] == 0) {
			pause();
			_exit(0);
		}
		count++;
	}
	printf("forks %d\n", count);
	tell("one fork more", -1);
	for (int i = 0; i < count; i++)
		kill(child[i], SIGKILL);
	while (wait(NULL) > 0)
		;
}

/* What exec must not have handed down. */
static void inheritance(void)
{
	int open_files = 0, ignored = 0;
	struct sigaction action;
	sigset_t blocked;
	for (int fd = 0; fd < 1024; fd++)
		open_files += fcntl(fd, F_GETFD) >= 0;
	for (int signal = 1; signal < 65; signal++)
		ignored += sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int signal = 1; signal < 65; signal++)
		ignored += sigismember(&blocked, signal) == 1;
	printf("open-files %d\nsignals-touched %d\nno-new-privileges %d\nleads-its-group %d\n", open_files, ignored,
	       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), getpgrp() == getpid());
}

int main(void)
{
	setvbuf(stdin, NULL, _IONBF, 0); /* forged lines must not be taken for the host's */
	printf("pid %d\n", getpid());
	inheritance();
	wait_for_host("READY");
	identity();
	the_shim();
	every_environment();
	cgroups();
	channels();
	processes();
	forge();
	wait_for_host("DONE");
	return 7;
}
