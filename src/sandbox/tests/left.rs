//! What a call could leave for other calls, and what it could take from them.

use super::proc::{HOST, manifest, text};
use super::{World, alive, compile, until, view};
use crate::launcher::tool_owner;
use crate::types::limits::{FORKS_BURST_MAX, PROGRAM_NICE};
use serde_json::json;
use std::os::unix::fs::chown;
use std::path::PathBuf;

/// Children of `parent` that have not ended, in the host's numbering.
pub(super) fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("`/proc`").filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may contain anything: state and parent.
        let words = stat.rsplit(") ").next().unwrap_or_default().to_owned();
        words.split(' ').nth(1).and_then(|word| word.parse().ok()) == Some(parent)
    };
    pids.filter(is_child).filter(|pid| alive(*pid)).collect()
}

/// Prints what is on the descriptor that it was given, and leaves what it can there.
const MARKS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    int fd = count > 1 ? atoi(strrchr(words[1], '/') + 1) : 0;
    struct flock all = {.l_type = F_WRLCK}, shared = {.l_type = F_RDLCK};
    if (fcntl(fd, F_OFD_GETLK, &all) < 0) return 1;
    printf("%s", all.l_type == F_UNLCK ? "" : "a lock, ");
    printf("%s", fcntl(fd, F_GETFL) & O_NONBLOCK ? "a flag, " : "");
    printf("%s", lseek(fd, 0, SEEK_CUR) ? "an offset, " : "");
    lseek(fd, 3, SEEK_SET);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    printf("%s", fcntl(fd, F_OFD_SETLK, &shared) == 0 ? "locks" : errno == EPERM ? "locks nothing" : "?");
    return 0;
}
"#;

/// A folder that tools may change.
fn folder(world: &World, name: &str) -> PathBuf {
    let folder = world.workspace().join(name);
    std::fs::create_dir(&folder).expect("made");
    if let Some((uid, gid)) = tool_owner() {
        chown(&folder, Some(uid), Some(gid)).expect("given");
    }
    folder
}

/// On standard input and on a script's memory, by a tool that reads and one that writes.
pub(super) fn a_call_leaves_nothing_on_what_others_are_given() {
    let world = World::new();
    let Some(marks) = compile(&world, "marks", MARKS) else { return };
    let folder = folder(&world, "own");
    view::program(&world, "reads", &[&marks], &[], &[]);
    view::program(&world, "writes", &[&marks], &[], &[&folder]);
    std::fs::create_dir(world.path("jobs.d")).expect("made");
    world.write("jobs.d/job", b"no word of any language\n");
    manifest(&world, "script", &[&marks, "jobs.d/job"], HOST, "", "");
    let writes = format!("write = [{folder:?}]");
    manifest(&world, "script_writes", &[&marks, "jobs.d/job"], HOST, &writes, "");
    world.with(|stage| async move {
        for _ in 0..3 {
            for (tool, says) in [
                ("reads", "locks nothing"),
                ("writes", "locks"),
                ("script", "locks nothing"),
                ("script_writes", "locks"),
            ] {
                assert_eq!(text(&stage.call(tool, json!({})).await), says, "{tool}");
            }
        }
    });
}

/// Starts processes until it is stopped, which it learns from the signal that continues it, or
/// until there were many.
const FORKS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile sig_atomic_t waited;
static void note(int signal) { waited = 1; }
int main(int count, char **words) {
    long most = atol(words[1]);
    struct sigaction act = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigaction(SIGCONT, &act, 0);
    for (long made = 0; made < most && !waited; made++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (child > 0) waitpid(child, 0, 0);
    }
    puts(waited ? "waited" : "never waited");
    return 0;
}
"#;

/// More than any call may be ahead; a call within its rate is never stopped.
pub(super) fn a_fork_loop_is_throttled() {
    let world = World::new();
    let Some(forks) = compile(&world, "forks", FORKS) else { return };
    let few = (FORKS_BURST_MAX / 2).to_string();
    for (name, most) in [("few", few.as_str()), ("many", "100000000")] {
        view::program(&world, name, &[&forks, most], &[], &[]);
        let path = world.spec.tools_dir.join(name).with_extension("toml");
        let manifest = std::fs::read_to_string(&path).expect("a manifest");
        // Time enough on any machine.
        world.tool(name, &manifest.replace("wall_ms_max = 5000", "wall_ms_max = 120000"));
    }
    world.with(|stage| async move {
        assert!(stage.launcher.report().missing.iter().all(|row| !row.contains("loadavg")));
        assert_eq!(text(&stage.call("few", json!({})).await), "never waited\n");
        assert_eq!(text(&stage.call("many", json!({})).await), "waited\n");
    });
}

/// Tries to raise its priority again.
const HURRIES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    struct sched_param none = {0};
    struct { unsigned size, policy; unsigned long flags; int nice; unsigned rest[32]; } wanted = {48};
    int got = setpriority(PRIO_PROCESS, 0, 0) && setpriority(PRIO_PROCESS, 0, 19) && setpriority(PRIO_PGRP, 0, 19)
        && sched_setscheduler(0, SCHED_OTHER, &none) && syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none)
        && syscall(SYS_sched_setattr, 0, &wanted, 0) && syscall(SYS_sched_setparam, 0, &none)
        && syscall(SYS_ioprio_set, 1, 0, 0);
    printf("%s at %d\n", got ? "held" : "ALLOWED", getpriority(PRIO_PROCESS, 0));
    fflush(stdout);
    for (;;) pause();
}
"#;

/// Programs have lower priority than the launcher and their init, and no program can change that.
pub(super) fn programs_have_the_lowest_priority() {
    let world = World::new();
    let Some(hurries) = compile(&world, "hurries", HURRIES) else { return };
    view::program(&world, "hurries", &[&hurries], &[], &[]);
    // Nice value and policy (proc_pid_stat(5)), as the host has them.
    let turn = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let words: Vec<String> =
            stat.rsplit(") ").next().unwrap_or_default().split(' ').map(str::to_owned).collect();
        (words.get(16).cloned(), words.get(38).cloned())
    };
    world.with(|stage| async move {
        let launcher = stage.launcher.report().pid;
        let running = tokio::spawn({
            let stage = stage.clone();
            async move { stage.call("hurries", json!({})).await }
        });
        let program = || {
            let inits = children(launcher);
            // SCHED_BATCH for the program, and SCHED_OTHER for the init.
            let inits = inits.into_iter().filter(|pid| turn(*pid).1.as_deref() == Some("0"));
            inits.flat_map(children).find(|pid| turn(*pid).1.as_deref() == Some("3"))
        };
        while program().is_none() {
            assert!(!running.is_finished(), "no program has lower priority");
            tokio::task::yield_now().await;
        }
        let own = turn(launcher).0.and_then(|nice| nice.parse::<i32>().ok()).expect("a nice value");
        let expect = (own + PROGRAM_NICE).min(19);
        until("its priority is lower", || {
            program().is_none_or(|pid| turn(pid).0 == Some(expect.to_string()))
        });
        let ended = running.await.expect("joined");
        assert_eq!(String::from_utf8_lossy(&ended.stdout), format!("held at {expect}\n"), "{ended:?}");
    });
}
