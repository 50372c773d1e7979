/* The kernel's doors: mounts, namespaces, modules, tracing, clocks, networks, and the other ways to make a system call. */
#include "attack.h"
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/fsuid.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/personality.h>
#include <sys/quota.h>
#include <sys/reboot.h>
#include <sys/swap.h>
#include <sys/timex.h>

/* Where it is possible to unmount things, it must not be the machine's own tree. */
static void apart(void)
{
	if (unshare(CLONE_NEWNS) == 0)
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	errno = 0;
}

static long k_mount_tmpfs(void) { apart(); return mount("none", "/dev/shm", "tmpfs", 0, NULL); }
static long k_mount_proc(void) { apart(); return mount("none", "/dev/shm", "proc", 0, NULL); }
static long k_mount_cgroup(void) { apart(); return mount("none", "/dev/shm", "cgroup2", 0, NULL); }
static long k_mount_bind(void) { apart(); return mount("/proc", "/dev/shm", NULL, MS_BIND, NULL); }
static long k_mount_disk(void) { apart(); return mount("/dev/vda", "/dev/shm", "ext4", MS_RDONLY, NULL); }
static long k_remount_root(void) { apart(); return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL); }
static long k_remount_shm(void) { apart(); return mount(NULL, "/dev/shm", NULL, MS_REMOUNT | MS_BIND, NULL); }
static long k_umount(void) { apart(); return umount2("/proc", MNT_DETACH); }
static long k_pivot_root(void)
{
	apart();
	return mount("none", "/dev/shm", "tmpfs", 0, NULL) ? -1 : syscall(SYS_pivot_root, "/dev/shm", "/dev/shm");
}
static long k_chroot(void) { return chroot("/proc"); }
static long k_open_tree(void) { return syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* clone */); }
static long k_fsopen(void) { return syscall(SYS_fsopen, "tmpfs", 0); }
static long k_fspick(void) { return syscall(SYS_fspick, AT_FDCWD, "/", 0); }
static long k_mount_setattr(void)
{
	uint64_t attributes[4] = {0, MOUNT_ATTR_RDONLY, 0, 0};
	apart();
	return syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, attributes, sizeof attributes);
}
static long k_chroot_open(void) { return syscall(SYS_move_mount, -1, "", AT_FDCWD, "/dev/shm", 4 /* empty path */); }

#define UNSHARE(id, flag) \
	static long id(void) { return unshare(flag); }
UNSHARE(k_user, CLONE_NEWUSER)
UNSHARE(k_mounts, CLONE_NEWNS)
UNSHARE(k_pids, CLONE_NEWPID)
UNSHARE(k_net, CLONE_NEWNET)
UNSHARE(k_ipc, CLONE_NEWIPC)
UNSHARE(k_uts, CLONE_NEWUTS)
UNSHARE(k_cgroups, CLONE_NEWCGROUP)
UNSHARE(k_time, 0x80)

static long k_clone_user(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	return pid;
}
static long k_clone3(void)
{
	uint64_t args[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
	long pid = syscall(SYS_clone3, args, sizeof args);
	if (pid == 0)
		_exit(0);
	return pid;
}
static long k_setns(void) { return setns(open("/proc/self/ns/uts", O_RDONLY), 0); }
static long k_setns_init(void) { return setns(open("/proc/1/ns/uts", O_RDONLY), 0); }

static long k_bpf_map(void)
{
	union bpf_attr a = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	return syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
}
static long k_bpf_program(void)
{
	struct bpf_insn code[2] = {{.code = 0xb7}, {.code = 0x95}};
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insns = (uint64_t)code, .insn_cnt = 2, .license = (uint64_t) "GPL"};
	return syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a);
}
static long k_perf(void)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_CPU_CLOCK};
	return syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}
static long k_userfaultfd(void) { return syscall(SYS_userfaultfd, O_CLOEXEC); }
static long k_userfaultfd_user(void) { return syscall(SYS_userfaultfd, O_CLOEXEC | 1); }
static long k_io_uring(void)
{
	char parameters[120] = {0};
	return syscall(SYS_io_uring_setup, 1, parameters);
}
static long k_add_key(void) { return syscall(SYS_add_key, "user", "evalhost", "x", 1, -2); }
static long k_keyring(void) { return syscall(SYS_keyctl, 0, -3, 1); }
static long k_join_keyring(void) { return syscall(SYS_keyctl, 1, "evalhost"); }
static long k_request_key(void)
{
	syscall(SYS_add_key, "user", "evalhost", "x", 1, -2);
	return syscall(SYS_request_key, "user", "evalhost", NULL, -2);
}
static long k_init_module(void) { return syscall(SYS_init_module, "", 0, ""); }
static long k_finit_module(void) { return syscall(SYS_finit_module, -1, "", 0); }
static long k_delete_module(void) { return syscall(SYS_delete_module, "evalhost_absent", O_NONBLOCK); }
static long k_kexec(void) { return syscall(SYS_kexec_load, 0, 0, NULL, 0); }
static long k_kexec_file(void) { return syscall(SYS_kexec_file_load, -1, -1, 0, NULL, 0); }
static long k_reboot(void) { return reboot(LINUX_REBOOT_CMD_CAD_OFF); }
static long k_syslog(void) { return klogctl(10, NULL, 0); }
static long k_acct(void) { return acct(NULL); }
static long k_swapon(void) { return swapon("/nonexistent", 0); }
static long k_quota(void) { return quotactl(QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL); }
static long k_hostname(void)
{
	char name[256];
	gethostname(name, sizeof name);
	return sethostname(name, strlen(name));
}
static long k_domainname(void)
{
	char name[256];
	getdomainname(name, sizeof name);
	return setdomainname(name, strlen(name));
}
static long k_settimeofday(void)
{
	struct timeval now;
	gettimeofday(&now, NULL);
	return settimeofday(&now, NULL);
}
static long k_clock_settime(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return clock_settime(CLOCK_REALTIME, &now);
}
static long k_adjtimex(void)
{
	struct timex t = {0};
	adjtimex(&t);
	t.modes = ADJ_TICK;
	return adjtimex(&t);
}
static long k_clock_adjtime(void)
{
	struct timex t = {0};
	adjtimex(&t);
	t.modes = ADJ_FREQUENCY;
	return clock_adjtime(CLOCK_REALTIME, &t);
}
static long k_alarm_wakeup(void) { timer_t t; struct sigevent e = {.sigev_notify = SIGEV_NONE}; return timer_create(CLOCK_REALTIME_ALARM, &e, &t); }
static long k_iopl(void) { return iopl(3); }
static long k_ioperm(void) { return ioperm(0x80, 1, 1); }
static long k_vhangup(void) { return vhangup(); }
static long k_personality(void) { return personality(ADDR_NO_RANDOMIZE); }
static long k_fanotify(void) { return fanotify_init(FAN_CLASS_NOTIF, O_RDONLY); }

/* The same calls by the doors of other instruction sets: a filter written for one of them does not see these. */
static long by_i386(long number, const void *a, const void *b, const void *c)
{
	long result;
	register long r10 __asm__("r10") = 0;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(0), "D"(0), "r"(r10)
			 : "memory", "r8", "r9", "r11");
	return (int)result < 0 ? refused(-(int)result) : result;
}
static long k_i386_mount(void) { apart(); return by_i386(21, "none", "/dev/shm", "no such file system"); }
static long k_i386_unshare(void) { return by_i386(310, (void *)CLONE_NEWUSER, 0, 0); }
static long k_i386_add_key(void) { return by_i386(286, "user", "evalhost", "x"); }
static long k_i386_vsock(void) { return by_i386(359, (void *)40, (void *)SOCK_STREAM, 0); }
static long k_i386_ptrace(void) { return by_i386(26, (void *)0x4206, (void *)1, 0); }
static long k_x32_mount(void) { apart(); return syscall(0x40000000 | SYS_mount, "none", "/dev/shm", "no such file system", 0, NULL); }

#define FAMILY(id, family, type, protocol) \
	static long id(void) { return socket(family, type, protocol); }
FAMILY(n_packet, AF_PACKET, SOCK_RAW, 0)
FAMILY(n_raw, AF_INET, SOCK_RAW, 6)
FAMILY(n_raw6, AF_INET6, SOCK_RAW, 6)
FAMILY(n_vsock, 40, SOCK_STREAM, 0)
FAMILY(n_xdp, 44, SOCK_RAW, 0)
/* These ask the kernel to load a module. */
FAMILY(n_key, 15, SOCK_RAW, 2)
FAMILY(n_can, 29, SOCK_RAW, 1)
FAMILY(n_tipc, 30, SOCK_STREAM, 0)
FAMILY(n_bluetooth, 31, SOCK_RAW, 1)
FAMILY(n_alg, 38, SOCK_SEQPACKET, 0)
FAMILY(n_kcm, 41, SOCK_SEQPACKET, 0)
FAMILY(n_sctp, AF_INET, SOCK_STREAM, 132)
FAMILY(n_dccp, AF_INET, 6, 33)
FAMILY(n_l2tp, AF_INET, SOCK_DGRAM, 115)
FAMILY(n_xfrm, AF_NETLINK, SOCK_RAW, 6)
FAMILY(n_scsi, AF_NETLINK, SOCK_RAW, 18)
/* A discipline that no terminal here has, on a terminal that everybody may make. */
static long n_discipline(void)
{
	int discipline = 21, terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	return terminal < 0 ? -1 : ioctl(terminal, TIOCSETD, &discipline);
}
/* A program of an unknown kind: the kernel asks for a module by its first bytes. */
static long n_binary(void)
{
	int fd = memfd_create("program", 0);
	if (write(fd, "\x90\xff\xfe\xfd unknown", 12) != 12 || fchmod(fd, 0777) != 0)
		return -1;
	return syscall(SYS_execveat, fd, "", (char *[]){"x", NULL}, (char *[]){NULL}, AT_EMPTY_PATH);
}
static long n_icmp(void) { return socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP); }

static long n_connect(uint32_t address, int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
	return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof to);
}
static long n_outside(void) { return n_connect(0x01010101, 80); }
static long n_metadata(void) { return n_connect(0xa9fea9fe, 80); }
static long n_gateway(void) { return n_connect(0xac110001, 22); }
/* The suite listens here, on the machine's own loopback. */
static long n_loopback(void) { return n_connect(0x7f000001, 47113); }
static long n_name(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(0x08080808)};
	return sendto(socket(AF_INET, SOCK_DGRAM, 0), "x", 1, 0, (struct sockaddr *)&to, sizeof to);
}
static long n_unix(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	strncpy(to.sun_path, path, sizeof to.sun_path - 1);
	return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof to);
}
static long n_docker(void) { return n_unix("/var/run/docker.sock"); }
/* It has a unit of its own, or Docker starts one for itself. */
static long n_containerd(void)
{
	long r = n_unix("/run/containerd/containerd.sock");
	return r == -1 && errno == ENOENT ? n_unix("/run/docker/containerd/containerd.sock") : r;
}
static long n_bus(void) { return n_unix("/run/dbus/system_bus_socket"); }
static long n_systemd(void) { return n_unix("/run/systemd/private"); }
/* The suite listens on this abstract name outside. */
static long n_abstract(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "\0evalhost-planted"};
	return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof(sa_family_t) + 17);
}
static long n_flags(void)
{
	struct ifreq r = {.ifr_name = "lo"};
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	return ioctl(s, SIOCGIFFLAGS, &r) ? -1 : ioctl(s, SIOCSIFFLAGS, &r);
}

static const struct probe kernel_probes[] = {
	{"mount tmpfs", k_mount_tmpfs},
	{"mount proc", k_mount_proc},
	{"mount cgroup2", k_mount_cgroup},
	{"mount a directory elsewhere", k_mount_bind},
	{"mount the disk", k_mount_disk},
	{"remount the root", k_remount_root},
	{"remount shared memory executable", k_remount_shm},
	{"unmount /proc", k_umount},
	{"pivot_root", k_pivot_root},
	{"chroot", k_chroot},
	{"open_tree", k_open_tree},
	{"fsopen", k_fsopen},
	{"fspick", k_fspick},
	{"mount_setattr", k_mount_setattr},
	{"move_mount", k_chroot_open},
	{"a user namespace", k_user},
	{"a mount namespace", k_mounts},
	{"a process namespace", k_pids},
	{"a network namespace", k_net},
	{"an IPC namespace", k_ipc},
	{"a host name namespace", k_uts},
	{"a cgroup namespace", k_cgroups},
	{"a time namespace", k_time},
	{"a child in a user namespace", k_clone_user},
	{"clone3", k_clone3},
	{"enter its own namespace", k_setns},
	{"enter a namespace of the shim", k_setns_init},
	{"a bpf map", k_bpf_map},
	{"a bpf program", k_bpf_program},
	{"perf_event_open", k_perf},
	{"userfaultfd", k_userfaultfd},
	{"userfaultfd for user memory", k_userfaultfd_user},
	{"io_uring", k_io_uring},
	{"C55 add a key", k_add_key},
	{"C55 ask for the session keyring", k_keyring},
	{"C55 join a keyring by name", k_join_keyring},
	{"C55 request a key", k_request_key},
	{"init_module", k_init_module},
	{"finit_module", k_finit_module},
	{"delete_module", k_delete_module},
	{"kexec_load", k_kexec},
	{"kexec_file_load", k_kexec_file},
	{"reboot", k_reboot},
	{"syslog", k_syslog},
	{"acct", k_acct},
	{"swapon", k_swapon},
	{"quotactl", k_quota},
	{"sethostname", k_hostname},
	{"setdomainname", k_domainname},
	{"settimeofday", k_settimeofday},
	{"clock_settime", k_clock_settime},
	{"adjtimex", k_adjtimex},
	{"clock_adjtime", k_clock_adjtime},
	{"a timer that wakes the machine", k_alarm_wakeup},
	{"iopl", k_iopl},
	{"ioperm", k_ioperm},
	{"vhangup", k_vhangup},
	{"no address randomisation", k_personality},
	{"fanotify", k_fanotify},
	{"mount by the i386 door", k_i386_mount},
	{"a user namespace by the i386 door", k_i386_unshare},
	{"C55 add a key by the i386 door", k_i386_add_key},
	{"vsock by the i386 door", k_i386_vsock},
	{"trace the shim by the i386 door", k_i386_ptrace},
	{"mount by the x32 door", k_x32_mount},
	{"a packet socket", n_packet},
	{"a raw socket", n_raw},
	{"a raw IPv6 socket", n_raw6},
	{"a vsock socket", n_vsock},
	{"a PF_KEY socket", n_key},
	{"a CAN socket", n_can},
	{"a TIPC socket", n_tipc},
	{"a Bluetooth socket", n_bluetooth},
	{"a KCM socket", n_kcm},
	{"an SCTP socket", n_sctp},
	{"a DCCP socket", n_dccp},
	{"an L2TP socket", n_l2tp},
	{"a socket of the kernel's ciphers", n_alg},
	{"a socket of IPsec", n_xfrm},
	{"a socket of SCSI", n_scsi},
	{"a line discipline", n_discipline},
	{"a program of an unknown kind", n_binary},
	{"an XDP socket", n_xdp},
	{"an ICMP socket", n_icmp},
	{"connect to the Internet", n_outside},
	{"connect to a cloud's metadata", n_metadata},
	{"connect to a bridge's gateway", n_gateway},
	{"ask a name server", n_name},
	{"connect to the machine's loopback", n_loopback},
	{"connect to Docker", n_docker},
	{"connect to containerd", n_containerd},
	{"connect to the bus", n_bus},
	{"connect to systemd", n_systemd},
	{"C55 connect to an abstract socket of the machine", n_abstract},
	{"change a network device", n_flags},
};
