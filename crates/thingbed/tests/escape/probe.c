// Tries to leave a node. Prints one line for each attempt: its name, `held` or `OPEN`, and why.
// Nothing here harms the machine if an attempt succeeds: files are opened and not written, and
// calls that would change the machine get values that the kernel refuses after it has checked
// permissions.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, int is_open) {
    printf("%s %s (%s)\n", name, is_open ? "OPEN" : "held", is_open ? "success" : strerror(errno));
    fflush(stdout);
}

// Whether a call failed for another reason than permission, so that it is allowed.
static int allowed(long result) {
    return result >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS);
}

static void opens(const char *name, const char *path, int flags) {
    int fd = open(path, flags);
    say(name, fd >= 0);
    if (fd >= 0) close(fd);
}

// The host's file `marker` through the roots and descriptors of all processes that are seen here.
static void by_processes(const char *marker) {
    char path[4096];
    int by_root = 0, by_fd = 0, by_exe = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *one; all && (one = readdir(all));) {
        int pid = atoi(one->d_name);
        if (pid <= 0 || pid == getpid()) continue;
        snprintf(path, sizeof path, "/proc/%d/root%s", pid, marker);
        by_root |= access(path, F_OK) == 0;
        snprintf(path, sizeof path, "/proc/%d/cwd/..%s", pid, marker);
        by_root |= access(path, F_OK) == 0;
        if (pid == 1 || pid == 2) {
            snprintf(path, sizeof path, "/proc/%d/exe", pid);
            by_exe |= open(path, O_RDONLY) >= 0;
        }
        if (pid != 1) continue;
        DIR *fds = opendir("/proc/1/fd");
        for (struct dirent *fd; fds && (fd = readdir(fds));) {
            char to[64];
            snprintf(path, sizeof path, "/proc/1/fd/%s", fd->d_name);
            by_fd |= fd->d_name[0] != '.' && readlink(path, to, sizeof to) >= 0;
        }
    }
    say("root-of-processes", by_root);
    say("descriptors-of-init", by_fd);
    say("binary-of-init", by_exe);
}

static void by_chroot(const char *marker) {
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    mkdir("/tmp/jail", 0755);
    if (chroot("/tmp/jail") == 0) {
        (void)!fchdir(fd);
        for (int i = 0; i < 64; i++) (void)!chdir("..");
        (void)!chroot(".");
    }
    say("chroot", access(marker, F_OK) == 0);
}

static void in_child(void (*what)(const char *), const char *argument) {
    pid_t pid = fork();
    if (pid == 0) {
        what(argument);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void mounts(const char *name, const char *type, const char *options) {
    mkdir("/tmp/mounted", 0755);
    int done = mount(type, "/tmp/mounted", type, 0, options) == 0;
    say(name, done);
    if (done) umount2("/tmp/mounted", MNT_DETACH);
}

static void abstract_socket(const char *name) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(to.sun_path + 1, name, strlen(name));
    say("abstract-socket",
        connect(fd, (void *)&to, sizeof(sa_family_t) + 1 + strlen(name)) == 0);
    close(fd);
}

static void by_handle(void) {
    struct { struct file_handle handle; char bytes[128]; } to = {.handle = {.handle_bytes = 128}};
    int mount_id;
    int named = name_to_handle_at(AT_FDCWD, "/dev/shm", &to.handle, &mount_id, 0);
    int shm = open("/dev/shm", O_RDONLY | O_DIRECTORY);
    if (named < 0) to.handle.handle_bytes = 8, to.handle.handle_type = 1;
    say("open-by-handle", allowed(open_by_handle_at(shm, &to.handle, O_RDONLY)));
}

static void fork_bomb(int most) {
    int count = 0;
    pid_t first = 0, *all = calloc(most, sizeof *all);
    for (; count < most; count++) {
        first = fork();
        if (first == 0) {
            pause();
            _exit(0);
        }
        if (first < 0) break;
        all[count] = first;
    }
    say("fork-bomb", count == most);
    for (int i = 0; i < count; i++) kill(all[i], SIGKILL);
    while (wait(NULL) > 0) {}
}

static void fill(const char *name, const char *path, long most) {
    static char block[1 << 20];
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    long written = 0;
    while (fd >= 0 && written < most) {
        ssize_t n = write(fd, block, sizeof block);
        if (n <= 0) break;
        written += n;
    }
    say(name, written >= most);
    unlink(path);
    if (fd >= 0) close(fd);
}

static void descriptors(void) {
    int found = 0;
    for (int fd = 3; fd < 1024; fd++) found |= fcntl(fd, F_GETFD) >= 0;
    errno = EBADF;
    say("descriptors-of-caller", found);
}

int main(int count, char **words) {
    if (count < 5) return 2;
    const char *marker = words[1], *name = words[2];
    long host_pid = atol(words[3]);

    descriptors();
    errno = ENOENT;
    say("environment-of-caller", getenv("ESCAPE_SECRET") != NULL);
    opens("file-of-user", marker, O_RDONLY);
    by_processes(marker);
    in_child(by_chroot, marker);
    say("trace-init", ptrace(PTRACE_SEIZE, 1, 0, 0) == 0);
    say("signal-host", kill(host_pid, 0) == 0);
    abstract_socket(name);

    opens("core-pattern", "/proc/sys/kernel/core_pattern", O_WRONLY);
    opens("sysrq", "/proc/sysrq-trigger", O_WRONLY);
    opens("kernel-memory", "/proc/kcore", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    mounts("mount-cgroup2", "cgroup2", NULL);
    mounts("mount-cgroup1", "cgroup", "memory");
    mounts("mount-devtmpfs", "devtmpfs", NULL);
    mounts("mount-proc", "proc", NULL);
    mounts("mount-sysfs", "sysfs", NULL);
    mounts("mount-tmpfs", "tmpfs", NULL);
    say("mknod", mknod("/tmp/disk", S_IFBLK | 0600, makedev(7, 0)) == 0);
    unlink("/tmp/disk");
    by_handle();

    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
                          .max_entries = 1};
    say("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map) >= 0);
    say("module", allowed(syscall(SYS_delete_module, "thingbed_no_such", O_NONBLOCK)));
    struct timex tick = {.modes = ADJ_TICK, .tick = 1};
    say("clock", allowed(adjtimex(&tick)));
    say("keyring", syscall(SYS_add_key, "user", "thingbed", "x", 1, -2) >= 0);
    say("userfaultfd", syscall(SYS_userfaultfd, 0) >= 0);
    char ring[120] = {0};
    say("io-uring", syscall(SYS_io_uring_setup, 1, ring) >= 0);
    say("perf", allowed(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)));
    say("swap", allowed(syscall(SYS_swapoff, "/no/such/file")));
    say("reboot", allowed(syscall(SYS_reboot, 0xfee1dead, 672274793, 0xffff, NULL)));
    say("type-into-terminal", allowed(ioctl(0, TIOCSTI, "x")));
    pid_t child = fork();
    if (child == 0) {
        say("user-namespace", unshare(CLONE_NEWUSER) == 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);

    fill("fill-shm", "/dev/shm/filled", 80L << 20);
    fill("fill-root", "/filled", 80L << 20);
    fork_bomb(atoi(words[4]));
    return 0;
}
