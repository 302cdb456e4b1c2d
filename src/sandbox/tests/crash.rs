//! A crash of a tool starts no program of the host's. The kernel has one setting for the whole
//! host: tests that change it run one at a time, and another process restores it, however the test
//! ends.

use super::super::start;
use super::{ORDINARY, World, become_user, compile, view};
use crate::call::End;
use crate::types::Level;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;
use std::fs::{read_to_string, write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const PATTERN: &str = "/proc/sys/kernel/core_pattern";
/// Not 0: a crashing process then waits for the program to end, so that the program's output is
/// complete.
const PIPES: &str = "/proc/sys/kernel/core_pipe_limit";
/// The kernel's limit, in bytes.
const PATTERN_BYTES_MAX: usize = 127;

/// Crashes as it is, or after lowering its own limit.
const CRASHES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
int main(int count, char **words) {
    struct rlimit none = {0, 0};
    if (words[1][0] == 'l') setrlimit(RLIMIT_CORE, &none);
    abort();
}
"#;

/// The program of `core_pattern`, which writes a line for each crash.
struct Handler {
    /// Restores the former settings once its standard input ends.
    keeper: Child,
    world: World,
    crashes: String,
}

impl Handler {
    /// `None`, with a message, if this host's setting cannot be changed or has no effect here.
    fn install() -> Option<Self> {
        let Ok(lock) = std::fs::File::options().read(true).write(true).open(PATTERN) else {
            println!("skipped: `{PATTERN}` cannot be written");
            return None;
        };
        // The keeper releases it, after restoring.
        flock(&lock, FlockOperation::LockExclusive).expect("a lock");
        let saved = [PATTERN, PIPES].map(|path| read_to_string(path).expect("a setting"));
        let restore = format!("cat >/dev/null; printf %s \"$1\" >{PATTERN}; printf %s \"$2\" >{PIPES}");
        let keeper = Command::new("/bin/sh")
            .args(["-c", &restore, "sh", &saved[0], &saved[1]])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(lock)
            .spawn()
            .expect("a keeper");
        let world = World::new();
        // A name that no other process has.
        let name = format!("crash{}", std::process::id());
        let crashes = compile(&world, &name, CRASHES);
        let handler = Self { keeper, world, crashes: crashes? };
        let program = handler.world.path("h");
        let log = handler.log();
        write(&program, format!("#!/bin/sh\necho \"$1\" >>{}\n", log.display())).expect("written");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("mode");
        write(&log, "").expect("written");
        let pattern = format!("|{} %e", program.display());
        if pattern.len() > PATTERN_BYTES_MAX {
            println!("skipped: `{pattern}` is too long for `{PATTERN}`");
            return None;
        }
        write(PIPES, "16").expect("set");
        write(PATTERN, pattern).expect("set");
        // Without a sandbox.
        let end = Command::new(&handler.crashes).arg("lowered").status().expect("started");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&end), Some(6));
        if handler.starts() == 0 {
            println!("skipped: the kernel starts no program of the file system that the tests are in");
            return None;
        }
        Some(handler)
    }

    fn log(&self) -> PathBuf {
        self.world.path("log")
    }

    /// How often it was started for the program that crashes.
    fn starts(&self) -> usize {
        let name = self.crashes.rsplit('/').next().expect("a name");
        read_to_string(self.log()).expect("a log").lines().filter(|line| *line == name).count()
    }

    /// Starts of it while tools crash, as they are and after lowering their own limit.
    fn starts_by_tools(&self) -> [usize; 2] {
        for how in ["plain", "lowered"] {
            view::program(&self.world, how, &[&self.crashes, how], &[], &[]);
        }
        let mut starts = [0; 2];
        let counts = &mut starts;
        self.world.with(|stage| async move {
            for (count, how) in counts.iter_mut().zip(["plain", "lowered"]) {
                let before = self.starts();
                let ended = stage.call(how, json!({})).await;
                assert_eq!(ended.end, End::Signal { signal: 6 }, "{ended:?}");
                *count = self.starts() - before;
            }
        });
        starts
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().expect("restored");
    }
}

fn no_core() {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).expect("lowered");
}

/// In some containers even root may not.
fn can_raise() -> bool {
    let held = rustix::thread::capabilities(None).expect("capabilities").effective;
    held.contains(rustix::thread::CapabilitySet::SYS_RESOURCE)
}

/// Whatever limit PAR was started with, and whatever the tool does about its own.
pub(super) fn a_crash_starts_no_program_of_the_host() {
    let Some(handler) = Handler::install() else { return };
    assert_eq!(handler.starts_by_tools(), [0, 0], "with the limit that there is");
    // Root raises it again. If it cannot be raised, the crash goes through, and is reported and
    // refused by name.
    view::apart("with none", || {
        no_core();
        let expect = if can_raise() { [0, 0] } else { [1, 1] };
        assert_eq!(handler.starts_by_tools(), expect, "with a hard limit of 0");
    });
    view::apart("as an ordinary user", || {
        no_core();
        become_user(ORDINARY, &[]);
        is_told_and_refused("`core_pattern` names a program now");
    });
    // A socket receives every dump, whatever the limit.
    write(PATTERN, "@/nonexistent/par").expect("set");
    let report = start(&handler.world.spec).expect("a launcher").report().clone();
    assert!(report.missing.iter().any(|row| row.contains("names a socket")), "{report:?}");
    assert_eq!(report.level, Some(Level::Standard), "{report:?}");
}

/// If no process can raise a hard limit of 0, the protection is missing.
pub(super) fn without_a_core_limit_a_protection_is_missing() {
    no_core();
    if !can_raise() {
        return is_told_and_refused("core dumps: the hard limit is 0");
    }
    let report = start(&World::new().spec).expect("a launcher").report().clone();
    assert!(!report.missing.iter().any(|row| row.contains("core dumps")), "{report:?}");
    assert_eq!(report.protections["core handler"], ["rlimits", "seccomp"]);
    assert_eq!(report.program_protections["core handler"], ["rlimits", "seccomp"]);
}

fn is_told_and_refused(why: &str) {
    let mut world = World::new();
    let report = start(&world.spec).expect("a launcher").report().clone();
    assert!(report.missing.iter().any(|row| row.contains(why)), "{report:?}");
    let row = "core handler: given by nothing, and not by rlimits, seccomp";
    assert!(report.lacking.iter().any(|lacking| lacking == row), "{report:?}");
    assert_eq!(report.level, Some(Level::Standard), "{report:?}");
    world.spec.minimum = Some(Level::Strict);
    let refused = start(&world.spec).expect_err("refused").to_string();
    assert!(refused.contains(why) && refused.contains(row), "{refused}");
}
