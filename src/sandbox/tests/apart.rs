//! A compromised program, alone with its call.

use super::world::{World, compile};
use crate::call::End;
use serde_json::json;

pub(super) fn takes_a_program_apart_from_the_machine() {
    let world = World::new();
    let Some(probe) = compile(&world, "probe", PROBE) else { return };
    world.write("outside/secret", b"secret");
    let outside = world.path("outside");
    world.program("probe", &[probe.as_str(), outside.to_str().expect("UTF-8")]);
    world.with(|stage| async move {
        let execution = stage.call("probe", json!({})).await;
        let text = String::from_utf8_lossy(&execution.stdout).into_owned();
        println!("{text}{}", String::from_utf8_lossy(&execution.stderr));
        assert_eq!(execution.end, End::Exit { code: 0 }, "{text}");
        assert!(!text.contains("ALLOWED"), "{text}");
        assert!(text.lines().filter(|line| line.contains("refused")).count() >= 30, "{text}");
        assert!(text.contains("env PATH=/usr/bin\nenv LANG=C.UTF-8\nfds 0 1 2 \n"), "{text}");
    });
}

/// A compromised program: it tries, and reports what was allowed.
pub(super) const PROBE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#define T(call) do { errno = 0; long r = (long)(call); printf("%s %s (%s)\n", r < 0 ? "refused" : "ALLOWED", #call, strerror(errno)); } while (0)
int main(int n, char **a) {
  char secret[4096], made[4096];
  snprintf(secret, 4096, "%s/secret", a[1]); snprintf(made, 4096, "%s/made", a[1]);
  setvbuf(stdout, 0, _IOLBF, 0);
  T(socket(AF_INET, SOCK_STREAM, 0)); T(socket(AF_UNIX, SOCK_STREAM, 0)); T(socket(AF_NETLINK, SOCK_RAW, 0));
  int sp[2]; T(socketpair(AF_UNIX, SOCK_STREAM, 0, sp));
  T(ptrace(PTRACE_ATTACH, 1, 0, 0)); T(ptrace(PTRACE_TRACEME, 0, 0, 0));
  T(unshare(CLONE_NEWUSER)); T(unshare(CLONE_NEWNS)); T(unshare(CLONE_NEWPID));
  T(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); T(syscall(SYS_clone3, 0, 0));
  T(setns(0, 0)); T(mount("x", "/tmp", "tmpfs", 0, 0)); T(chroot("/tmp")); T(syscall(SYS_pivot_root, ".", "."));
  T(open("/etc/shadow", O_RDONLY)); T(open("/etc/passwd", O_RDONLY)); T(open(secret, O_RDONLY)); T(open("/", O_RDONLY));
  T(open("/proc/1/environ", O_RDONLY)); T(open("/proc/self/mem", O_RDWR)); T(open("/proc/self/maps", O_RDONLY)); T(open("/dev/tty", O_RDWR));
  T(open("/tmp/par-probe", O_CREAT | O_WRONLY, 0600)); T(open(made, O_CREAT | O_WRONLY, 0600)); T(open(secret, O_WRONLY | O_TRUNC));
  T(truncate(secret, 0)); T(unlink(secret)); T(rename(secret, made)); T(mkdir(made, 0755)); T(symlink("/", made)); T(chmod(secret, 0777)); T(link(secret, made));
  T(syscall(SYS_memfd_create, "x", 0)); T(syscall(SYS_bpf, 0, 0, 0)); T(syscall(SYS_keyctl, 0, 0)); T(syscall(SYS_io_uring_setup, 1, 0));
  T(syscall(SYS_userfaultfd, 0)); T(syscall(SYS_perf_event_open, 0, 0, -1, -1, 0)); T(syscall(SYS_pidfd_open, 1, 0)); T(syscall(SYS_seccomp, 0, 0, 0));
  T(syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0)); T(syscall(SYS_open_by_handle_at, 0, 0, 0)); T(syscall(SYS_personality, 0xffffffff));
  T(setuid(0)); T(setgid(0)); T(setgroups(0, 0)); T(prctl(PR_SET_DUMPABLE, 1)); T(prctl(PR_SET_PDEATHSIG, 0));
  T(ioctl(0, TIOCSTI, "x")); T(fcntl(1, F_SETOWN, 1)); T(kill(1, 9) == 0 && kill(1, 0) != 0 ? 0 : -1);
  struct rlimit more = {1 << 20, 1 << 20}; T(setrlimit(RLIMIT_NOFILE, &more));
  char *args[] = {"true", 0}; T(execve("/bin/true", args, environ)); T(execve("/usr/bin/su", args, environ));
  for (char **e = environ; *e; e++) printf("env %s\n", *e);
  printf("fds "); for (int i = 0; i < 1024; i++) if (fcntl(i, F_GETFD) >= 0) printf("%d ", i); printf("\n");
  /* Every process that can be signalled is within this call. */
  signal(SIGTERM, SIG_IGN); kill(-1, SIGTERM);
  return 0;
}
"#;
