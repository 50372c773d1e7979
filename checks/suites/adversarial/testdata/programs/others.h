/* Other processes, the shim above all, and privileges. */
#include "attack.h"
#include <grp.h>
#include <linux/kcmp.h>
#include <linux/securebits.h>
#include <sys/ptrace.h>

/* A signal that nothing is done about, should it arrive. */
static long o_kill(void) { return kill(1, SIGURG); }
static long o_continue(void) { return kill(1, SIGCONT); }
static long o_kill_parents(void)
{
	/* The parent of the program is the shim; this probe is the program's child. */
	return kill(1, 0);
}
static long o_rt_signal(void)
{
	siginfo_t info = {.si_signo = SIGURG, .si_code = -60};
	return syscall(SYS_rt_sigqueueinfo, 1, SIGURG, &info);
}
static long o_tgkill(void) { return syscall(SYS_tgkill, 1, 1, SIGURG); }
static long o_pidfd_signal(void)
{
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);
	return fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, SIGURG, NULL, 0);
}
static long o_pidfd_getfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);
	return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, 0, 0);
}
static long o_seize(void) { return ptrace(PTRACE_SEIZE, 1, 0, 0); }
static long o_readv(void)
{
	char buffer[8];
	struct iovec here = {buffer, 8}, there = {(void *)8, 8};
	return process_vm_readv(1, &here, 1, &there, 1, 0);
}
static long o_writev(void)
{
	char buffer[8];
	struct iovec here = {buffer, 8}, there = {(void *)8, 8};
	return process_vm_writev(1, &here, 1, &there, 1, 0);
}
static long o_madvise(void)
{
	struct iovec there = {(void *)PAGE, 4096};
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);
	return syscall(SYS_process_madvise, fd, &there, 1L, MADV_COLD, 0);
}
static long o_kcmp(void) { return syscall(SYS_kcmp, 1, getpid(), KCMP_FILES, 0, 0); }
static long o_robust(void)
{
	void *head;
	size_t size;
	return syscall(SYS_get_robust_list, 1, &head, &size);
}
static long o_move_pages(void) { return syscall(SYS_move_pages, 1, 0L, NULL, NULL, NULL, 0); }
static long o_prlimit(void)
{
	struct rlimit limit;
	return prlimit(1, RLIMIT_NOFILE, NULL, &limit);
}
static long o_priority(void) { return setpriority(PRIO_PROCESS, 1, 0); }
static long o_affinity(void)
{
	cpu_set_t set;
	sched_getaffinity(1, sizeof set, &set);
	return sched_setaffinity(1, sizeof set, &set);
}
static long o_ioprio(void) { return syscall(SYS_ioprio_set, 1, 1, 4 | 2 << 13); }
static long o_setpgid(void) { return setpgid(0, 1); }

static long p_setuid(void) { return setuid(0); }
static long p_setgid(void) { return setgid(0); }
static long p_setresuid(void) { return setresuid(-1, 0, -1); }
static long p_setregid(void) { return setregid(0, 0); }
static long p_setgroups(void)
{
	gid_t root = 0;
	return setgroups(1, &root);
}
static long p_setfsuid(void)
{
	setfsuid(0);
	return setfsuid(-1) == 0 ? 0 : refused(EPERM);
}
static long p_capset(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{1 << CAP_SETUID, 1 << CAP_SETUID, 0}, {0, 0, 0}};
	return syscall(SYS_capset, &h, d);
}
static long p_ambient(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};
	syscall(SYS_capget, &h, d);
	d[0].inheritable = 1 << CAP_SETUID;
	syscall(SYS_capset, &h, d);
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0);
}
static long p_bounding(void) { return prctl(PR_CAPBSET_DROP, CAP_SETUID, 0, 0, 0); }
static long p_securebits(void) { return prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0); }
static long p_new_privileges(void)
{
	/* A privilege that came back would be the absence of this one; clearing it is always an error. */
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? refused(EPERM) : 0;
}
static long p_filtered(void) { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2 ? refused(EPERM) : 0; }
static long p_filtered_after_exec(void)
{
	int status;
	if (vfork() == 0) {
		execl("/proc/self/exe", "attack", "status", (char *)NULL);
		_exit(99);
	}
	wait(&status);
	return WEXITSTATUS(status) == 0 ? 0 : refused(WEXITSTATUS(status));
}
static long p_mm(void) { return prctl(PR_SET_MM, PR_SET_MM_BRK, sbrk(0), 0, 0); }

static long raised(int which, rlim_t to)
{
	struct rlimit limit;
	getrlimit(which, &limit);
	limit.rlim_cur = limit.rlim_max = to;
	return setrlimit(which, &limit);
}
static long p_nofile(void) { return raised(RLIMIT_NOFILE, 512); }
static long p_fsize(void) { return raised(RLIMIT_FSIZE, RLIM_INFINITY); }
static long p_core(void) { return raised(RLIMIT_CORE, RLIM_INFINITY); }
static long p_memlock(void) { return raised(RLIMIT_MEMLOCK, RLIM_INFINITY); }
static long p_msgqueue(void) { return raised(RLIMIT_MSGQUEUE, RLIM_INFINITY); }
static long p_rtprio(void) { return raised(RLIMIT_RTPRIO, 99); }
static long p_nice_limit(void) { return raised(RLIMIT_NICE, 40); }
static long p_nice(void) { return setpriority(PRIO_PROCESS, 0, -20); }
static long p_fifo(void)
{
	struct sched_param p = {.sched_priority = 1};
	return sched_setscheduler(0, SCHED_FIFO, &p);
}
static long p_deadline(void)
{
	struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } a = {
		48, 6, 0, 0, 0, 1000000, 10000000, 10000000};
	return syscall(SYS_sched_setattr, 0, &a, 0);
}
static long p_realtime_disk(void) { return syscall(SYS_ioprio_set, 1, 0, 4 | 1 << 13); }
/* Asking for every processor is allowed; getting more than the lane's is not. */
static long p_processors(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0 || sched_getaffinity(0, sizeof set, &set) != 0)
		return -1;
	return CPU_COUNT(&set) > 1 ? 0 : refused(EPERM);
}

static const struct probe other_probes[] = {
	{"signal the shim", o_kill},
	{"signal process 1 with nothing", o_kill_parents},
	{"let the shim continue", o_continue},
	{"queue a signal for the shim", o_rt_signal},
	{"signal a thread of the shim", o_tgkill},
	{"signal the shim by a descriptor", o_pidfd_signal},
	{"take a descriptor of the shim", o_pidfd_getfd},
	{"trace the shim", o_seize},
	{"read the shim's memory by process_vm_readv", o_readv},
	{"write the shim's memory by process_vm_writev", o_writev},
	{"advise on the shim's memory", o_madvise},
	{"compare with the shim", o_kcmp},
	{"take the shim's list of locks", o_robust},
	{"move the shim's pages", o_move_pages},
	{"read the shim's limits", o_prlimit},
	{"change the shim's priority", o_priority},
	{"move the shim to other processors", o_affinity},
	{"change the shim's disk priority", o_ioprio},
	{"join the shim's process group", o_setpgid},
	{"setuid", p_setuid},
	{"setgid", p_setgid},
	{"setresuid", p_setresuid},
	{"setregid", p_setregid},
	{"setgroups", p_setgroups},
	{"setfsuid", p_setfsuid},
	{"capset", p_capset},
	{"raise an ambient capability", p_ambient},
	{"drop from the bounding set", p_bounding},
	{"set the secure bits", p_securebits},
	{"be without no_new_privs", p_new_privileges},
	{"be without a seccomp filter", p_filtered},
	{"be without either after exec", p_filtered_after_exec},
	{"move its own heap by prctl", p_mm},
	{"raise the limit on files", p_nofile},
	{"raise the limit on file size", p_fsize},
	{"raise the limit on core dumps", p_core},
	{"raise the limit on locked memory", p_memlock},
	{"raise the limit on message queues", p_msgqueue},
	{"raise the limit on real-time priority", p_rtprio},
	{"raise the limit on priority", p_nice_limit},
	{"a higher priority", p_nice},
	{"real-time scheduling", p_fifo},
	{"deadline scheduling", p_deadline},
	{"real-time disk priority", p_realtime_disk},
	{"run on other processors", p_processors},
};

/* Exits with 1 (EPERM) when both are in force, 0 when one is not. */
static void v_status(double x)
{
	(void)x;
	_exit(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2 ? EPERM : 0);
}
