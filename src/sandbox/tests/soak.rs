//! A thousand calls of every kind leave nothing behind. `benches/soak.rs` makes many more, and
//! measures.

use super::left::children;
use super::limits::{calls, group_of, is_populated};
use super::{Stage, World, compile, until};
use rustix::process::geteuid;
use serde_json::json;
use std::fs::{read_dir, read_to_string};
use std::time::Duration;

const CALLS: usize = 1_000;
const WIDTH: usize = 32;

const HARM: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(int n,char**a){char h=a[1][0];if(h=='s')for(;;)pause();if(h=='o')for(;;)puts(\"flood\");\
    if(h=='f')for(;;)fork();if(h=='m')for(char*m;(m=malloc(1<<20));)memset(m,1,1<<20);if(h=='c')abort();return 0;}\n";

/// The tool of a call, and how long the caller waits for it, in milliseconds; `None` waits until
/// its end.
const MIX: [(&str, Option<u64>); 10] = [
    ("health_check", None),
    ("quiet", None),
    ("health_check", Some(0)),
    ("sleeps", Some(5)),
    ("sleeps", None),
    ("overflows", None),
    ("forks", None),
    ("memory", None),
    ("crashes", None),
    ("health_check", Some(1)),
];

/// A count of everything that could be left behind; `None` if this user may not read it.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    descriptors: [Option<usize>; 2],
    mounts: [Option<usize>; 2],
    files: usize,
}

impl Left {
    fn new(world: &World, launcher: u32) -> Self {
        let count = |path: String| read_dir(path).ok().map(Iterator::count);
        let lines = |path: String| read_to_string(path).ok().map(|text| text.lines().count());
        let both = ["self".to_owned(), launcher.to_string()];
        Self {
            descriptors: both.clone().map(|pid| count(format!("/proc/{pid}/fd"))),
            mounts: both.map(|pid| lines(format!("/proc/{pid}/mountinfo"))),
            files: read_dir(world.workspace()).expect("a folder").count(),
        }
    }
}

pub(super) fn a_thousand_calls_leave_nothing() {
    let world = &World::new();
    let Some(harm) = compile(world, "harm", HARM) else { return };
    for name in ["quiet", "sleeps", "overflows", "forks", "memory", "crashes"] {
        world.program(name, &[&harm, name]);
        let path = world.spec.tools_dir.join(name).with_extension("toml");
        let manifest =
            read_to_string(&path).expect("a manifest").replace("wall_ms_max = 700", "wall_ms_max = 60");
        world.tool(name, &manifest.replace("memory_bytes_max = 268435456", "memory_bytes_max = 33554432"));
    }
    world.with(|stage| async move {
        let pid = stage.launcher.report().pid;
        // What is made at the first use is not a leak.
        many(&stage, 2 * WIDTH).await;
        settle(&stage, pid).await;
        let before = Left::new(world, pid);
        if geteuid().is_root() {
            assert!(before.descriptors[1].is_some(), "{before:?}");
        } else {
            println!("skipped: an ordinary user may not look into a launcher: {before:?}");
        }
        let renewals = stage.launcher.renewals();
        many(&stage, CALLS).await;
        settle(&stage, pid).await;
        assert_eq!(Left::new(world, pid), before);
        assert_eq!(stage.launcher.renewals(), renewals, "the same launcher as before");
        if super::has(&stage.launcher.report(), "cgroup kill") {
            let groups = calls(group_of(pid).parent().expect("the launcher's own"));
            let populated = groups.iter().filter(|group| is_populated(group)).count();
            assert_eq!(populated, 0, "{groups:?}");
            assert!(groups.len() <= 2 * crate::launcher::spec::CALLS_MAX, "{}", groups.len());
        }
    });
}

/// Waits until no child is left and the launcher has released what it held for them: one answer may
/// come before that, a second does not.
async fn settle(stage: &Stage, launcher: u32) {
    until("no child is left", || children(launcher).is_empty());
    for _ in 0..2 {
        stage.launcher.check_or_replace().await.expect("an answer");
    }
}

async fn many(stage: &Stage, calls: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..WIDTH {
        let stage = stage.clone();
        tasks.spawn(async move {
            for at in (worker..calls).step_by(WIDTH) {
                let (tool, patience) = MIX[at % MIX.len()];
                once(&stage, tool, patience).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn once(stage: &Stage, tool: &str, patience: Option<u64>) {
    let prepared = loop {
        match stage.prepare(tool, &json!({})).await {
            Ok(prepared) => break prepared,
            // Those that were released are still being reaped.
            Err(e) => assert!(e.to_string().contains("calls are running"), "{tool}: {e}"),
        }
        tokio::task::yield_now().await;
    };
    let arguments = json!({});
    let run = stage.run(tool, &arguments, prepared);
    match patience {
        Some(0) => drop(run),
        Some(ms) => drop(tokio::time::timeout(Duration::from_millis(ms), run).await),
        None => drop(run.await),
    }
}
