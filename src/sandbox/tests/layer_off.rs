//! Each layer switched off alone, or with the second one that stops the same attempt: then some
//! attempt goes through, so that no layer is decoration. The child here goes through the same steps
//! as a call's, minus those layers; the outcome is in `tests/it/golden/layers-off.txt`.

mod stage;
mod table;

use super::World;
use crate::call::End;
use crate::launcher::confine::protection;
use crate::launcher::sys;
use nix::sched::CloneFlags;
use serde_json::{Value, json};
use stage::{LayerStage, is_root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use table::Layer::{
    self, Capabilities, Clock, ControlGroups, Filter, HostName, Identity, Init, Locked, Rules, SuId,
};
use table::{BY_EFFECT, CASES, NAMES, REACHES};

pub(super) fn no_layer_is_decoration() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    if is_root() {
        // The host name that is changed below is this process's alone.
        sys::unshare(CloneFlags::CLONE_NEWUTS).expect("a UTS namespace");
    }
    let Some(stage) = LayerStage::make(port) else { return };
    let lends = stage.lends();
    // Landlock scopes signals from its ABI 6 on.
    let scopes = sys::landlock_abi().is_some_and(|abi| abi >= 6);
    let keeps_core = rustix::process::getrlimit(rustix::process::Resource::Core).maximum != Some(0);
    let (mut told, mut with_all) = (Outcomes::default(), BTreeMap::new());
    for case in CASES {
        if !is_root() && case.off.iter().any(|off| [Identity, SuId].contains(off)) {
            continue;
        }
        if case.off.contains(&SuId) && !lends {
            println!("\nSKIPPED: no file lends rights where the tests are: {:?}\n", case.off);
            continue;
        }
        for (names, goes) in [(case.through, true), (case.held, false)] {
            let can = |name: &str| match name {
                "signal_stranger" => scopes,
                "core_lowered" => keeps_core,
                _ => true,
            };
            for name in names.iter().filter(|name| can(name)) {
                // With every layer on it must be held, or it would prove nothing about the layer
                // that is off.
                let before = with_all.entry(*name).or_insert_with(|| stage.attempt(&[], name)).clone();
                let line = stage.attempt(case.off, name);
                let is_through = line["outcome"] == "SUCCEEDED";
                if before["outcome"] != "held" {
                    told.wrong.push(format!("with all {name}: {before}"));
                }
                told.tell(case.off, name, is_through, goes, &line);
            }
        }
    }
    for (off, steps) in REACHES {
        let line = stage.attempt(off, "tcp_connect");
        let what = format!("tcp_connect, {} of 2 steps", line["through"]);
        told.tell(off, &what, line["through"] != 0, steps > 0, &line);
        assert_eq!(line["through"], steps, "without {off:?}");
    }
    by_effect(&stage, &mut told);
    assert!(told.wrong.is_empty(), "{}", told.wrong.join("\n"));
    told.compare();
}

/// Layers that are shown by their effect outside the program.
fn by_effect(stage: &LayerStage, told: &mut Outcomes) {
    if is_root() {
        let name = || rustix::system::uname().nodename().to_owned();
        for (more, goes) in [(&[][..], false), (&[HostName][..], true)] {
            let off = [&[Identity, Capabilities, Filter, Locked], more].concat();
            let before = name();
            let line = stage.attempt(&off, "host_name");
            told.tell(&off, "the host is renamed", name() != before, goes, &line);
        }
    }
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("groups");
    if own.lines().all(|line| line.ends_with(":/")) {
        println!("\nSKIPPED: the tests are in the root control group, which shows nothing\n");
    } else {
        // Being readable is not enough: without the namespace the file names the group on the host.
        for (off, goes) in [(&[Rules][..], false), (&[Rules, ControlGroups][..], true)] {
            let line = stage.attempt(off, "own_group");
            told.tell(off, "own_group", line["outcome"] == "SUCCEEDED", goes, &line);
        }
    }
    // The first process of a namespace is not ended by its own signal, and this test does not read
    // its output.
    let (code, _) = stage.end(&[], "killed");
    told.tell(&[Init], "continues after its own KILL", code == Some(64), true, &json!(code));
    let (_, bytes) = stage.end(&[Filter], "flood");
    let is_over = bytes > LayerStage::LIMITS.output_bytes_max as u64;
    told.tell(&[Clock], "writes more than its cap", is_over, true, &json!(bytes));
    stage.are_ended_by_the_launcher();
}

/// The outcomes, a line for each set of layers that is off.
#[derive(Default)]
struct Outcomes {
    lines: Vec<(Vec<Layer>, Vec<String>, Vec<String>)>,
    wrong: Vec<String>,
}

impl Outcomes {
    fn tell(&mut self, off: &[Layer], what: &str, is_through: bool, goes: bool, line: &Value) {
        println!("without {off:?}: {what}: {line}");
        if is_through != goes {
            self.wrong.push(format!("without {off:?} {what}: {line}"));
        }
        if self.lines.last().is_none_or(|(last, ..)| last != off) {
            self.lines.push((off.to_vec(), Vec::new(), Vec::new()));
        }
        if let Some((_, through, held)) = self.lines.last_mut() {
            if is_through { through } else { held }.push(what.to_owned());
        }
    }

    /// Every layer that a record or the table of protections names has a line in which something
    /// goes through without that layer, and not with it.
    fn compare(&self) {
        let mut all = String::new();
        for (off, through, held) in &self.lines {
            let names: Vec<&str> = off.iter().map(|layer| layer.name()).collect();
            writeln!(all, "without {}", names.join(", ")).expect("a line");
            for (what, list) in [("through", through), ("held", held)] {
                if !list.is_empty() {
                    writeln!(all, "    {what:<8} {}", list.join(", ")).expect("a line");
                }
            }
        }
        let golden = include_str!("../../../tests/it/golden/layers-off.txt");
        let lines: BTreeSet<&str> = golden.lines().collect();
        let other = all.lines().find(|line| !lines.contains(line));
        assert!(other.is_none(), "tests/it/golden/layers-off.txt has no `{other:?}`:\n{all}");
        assert!(!is_root() || all == golden, "tests/it/golden/layers-off.txt is not:\n{all}");
    }
}

/// Every layer has its case: those of the table of protections, and those in the records of the
/// calls here.
pub(super) fn every_layer_has_its_case() {
    let has_case = |layer: Layer| {
        let shown = CASES.iter().filter(|case| !case.through.is_empty()).flat_map(|case| case.off);
        let reached = REACHES.iter().filter(|(_, steps)| *steps > 0).flat_map(|(off, _)| off.iter());
        shown.chain(reached).chain(&BY_EFFECT).any(|shown| *shown == layer)
    };
    for layer in protection::named() {
        assert!(has_case(Layer::new(layer)), "{layer:?}");
    }
    for (layer, name) in NAMES {
        assert!(has_case(layer), "{name}");
    }
    let world = World::new();
    world.program("says", &["/usr/bin/true"]);
    let says = std::fs::read_to_string(world.spec.tools_dir.join("says.toml")).expect("written");
    let sees = says.replace("\"says\"", "\"sees\"").replace("[sandbox]", "[sandbox]\nproc = \"self\"");
    world.tool("sees", &sees);
    world.with(|stage| async move {
        for tool in ["health_check", "says", "sees"] {
            let ended = stage.call(tool, json!({})).await;
            assert_eq!(ended.end, End::Exit { code: 0 });
            for name in &ended.layers {
                assert!(has_case(Layer::named(name)), "{name}");
            }
        }
    });
}
