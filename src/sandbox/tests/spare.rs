//! Children that are there before their call.

use super::super::PrepareError;
use super::{Stage, World, alive, until};
use crate::call::{End, Object};
use crate::launcher::prefork::SPARE_IDS;
use crate::launcher::protocol::{Request, packets, send_packet};
use crate::launcher::spec::SPARES_MAX;
use crate::types::limits::PREPARE_MS_MAX;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::path::Path;

/// Children of `parent` that have not ended, as the host counts.
pub(super) fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("`/proc`").filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: state and parent.
        let words = stat.rsplit(") ").next().unwrap_or_default().to_owned();
        words.split(' ').nth(1).and_then(|word| word.parse().ok()) == Some(parent)
    };
    pids.filter(is_child).filter(|pid| alive(*pid)).collect()
}

/// The one spare of an idle launcher.
fn spare(stage: &Stage) -> u32 {
    let launcher = stage.launcher.report().pid;
    until("a spare", || children(launcher).len() == 1);
    children(launcher).first().copied().expect("a spare")
}

/// What the descriptors of `pid` lead to, `None` where one may not look.
fn open(pid: u32) -> Option<Vec<String>> {
    let all = std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).ok()?;
    let leads = |entry: std::fs::DirEntry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string());
    Some(all.filter_map(Result::ok).filter_map(leads).collect())
}

fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

pub(super) fn a_call_takes_the_spare() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    world.with(|stage| async move {
        let arguments = json!({ "path": file });
        assert_eq!(children(stage.launcher.report().pid), [0_u32; 0], "nobody knows yet what is called");
        assert_eq!(stage.call("read_file", arguments.clone()).await.end, End::Exit { code: 0 });
        let mut before = 0;
        for _ in 0..3 {
            let first = spare(&stage);
            assert_ne!(first, before, "one for each call");
            let read = stage.call("read_file", arguments.clone()).await;
            assert_eq!(read.end, End::Exit { code: 0 });
            assert_eq!(read.stdout, stage.call("read_file", arguments.clone()).await.stdout);
            until("it was the call's child", || !alive(first));
            before = first;
        }
        // Several at once: one has the spare, the other is born with its call.
        let first = spare(&stage);
        let held = [
            stage.prepare("read_file", &arguments).await.expect("prepared"),
            stage.prepare("read_file", &arguments).await.expect("prepared"),
        ];
        for held in held {
            let read = stage.run("read_file", &arguments, held).await;
            assert_eq!(read.end, End::Exit { code: 0 });
        }
        until("one of them had it", || !alive(first));
    });
}

pub(super) fn does_without_a_spare() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    world.with(|stage| async move {
        let call = async || stage.call("read_file", json!({ "path": file })).await.end;
        assert_eq!(call().await, End::Exit { code: 0 });
        let first = spare(&stage);
        let pid = Pid::from_raw(i32::try_from(first).expect("a pid")).expect("a pid");
        kill_process(pid, Signal::KILL).expect("killed");
        until("it has ended, and is not made again", || !alive(first));
        assert_eq!(call().await, End::Exit { code: 0 });
        let second = spare(&stage);
        assert_ne!(second, first);
        // A call that no packet holds has a child of its own, and the spare waits on.
        let mut ask = stage.ask("read_file", &json!({ "path": file }));
        ask.named = (0..8_192).map(|at| format!("/named/{at:020}")).chain([file.clone()]).collect();
        let prepared = stage.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect("prepared");
        let Object::Path(path) = prepared.object else { panic!("{:?}", prepared.object) };
        assert_eq!(path.within, std::slice::from_ref(&file));
        assert!(alive(second));
        drop(prepared.held);
        let refused = stage.prepare("read_file", &json!({ "path": 7 })).await;
        assert!(matches!(refused, Err(PrepareError::Refused(_))), "{refused:?}");
        assert!(alive(second), "what is refused takes no child");
    });
}

/// What is kept for calls has no call's number, and a front cannot take one of those.
pub(super) fn a_spare_is_no_call() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    let seed = super::start(&world.spec).expect("a launcher");
    let socket = seed.socket.try_clone().expect("a copy");
    world.with_seed(seed, |stage| async move {
        let arguments = json!({ "path": file });
        assert_eq!(stage.call("read_file", arguments.clone()).await.end, End::Exit { code: 0 });
        let pid = spare(&stage);
        // Its number, whichever: the first is the launcher's first.
        for id in [SPARE_IDS, SPARE_IDS + 1, SPARE_IDS + 2, u64::MAX] {
            let prepare = Request::Prepare(stage.ask("read_file", &arguments));
            for request in [prepare, Request::Release] {
                for packet in packets(id, &request).expect("packets") {
                    assert_eq!(send_packet(&socket, &packet), Ok(true));
                }
            }
        }
        stage.launcher.tend().await.expect("an answer");
        assert!(alive(pid), "it waits on");
        assert_eq!(stage.call("read_file", arguments).await.end, End::Exit { code: 0 });
        until("it was the call's child", || !alive(pid));
    });
}

pub(super) fn spares_are_few() {
    let world = World::new();
    let names: Vec<String> = (0..SPARES_MAX + 3).map(|at| format!("tool_{at}")).collect();
    for name in &names {
        world.program(name, &["/usr/bin/true"]);
    }
    let mut left = Vec::new();
    world.with(async |stage| {
        let launcher = stage.launcher.report().pid;
        for (at, name) in names.iter().enumerate() {
            assert_eq!(stage.call(name, json!({})).await.end, End::Exit { code: 0 });
            let most = (at + 1).min(SPARES_MAX);
            until("as many as there may be", || children(launcher).len() == most);
        }
        // The last ones are there for their tools.
        let before = children(launcher);
        for name in names.iter().rev().take(SPARES_MAX) {
            assert_eq!(stage.call(name, json!({})).await.end, End::Exit { code: 0 });
        }
        until("all were taken", || !before.iter().any(|pid| alive(*pid)));
        until("as many as there may be", || children(launcher).len() == SPARES_MAX);
        left = children(launcher);
    });
    until("they end with their launcher", || !left.iter().any(|pid| alive(*pid)));
}

pub(super) fn a_spare_is_confined_and_holds_nothing_of_a_call() {
    let mut world = World::new();
    let file = world.write("workspace/f", b"x");
    let journal = world.path("outside");
    std::fs::set_permissions(&journal, super::PermissionsExt::from_mode(0o700)).expect("mode");
    world.spec.journal = rustix::process::geteuid().is_root().then_some(journal);
    world.with(|stage| async move {
        // Made behind a call, whose descriptors had the same numbers.
        let read = stage.call("read_file", json!({ "path": file })).await;
        assert_eq!(read.end, End::Exit { code: 0 });
        let pid = spare(&stage);
        let is_asleep = || status(pid, "State").starts_with('S') && status(pid, "Seccomp") == "2";
        until("it waits", is_asleep);
        for (name, value) in [("CapEff", 0_u64), ("CapPrm", 0), ("CapInh", 0), ("CapAmb", 0)] {
            assert_eq!(u64::from_str_radix(&status(pid, name), 16), Ok(value), "{name}");
        }
        assert_eq!(status(pid, "NoNewPrivs"), "1");
        let score =
            |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("a score");
        assert_eq!(score(pid), "1000\n");
        assert_eq!(
            score(stage.launcher.report().pid),
            score(std::process::id()),
            "the launcher's is as it was"
        );
        let Some(open) = open(pid) else {
            return println!("skipped: an ordinary user may not look at what a spare has open");
        };
        let count = |what: &str| open.iter().filter(|one| one.contains(what)).count();
        // Its control channel, its two outputs; `outside` is the journal's folder.
        let own = [count("socket:"), count("pipe:"), count("pidfd"), count("outside")];
        assert_eq!(own, [1, 2, 0, 0], "{open:?}");
    });
}
