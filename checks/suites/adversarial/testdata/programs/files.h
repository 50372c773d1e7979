/* Reading and writing what is not ours. */
#include "attack.h"
#include <ftw.h>
#include <sys/xattr.h>

static long opened(const char *path, int flags)
{
	int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

/* Reading must give a byte; opening alone is no leak. */
static long readable(const char *path)
{
	static char byte[8192];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, byte, sizeof byte);
	if (n == 0)
		return refused(ENODATA);
	return n;
}

/* A directory with something in it. */
static long listed(const char *path)
{
	struct dirent *e;
	int n = 0;
	DIR *d = opendir(path);
	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	return n > 0 ? n : refused(ENODATA);
}

/* A new file, removed again where it could be made. */
static long created(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	unlink(path);
	return 0;
}

#define READ(id, path) \
	static long id(void) { return readable(path); }
#define WRITE(id, path) \
	static long id(void) { return opened(path, O_WRONLY); }
#define CREATE(id, path) \
	static long id(void) { return created(path); }
#define LIST(id, path) \
	static long id(void) { return listed(path); }

READ(r_shadow, "/etc/shadow")
READ(r_planted, "/etc/evalhost-planted")
READ(r_planted_via_cwd, "/proc/self/cwd/../../../../etc/evalhost-planted")
READ(r_planted_via_init, "/proc/1/root/etc/evalhost-planted")
READ(r_planted_via_dotdot, "/in/../../../../../etc/evalhost-planted")
READ(r_key, "/var/lib/evalhost-planted/runner.key")
READ(r_answer, "/in/1a.out")
READ(r_other_test, "/in/2a.in")
READ(r_answers_dir, "/answers/1a.out")
LIST(l_answers, "/answers")
LIST(l_src, "/src")
LIST(l_out, "/out")
/* Where a Docker keeps its data that nobody told, and where the declared host has it. */
static long l_docker(void)
{
	long r = listed("/var/lib/docker");
	return r < 0 ? listed("/var/lib/evalhost/docker") : r;
}
LIST(l_scratch, "/var/lib/evalhost-test")
LIST(l_host_cgroups, "/sys/fs/cgroup")
LIST(l_firmware, "/sys/firmware")
LIST(l_debug, "/sys/kernel/debug")
LIST(l_tracing, "/sys/kernel/tracing")
LIST(l_acpi, "/proc/acpi")
LIST(l_scsi, "/proc/scsi")
READ(r_init_environ, "/proc/1/environ")
READ(r_init_maps, "/proc/1/maps")
READ(r_init_mem, "/proc/1/mem")
READ(r_init_io, "/proc/1/io")
READ(r_init_stack, "/proc/1/stack")
READ(r_init_syscall, "/proc/1/syscall")
LIST(l_init_fd, "/proc/1/fd")
LIST(l_init_root, "/proc/1/root/")
LIST(l_init_cwd, "/proc/1/cwd/")
READ(r_init_exe, "/proc/1/exe")
READ(r_kcore, "/proc/kcore")
READ(r_kmsg, "/proc/kmsg")
READ(r_devkmsg, "/dev/kmsg")
READ(r_keys, "/proc/keys")
READ(r_timer_list, "/proc/timer_list")
READ(r_devmem, "/dev/mem")
READ(r_devport, "/dev/port")
READ(r_disk, "/dev/vda")
WRITE(w_disk, "/dev/vda")
WRITE(w_loop, "/dev/loop-control")
WRITE(w_fuse, "/dev/fuse")
WRITE(w_tun, "/dev/net/tun")
WRITE(w_vsock, "/dev/vsock")
WRITE(w_agent, "/dev/vport0p1")
WRITE(w_rtc, "/dev/rtc0")
WRITE(w_snapshot, "/dev/snapshot")
WRITE(w_mapper, "/dev/mapper/control")
WRITE(w_console, "/dev/console")
WRITE(w_vcs, "/dev/tty0")
WRITE(w_passwd, "/etc/passwd")
WRITE(w_hosts, "/etc/hosts")
WRITE(w_hostname, "/etc/hostname")
WRITE(w_resolv, "/etc/resolv.conf")
WRITE(w_busybox, "/bin/sh")
WRITE(w_input, "/in/1a.in")
WRITE(w_program, "/program/attack")
WRITE(w_shim, "/usr/local/bin/aj-shim")
READ(r_shim, "/usr/local/bin/aj-shim")
WRITE(w_report, "/aj-out/report")
WRITE(w_stdout, "/aj-out/stdout")
READ(r_stdout, "/aj-out/stdout")
WRITE(w_core_pattern, "/proc/sys/kernel/core_pattern")
WRITE(w_modprobe, "/proc/sys/kernel/modprobe")
WRITE(w_proc_hostname, "/proc/sys/kernel/hostname")
WRITE(w_drop_caches, "/proc/sys/vm/drop_caches")
WRITE(w_ns_last_pid, "/proc/sys/kernel/ns_last_pid")
WRITE(w_sysrq, "/proc/sysrq-trigger")
WRITE(w_irq, "/proc/irq/default_smp_affinity")
WRITE(w_binfmt, "/proc/sys/fs/binfmt_misc/register")
WRITE(w_power, "/sys/power/state")
WRITE(w_thp, "/sys/kernel/mm/transparent_hugepage/enabled")
WRITE(w_cpu_online, "/sys/devices/system/cpu/cpu1/online")
WRITE(w_pci, "/sys/bus/pci/rescan")
WRITE(w_uevent, "/sys/kernel/uevent_helper")
WRITE(w_init_mem, "/proc/1/mem")
WRITE(w_init_oom, "/proc/1/oom_score_adj")
WRITE(w_cgroup_procs, "/aj/cgroup/cgroup.procs")
WRITE(w_cgroup_memory, "/aj/cgroup/memory.max")
WRITE(w_cgroup_kill, "/aj/cgroup/cgroup.kill")
WRITE(w_cgroup_freeze, "/aj/cgroup/cgroup.freeze")
CREATE(c_root, "/oops")
CREATE(c_etc, "/etc/oops")
CREATE(c_usr, "/usr/bin/oops")
CREATE(c_work, "/work/oops")
CREATE(c_tmp, "/tmp/oops")
CREATE(c_in, "/in/oops")
CREATE(c_program, "/program/oops")
CREATE(c_channels, "/aj-out/oops")
CREATE(c_dev, "/dev/oops")
CREATE(c_proc, "/proc/oops")
CREATE(c_shm, "/dev/shm/oops")

static long f_oom_score(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	return fd < 0 ? -1 : write(fd, "-1000", 5);
}

static long f_uid_map(void)
{
	int fd = open("/proc/self/uid_map", O_WRONLY);
	return fd < 0 ? -1 : write(fd, "0 0 1", 5);
}

static long f_exe(void) { return opened("/proc/self/exe", O_WRONLY); }
static long f_stdin_again(void) { return opened("/proc/self/fd/0", O_RDWR); }
static long f_stdin_truncate(void) { return ftruncate(0, 0); }
static long f_stdin_write(void) { return write(0, "x", 1); }
static long f_stdout_again(void) { return opened("/proc/self/fd/1", O_WRONLY); }
static long f_unlink(void) { return unlink("/in/1a.in"); }
static long f_rename(void) { return rename("/in/1a.in", "/in/1a.in"); }
static long f_chmod(void) { return chmod("/in/1a.in", 0666); }
static long f_fchmod(void) { return fchmod(0, 0666); }
static long f_fchown(void) { return fchown(0, 65534, 65534); }
static long f_utimes(void) { return futimens(0, NULL); }
static long f_xattr(void) { return fsetxattr(0, "user.x", "y", 1, 0); }
static long f_link(void)
{
	long made = link("/in/1a.in", "/in/link");
	if (made == 0)
		unlink("/in/link");
	return made;
}
static long f_mkfifo(void) { return mkfifo("/aj-out/mine", 0666); }
static long f_unlink_channel(void) { return unlink("/aj-out/report"); }
static long f_mkdir_cgroup(void) { return mkdir("/aj/cgroup/escape", 0777); }

static long device(mode_t kind, dev_t number)
{
	long made = mknod("/dev/shm/device", kind | 0666, number);
	if (made == 0)
		unlink("/dev/shm/device");
	return made;
}

static long f_mknod_char(void) { return device(S_IFCHR, 0x101); }
static long f_mknod_block(void) { return device(S_IFBLK, 0xfe00); }

/* A program of its own, put where writing is possible, and started. Returns 0 if it ran. */
static long started(const char *path, int keep_bits)
{
	static char copy[8 << 20];
	int status, in = open("/proc/self/exe", O_RDONLY), out = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0777);
	if (in < 0 || out < 0)
		return -1;
	ssize_t n = read(in, copy, sizeof copy);
	if (write(out, copy, (size_t)n) != n || fchmod(out, keep_bits ? 04755 : 0755) != 0)
		return -1;
	close(out);
	if (vfork() == 0) {
		execl(path, path, (char *)NULL);
		_exit(errno);
	}
	wait(&status);
	unlink(path);
	return WEXITSTATUS(status) == 0 ? 0 : refused(WEXITSTATUS(status));
}

static long f_execute_shm(void) { close(1); return started("/dev/shm/mine", 0); }

/* Any descriptor of a directory would be a way out of the root. */
static long f_inherited(void)
{
	struct stat s;
	for (int fd = 3; fd < 1024; fd++)
		if (fstat(fd, &s) == 0)
			return fd;
	return refused(EBADF);
}

static int found_setuid;

static int look_for_setuid(const char *path, const struct stat *s, int kind, struct FTW *where)
{
	(void)where;
	if (strcmp(path, "/proc") == 0 || strcmp(path, "/sys") == 0 || strcmp(path, "/var/lib/docker") == 0)
		return FTW_SKIP_SUBTREE;
	if (kind == FTW_F && ((s->st_mode & (S_ISUID | S_ISGID)) || getxattr(path, "security.capability", NULL, 0) > 0))
		found_setuid++;
	return found_setuid ? FTW_STOP : FTW_CONTINUE;
}

static long f_setuid_files(void)
{
	nftw("/", look_for_setuid, 16, FTW_PHYS | FTW_ACTIONRETVAL);
	return found_setuid ? 0 : refused(ENODATA);
}

/* With everything closed but what was given, a handle names a file of the mount whatever the path. */
static long f_handle(void)
{
	struct { struct file_handle h; unsigned char more[8]; } handle = {{.handle_bytes = 8, .handle_type = 1}, {2}};
	int root = open("/proc/self/exe", O_RDONLY);
	return open_by_handle_at(root, &handle.h, O_RDONLY);
}

static const struct probe file_probes[] = {
	{"read /etc/shadow", r_shadow},
	{"read a file of the host", r_planted},
	{"read a file of the host through the working directory", r_planted_via_cwd},
	{"read a file of the host through the root of process 1", r_planted_via_init},
	{"read a file of the host through a mount", r_planted_via_dotdot},
	{"read the host's key", r_key},
	{"read the expected output beside the input", r_answer},
	{"read another test's input", r_other_test},
	{"read the judge's channel", r_answers_dir},
	{"list the judge's channels", l_answers},
	{"list sources", l_src},
	{"list build outputs", l_out},
	{"list the daemon's data", l_docker},
	{"list the Runner's scratch", l_scratch},
	{"list the host's cgroups", l_host_cgroups},
	{"list the firmware's tables", l_firmware},
	{"list debugfs", l_debug},
	{"list tracefs", l_tracing},
	{"list /proc/acpi", l_acpi},
	{"list /proc/scsi", l_scsi},
	{"read the shim's environment", r_init_environ},
	{"read the shim's maps", r_init_maps},
	{"read the shim's memory", r_init_mem},
	{"read the shim's counters", r_init_io},
	{"read the shim's kernel stack", r_init_stack},
	{"read the shim's system call", r_init_syscall},
	{"list the shim's descriptors", l_init_fd},
	{"list the shim's root", l_init_root},
	{"list the shim's working directory", l_init_cwd},
	{"read the shim's executable", r_init_exe},
	{"read the kernel's memory", r_kcore},
	{"read the kernel's log by /proc", r_kmsg},
	{"read the kernel's log by /dev", r_devkmsg},
	{"read the list of keys", r_keys},
	{"read the list of timers", r_timer_list},
	{"read the machine's memory", r_devmem},
	{"read the machine's ports", r_devport},
	{"read the disk", r_disk},
	{"write the disk", w_disk},
	{"open the loop control", w_loop},
	{"open FUSE", w_fuse},
	{"open a network tunnel", w_tun},
	{"open /dev/vsock", w_vsock},
	{"open the hypervisor's port", w_agent},
	{"open the clock device", w_rtc},
	{"open the hibernation device", w_snapshot},
	{"open the device mapper", w_mapper},
	{"open the console", w_console},
	{"open a virtual terminal", w_vcs},
	{"write /etc/passwd", w_passwd},
	{"write /etc/hosts", w_hosts},
	{"write /etc/hostname", w_hostname},
	{"write /etc/resolv.conf", w_resolv},
	{"write the shell", w_busybox},
	{"write the input by name", w_input},
	{"write the program", w_program},
	{"write the running program", f_exe},
	{"write the shim", w_shim},
	{"read the shim", r_shim},
	{"write the report channel", w_report},
	{"write the output channel by name", w_stdout},
	{"read the output channel", r_stdout},
	{"C68 write core_pattern", w_core_pattern},
	{"write the path of modprobe", w_modprobe},
	{"write the host's name by /proc", w_proc_hostname},
	{"drop the host's caches", w_drop_caches},
	{"choose the next process id", w_ns_last_pid},
	{"write sysrq-trigger", w_sysrq},
	{"write the affinity of interrupts", w_irq},
	{"register a binary format", w_binfmt},
	{"write the power state", w_power},
	{"write the setting of huge pages", w_thp},
	{"switch a processor off", w_cpu_online},
	{"rescan the PCI bus", w_pci},
	{"write the uevent helper", w_uevent},
	{"write the shim's memory", w_init_mem},
	{"write the shim's place with the OOM killer", w_init_oom},
	{"write cgroup.procs", w_cgroup_procs},
	{"write memory.max", w_cgroup_memory},
	{"write cgroup.kill", w_cgroup_kill},
	{"write cgroup.freeze", w_cgroup_freeze},
	{"make a cgroup", f_mkdir_cgroup},
	{"create in /", c_root},
	{"create in /etc", c_etc},
	{"create in /usr/bin", c_usr},
	{"create in /work", c_work},
	{"create in /tmp", c_tmp},
	{"create in /in", c_in},
	{"create in /program", c_program},
	{"create beside the channels", c_channels},
	{"create in /dev", c_dev},
	{"create in /proc", c_proc},
	{"create in /dev/shm", c_shm},
	{"be the last the OOM killer takes", f_oom_score},
	{"write a map of users", f_uid_map},
	{"open the input again for writing", f_stdin_again},
	{"truncate the input", f_stdin_truncate},
	{"write into the input", f_stdin_write},
	{"open the output again", f_stdout_again},
	{"rename the input", f_rename},
	{"change the input's mode by name", f_chmod},
	{"change the input's mode", f_fchmod},
	{"change the input's owner", f_fchown},
	{"change the input's times", f_utimes},
	{"give the input an attribute", f_xattr},
	{"link the input", f_link},
	{"remove the input", f_unlink},
	{"make a channel", f_mkfifo},
	{"remove a channel", f_unlink_channel},
	{"make a character device", f_mknod_char},
	{"make a block device", f_mknod_block},
	{"execute from shared memory", f_execute_shm},
	{"find an inherited descriptor", f_inherited},
	{"find a setuid program or one with capabilities", f_setuid_files},
	{"open a file by its handle", f_handle},
};

/* /sys and /proc/sys have tens of thousands of files on two read-only mounts: what is near their roots stands for them. */
static int far_below(const char *path, int level)
{
	return level > 3 && (strncmp(path, "/sys/", 5) == 0 || strncmp(path, "/proc/sys/", 10) == 0);
}

/* Tries to create a file in every directory there is and says where it could. */
static int try_creating(const char *path, const struct stat *s, int kind, struct FTW *where)
{
	char name[4096];
	(void)s;
	if (far_below(path, where->level))
		return FTW_SKIP_SUBTREE;
	if (kind == FTW_D || kind == FTW_DNR || kind == FTW_DP) {
		snprintf(name, sizeof name, "%s/oops", strcmp(path, "/") ? path : "");
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0) {
			close(fd);
			unlink(name);
			printf("writable %s\n", path);
		}
	} else if (kind == FTW_F && strncmp(path, "/proc/", 6) != 0) {
		int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0) {
			close(fd);
			printf("writable %s\n", path);
		}
	}
	return FTW_CONTINUE;
}

static void v_everywhere(double x)
{
	(void)x;
	nftw("/", try_creating, 16, FTW_PHYS | FTW_ACTIONRETVAL);
}

/* Reads everything there is and prints what holds a planted secret, and what looks like a nonce. The planted word is put together here, so
 * that the program does not find itself. */
static char planted_word[32];
static long files_read;

static int look_for_secrets(const char *path, const struct stat *s, int kind, struct FTW *where)
{
	static char content[1 << 20];
	(void)s;
	if (far_below(path, where->level) || strcmp(path, "/proc/sys/net") == 0)
		return FTW_SKIP_SUBTREE;
	if ((kind != FTW_F && kind != FTW_SL) || (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0))
		return FTW_CONTINUE;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return FTW_CONTINUE;
	ssize_t n = read(fd, content, sizeof content);
	close(fd);
	if (n <= 0)
		return FTW_CONTINUE;
	files_read++;
	char *at = memmem(content, (size_t)n, planted_word, strlen(planted_word));
	if (at)
		printf("secret in %s: %.60s\n", path, at);
	nonces(path, content, (size_t)n);
	return FTW_CONTINUE;
}

/* 0: everything there is; anything else: /etc alone, which is how the search is shown to find something. */
static void v_search(double x)
{
	snprintf(planted_word, sizeof planted_word, "%s-%s-", "EVALHOST", "SECRET");
	nftw(x == 0 ? "/" : "/etc", look_for_secrets, 16, FTW_PHYS | FTW_ACTIONRETVAL);
	for (char **e = environ; *e; e++)
		printf("environment %s\n", *e);
	printf("read %s\n", files_read > 100 ? "much" : "little");
}

#define FILE_VERBS {"everywhere", v_everywhere}, {"search", v_search}
