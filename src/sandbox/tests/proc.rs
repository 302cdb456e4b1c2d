//! The call's own `/proc`: what is in it, and that nothing else can be seen, reached or changed
//! through it.

use super::{World, compile};
use crate::call::{Beneath, End, Execution, Object};
use crate::types::limits::PREPARE_MS_MAX;
use serde_json::json;
use std::path::PathBuf;

/// Reports for each check and attempt whether it was held, and for each right whether it has it.
const LOOKS: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static void held(const char *what, const char *who, long got) {
    printf("%s %s%s %s\n", got < 0 ? "held" : "ALLOWED", what, who, got < 0 ? strerror(errno) : "");
    fflush(stdout);
}
static void has(const char *what, int is) { printf("%s %s\n", is ? "has" : "MISSES", what); fflush(stdout); }
static int number(const char *path) {
    int got = -1;
    FILE *file = fopen(path, "r");
    if (file) { if (fscanf(file, "%d", &got) != 1) got = -1; fclose(file); }
    return got;
}
static int listed(const char *path) {
    int got = 0;
    DIR *folder = opendir(path);
    if (!folder) return -1;
    while (readdir(folder)) got++;
    closedir(folder);
    return got - 2;
}
static long word(const char *path, const char *key, char *out) {
    char line[4096];
    FILE *file = fopen(path, "r");
    long found = -1;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) { strcpy(out, line + strlen(key)); found = 0; }
    if (file) fclose(file);
    return found;
}
int main(int argc, char **argv) {
    char path[512], text[4096], byte;
    /* Its own processes, by their own numbers. */
    int me = getpid(), tell[2];
    pipe(tell);
    int child = fork();
    if (!child) {
        close(tell[1]);
        snprintf(path, sizeof path, "/proc/%d/stat", getppid());
        int right = number(path) == getppid() && number("/proc/self/stat") == getpid();
        read(tell[0], &byte, 1);
        _exit(right ? 0 : 1);
    }
    has("itself", number("/proc/self/stat") == me && number("/proc/thread-self/stat") == me);
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    has("its child", number(path) == child);
    has("maps", word("/proc/self/maps", "", text) == 0);
    has("environ", open("/proc/self/environ", O_RDONLY) >= 0);
    has("descriptors", listed("/proc/self/fd") >= 3);
    has("one number", word("/proc/self/status", "NSpid:", text) == 0 && atoi(text) == me && !strchr(text + 1, '\t'));
    /* No other process, and nothing of the kernel. */
    DIR *all = opendir("/proc");
    int others = 0, words = 0;
    for (struct dirent *one; all && (one = readdir(all));) {
        int pid = atoi(one->d_name);
        if (pid && pid != me && pid != child) others++;
        if (!pid && strcmp(one->d_name, ".") && strcmp(one->d_name, "..") && strcmp(one->d_name, "self") && strcmp(one->d_name, "thread-self")) words++;
    }
    errno = 0;
    held("another process", "", all && !others ? -1 : others);
    held("another entry", "", all && !words ? -1 : words);
    char status; close(tell[1]); int code; waitpid(child, &code, 0);
    has("its parent", WIFEXITED(code) && !WEXITSTATUS(code));
    const char *init[] = {"", "/mem", "/environ", "/maps", "/smaps", "/status", "/stat", "/cmdline", "/comm", "/fd", "/fdinfo", "/cwd",
        "/root", "/exe", "/task", "/task/1/stat", "/ns/mnt", "/mountinfo", "/limits", "/net/unix", "/auxv", "/syscall", "/io", 0};
    for (int i = 0; init[i]; i++) {
        snprintf(path, sizeof path, "/proc/1%s", init[i]);
        held("look ", path, open(path, O_RDONLY));
        struct stat there;
        held("stat ", path, stat(path, &there));
        held("read link ", path, readlink(path, text, sizeof text));
    }
    for (int pid = 2; pid < 300; pid++) {
        struct stat there;
        snprintf(path, sizeof path, "/proc/%d", pid);
        if (pid != me && stat(path, &there) == 0) held("stat ", path, 0);
    }
    struct iovec here = {text, 8}, far = {&main, 8};
    held("memory of init", "", process_vm_readv(1, &here, 1, &far, 1, 0));
    held("trace init", "", ptrace(PTRACE_SEIZE, 1, 0, 0));
    const char *kernel[] = {"meminfo", "version", "uptime", "stat", "cpuinfo", "loadavg", "mounts", "net", "net/unix", "sys", "sys/kernel/hostname",
        "sys/kernel/core_pattern", "sysrq-trigger", "kallsyms", "kcore", "kmsg", "keys", "modules", "fs", "bus", "irq", "driver", "tty", "cmdline",
        "partitions", "diskstats", "interrupts", "slabinfo", "sysvipc", "config.gz", "cgroups", "devices", "filesystems", "timer_list", 0};
    for (int i = 0; kernel[i]; i++) {
        struct stat there;
        snprintf(path, sizeof path, "/proc/%s", kernel[i]);
        held("look ", path, open(path, O_RDONLY));
        held("stat ", path, lstat(path, &there));
    }
    /* It cannot change itself. */
    const char *writes[] = {"oom_score_adj", "oom_adj", "mem", "attr/current", "attr/exec", "attr/fscreate", "uid_map", "gid_map", "projid_map",
        "setgroups", "comm", "clear_refs", "coredump_filter", "timerslack_ns", "loginuid", "sched", "autogroup", "make-it-fail", "fail-nth",
        "timens_offsets", "patch_state", "exe", 0};
    for (int i = 0; writes[i]; i++) {
        snprintf(path, sizeof path, "/proc/self/%s", writes[i]);
        held("write ", path, open(path, O_WRONLY));
        held("change ", path, open(path, O_RDWR));
        snprintf(path, sizeof path, "/proc/self/task/%d/%s", me, writes[i]);
        held("write ", path, open(path, O_WRONLY));
    }
    held("mode", "", chmod("/proc/self/comm", 0777));
    held("make", "", open("/proc/new", O_WRONLY | O_CREAT, 0600));
    held("run", "", execl("/proc/self/comm", "x", (char *)0));
    /* The links lead only where it may go anyway. */
    const char *ways[] = {"/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root", "/proc/self/task/self/root", 0};
    for (int i = 0; ways[i]; i++) {
        snprintf(path, sizeof path, "%s%s", ways[i], argv[1]);
        held("by link ", path, open(path, O_RDONLY));
        snprintf(path, sizeof path, "%s/../../../../../../../..%s", ways[i], argv[1]);
        held("by link and up ", path, open(path, O_RDONLY));
    }
    held("list /", "", open("/proc/self/root", O_RDONLY | O_DIRECTORY));
    held("list / by one above", "", open("/proc/self/root/..", O_RDONLY | O_DIRECTORY));
    /* No other /proc lies above any folder that it is in or has open. */
    struct stat own, there;
    stat("/proc", &own);
    for (int fd = -1; fd < 64; fd++) {
        if (fd >= 0 && (fstat(fd, &there) || !S_ISDIR(there.st_mode))) continue;
        const char *up = "../../../../../../../../../../../../proc";
        errno = 0;
        held("up from ", fd < 0 ? "cwd" : "a descriptor", fstatat(fd < 0 ? AT_FDCWD : fd, up, &there, 0) || there.st_dev == own.st_dev ? -1 : 0);
    }
    /* It can no longer mount. */
    held("mount", "", mount("proc", "/proc", "proc", 15, "hidepid=ptraceable,subset=pid"));
    held("mount all", "", mount("proc", "/proc", "proc", 15, 0));
    held("bind", "", mount("/proc", "/proc", 0, MS_BIND, 0));
    held("remount", "", mount(0, "/proc", 0, MS_REMOUNT | MS_BIND, 0));
    held("share", "", mount(0, "/", 0, MS_SHARED, 0));
    held("unmount", "", umount2("/proc", MNT_DETACH));
    held("unmount /", "", umount2("/", MNT_DETACH));
    held("fsopen", "", syscall(SYS_fsopen, "proc", 0));
    held("open_tree", "", syscall(SYS_open_tree, AT_FDCWD, "/proc", 1));
    held("move_mount", "", syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/dev", 0));
    held("mount_setattr", "", syscall(SYS_mount_setattr, AT_FDCWD, "/proc", 0, text, 32));
    held("pivot_root", "", syscall(SYS_pivot_root, ".", "."));
    held("chroot", "", chroot("/proc"));
    held("mount namespace", "", unshare(CLONE_NEWNS));
    held("user namespace", "", unshare(CLONE_NEWUSER | CLONE_NEWNS));
    held("by clone", "", syscall(SYS_clone, CLONE_NEWNS | 17, 0, 0, 0, 0));
    held("enter its own", "", setns(open("/proc/self/ns/mnt", O_RDONLY), 0));
    /* No socket of other calls: the first line is a header. */
    FILE *sockets = fopen("/proc/self/net/unix", "r");
    int lines = 0;
    while (sockets && fgets(text, sizeof text, sockets)) lines++;
    held("sockets of others", "", lines <= 1 ? -1 : lines);
    return 0;
}
"#;

pub(super) fn manifest(
    world: &World,
    name: &str,
    command: &[&str],
    resource: &str,
    sandbox: &str,
    input: &str,
) {
    let manifest = format!(
        "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\n{}\nuntrusted_output = true\n\
         {resource}\n[sandbox]\n{sandbox}\n[limits]\nwall_ms_max = 10000\noutput_bytes_max = 262144\n\
         memory_bytes_max = 268435456\nprocesses_max = 8\n{}\n[input]\ntype = \"object\"\n\
         additionalProperties = false\n{input}\n",
        match command {
            [interpreter, script] if script.starts_with("jobs.d/") =>
                format!("interpreter = \"{interpreter}\"\nscript = \"{script}\"\nargs = []"),
            words => format!("command = {words:?}\nruntime = \"dynamic\""),
        },
        if sandbox.contains("write =") { "file_bytes_max = 4096" } else { "" },
    );
    world.tool(name, &manifest);
}

pub(super) const HOST: &str = "[resource]\ntype = \"Host\"\nis = \"localhost\"";

pub(super) fn text(execution: &Execution) -> String {
    assert_eq!(execution.end, End::Exit { code: 0 }, "{execution:?}");
    String::from_utf8_lossy(&execution.stdout).into_owned()
}

fn is_held(execution: &Execution) {
    let told = text(execution);
    let through: Vec<&str> =
        told.lines().filter(|line| !line.starts_with("held ") && !line.starts_with("has ")).collect();
    assert!(through.is_empty(), "{}", through.join("\n"));
    assert_eq!(told.matches("has ").count(), 7, "{told}");
    assert!(told.ends_with("\n") && told.contains("\nheld sockets of others"), "to its end: {told}");
    for layer in [
        crate::launcher::view::own_proc::LAYER,
        "net namespace",
        "pid namespace",
        "user namespace",
        "seccomp",
    ] {
        assert!(execution.layers.iter().any(|name| name == layer), "{layer}: {:?}", execution.layers);
    }
}

pub(super) fn the_calls_own_proc_shows_only_that_call() {
    let world = World::new();
    let Some(looks) = compile(&world, "looks", LOOKS) else { return };
    let secret = world.write("outside/secret", b"x");
    let inside = world.path("workspace/in");
    std::fs::create_dir(&inside).expect("made");
    if let Some((uid, gid)) = crate::launcher::tool_owner() {
        std::os::unix::fs::chown(&inside, Some(uid), Some(gid)).expect("given");
    }
    manifest(&world, "looks", &[&looks, &secret], HOST, "proc = \"self\"", "");
    let writes = format!("proc = \"self\"\nwrite = [{inside:?}]");
    manifest(&world, "writes", &[&looks, &secret], HOST, &writes, "");
    manifest(&world, "stays", &["/usr/bin/sleep", "3"], HOST, "proc = \"self\"", "");
    world.program("plain", &["/usr/bin/cat", "/proc/self/stat"]);
    world.with(|stage| async move {
        assert!(stage.launcher.report().refused.is_empty(), "{:?}", stage.launcher.report().refused);
        is_held(&stage.call("looks", json!({})).await);
        // Also while other calls exist, running and waiting for go.
        let _held = stage.prepare("plain", &json!({})).await.expect("prepared");
        let other = tokio::spawn({
            let stage = stage.clone();
            async move { stage.call("stays", json!({})).await }
        });
        is_held(&stage.call("looks", json!({})).await);
        is_held(&stage.call("writes", json!({})).await);
        assert!(!other.is_finished(), "the other was there all the time");
        other.abort();
        // A tool that does not ask for it has none.
        let plain = stage.call("plain", json!({})).await;
        assert_eq!((plain.end, plain.stdout.as_slice()), (End::Exit { code: 1 }, &b""[..]));
        assert!(
            !plain.layers.iter().any(|name| name == crate::launcher::view::own_proc::LAYER),
            "{:?}",
            plain.layers
        );
    });
}

/// A script finds its own pids there, and itself.
pub(super) fn a_script_finds_itself_in_proc() {
    const SCRIPT: &str = "read pid name rest </proc/$$/stat\necho \"$$ $pid $name\"\n\
        read pid rest </proc/self/stat\necho \"self $pid\"\n\
        ( read -r first <\"$0\"; echo \"$0 $first\" )\n\
        for at in /proc/[0-9]*; do echo \"sees $at\"; done\n\
        for at in 1/environ 1/stat meminfo sys/kernel/hostname; do ( : </proc/$at ) 2>/dev/null && echo \"READS $at\"; done\n\
        ( echo 1 >/proc/self/oom_score_adj ) 2>/dev/null && echo WRITES\n:\n";
    let world = World::new();
    std::fs::create_dir(world.path("jobs.d")).expect("made");
    world.write("jobs.d/job.sh", SCRIPT.as_bytes());
    manifest(&world, "job", &["/bin/sh", "jobs.d/job.sh"], HOST, "", "");
    world.with(|stage| async move {
        let told = text(&stage.call("job", json!({})).await);
        let lines: Vec<&str> = told.lines().collect();
        let [own, this, itself, sees] = lines[..] else { panic!("{told}") };
        let pid = own.split(' ').next().expect("a number");
        assert!(own.starts_with(&format!("{pid} {pid} (")), "{told}");
        assert_eq!(this, format!("self {pid}"));
        assert!(itself.starts_with("/proc/self/fd/"), "{told}");
        assert!(itself.ends_with(" read pid name rest </proc/$$/stat"), "{told}");
        assert_eq!(sees, format!("sees /proc/{pid}"));
    });
}

/// The copy of the view has other ids for its mounts. What lies below a folder, and what is mounted
/// there, is reported as it is without the copy.
pub(super) fn paths_below_are_reported_the_same_with_proc() {
    let world = World::new();
    let (inside, away) = (world.path("workspace/in"), world.write("outside/away", b"x"));
    std::fs::create_dir(&inside).expect("made");
    let file = world.write("workspace/in/f", b"x");
    let resource = "recursive = true\n[resource]\ntype = \"Path\"\nfrom = \"/path\"\ncanonical = \"path\"";
    let input = "required = [\"path\"]\nproperties.path = { type = \"string\" }";
    let command = ["/usr/bin/ls", "--", "{path}"];
    for (name, sandbox) in [("without", ""), ("with", "proc = \"self\"\n")] {
        manifest(&world, name, &command, resource, &format!("{sandbox}read = [\"@workspace\"]"), input);
    }
    // A mount inside the view's mount, of the same mount of the host.
    manifest(&world, "writes", &["/usr/bin/true"], HOST, &format!("write = [{inside:?}]"), "");
    let asked = json!({ "path": world.workspace() });
    world.with(|stage| async move {
        let mut told: Vec<Object> = Vec::new();
        for tool in ["without", "with"] {
            let mut ask = stage.ask(tool, &asked);
            ask.named = vec![file.clone(), away.clone()];
            let prepared = stage.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect("prepared");
            told.push(prepared.object);
            assert_eq!(text(&stage.call(tool, asked.clone()).await), "in\n", "{tool}");
        }
        let [Object::Path(without), Object::Path(with)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(without, with);
        let below: Vec<PathBuf> = with.beneath.iter().map(|one: &Beneath| PathBuf::from(&one.name)).collect();
        assert_eq!(below, [PathBuf::from(&file)]);
    });
}
