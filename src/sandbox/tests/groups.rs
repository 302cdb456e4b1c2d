//! The Unix groups of a call: those of its manifest, or those that the launcher cannot give up.

use super::world::{Stage, World};
use super::{ORDINARY, become_user};
use crate::call::{End, Execution, Object};
use rustix::thread::{Gid, set_thread_groups};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, chown};

/// The group of the system's logs, which every Linux distribution has under this number.
const ADM: u32 = 4;

/// Two programs, one in `adm`, and a file that only root and `adm` may read.
fn world() -> (World, String) {
    let world = World::new();
    world.program("plain", &["/usr/bin/true"]);
    let manifest = world.spec.tools_dir.join("plain.toml");
    let plain = std::fs::read_to_string(manifest).expect("manifest");
    let member =
        plain.replace("\"plain\"", "\"member\"").replace("[sandbox]", "[sandbox]\ngroups = [\"adm\"]");
    world.tool("member", &member);
    let read = include_str!("../../../tools.d/read_file.toml");
    let logs = read.replace("name = \"read_file\"", "name = \"read_logs\"");
    let logs = logs.replace("[sandbox]", "[sandbox]\ngroups = [\"adm\"]");
    assert!(logs.contains("read_logs") && logs.contains("groups"), "the manifest has another form");
    world.tool("read_logs", &logs);
    let file = world.write("workspace/syslog", b"a line");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("mode");
    (world, file)
}

/// Whether `tool` opens the file.
async fn reads(stage: &Stage, tool: &str, file: &str) -> bool {
    let arguments = json!({ "path": file });
    match stage.prepare(tool, &arguments).await {
        Ok(prepared) if matches!(prepared.object, Object::Path(_)) => {
            let execution = stage.run(tool, &arguments, prepared).await;
            String::from_utf8_lossy(&execution.stdout).contains("a line")
        }
        _ => false,
    }
}

/// The groups of the only call that is prepared, as the host sees them.
fn groups_of_child(stage: &Stage) -> String {
    let launcher = stage.launcher.report().pid;
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    let children = children.expect("children");
    let [child] = children.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{children:?}") };
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).expect("status");
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).expect("groups");
    groups.trim().to_owned()
}

fn ended_well(execution: &Execution) {
    assert_eq!(execution.end, End::Exit { code: 0 }, "{execution:?}");
}

/// A1: started by root, a call is in exactly the groups that its manifest names, and every other
/// call is in none.
pub(super) fn a_call_has_the_groups_of_its_manifest_and_no_other() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (world, file) = world();
    chown(&file, Some(0), Some(ADM)).expect("given");
    // Groups of the one who starts it reach no call.
    set_thread_groups(&[Gid::from_raw(27), Gid::from_raw(42)]).expect("groups");
    world.with(|stage| async move {
        let plain = stage.prepare("plain", &json!({})).await.expect("prepared");
        assert_eq!(groups_of_child(&stage), "");
        let plain = stage.run("plain", &json!({}), plain).await;
        ended_well(&plain);
        assert_eq!((plain.given.groups.len(), plain.given.groups_shared), (0, false));
        let member = stage.prepare_soon("member", &json!({})).await;
        assert_eq!(groups_of_child(&stage), ADM.to_string());
        let member = stage.run("member", &json!({}), member).await;
        ended_well(&member);
        assert_eq!(
            (member.given.groups.as_slice(), member.given.groups_shared),
            (&["adm".to_owned()][..], false)
        );
        assert!(!reads(&stage, "read_file", &file).await, "without the group");
        assert!(reads(&stage, "read_logs", &file).await, "with the group");
    });
}

/// A1: a launcher that may not change its groups refuses a tool whose group it does not have. The
/// groups that it has belong to every call, and the record says so.
pub(super) fn calls_share_the_groups_of_a_launcher_that_is_not_root() {
    let (world, file) = world();
    if rustix::process::geteuid().is_root() {
        chown(&file, Some(0), Some(ADM)).expect("given");
        become_user(ORDINARY, &[ADM]);
        world.with(|stage| async move {
            assert!(stage.launcher.report().refused.is_empty(), "{:?}", stage.launcher.report());
            for tool in ["plain", "member"] {
                let execution = stage.call(tool, json!({})).await;
                ended_well(&execution);
                assert_eq!(execution.given.groups, ["adm"], "{tool}");
                assert!(execution.given.groups_shared, "{tool}");
            }
            assert!(reads(&stage, "read_file", &file).await, "shared");
        });
        return;
    }
    world.with(|stage| async move {
        let report = stage.launcher.report();
        let refused: Vec<&str> = report.refused.iter().map(|tool| tool.tool.as_str()).collect();
        assert_eq!(refused, ["member", "read_logs"]);
        let reason = &report.refused.first().expect("one").reason;
        assert!(
            reason.contains("needs the group `adm`") && reason.contains("SupplementaryGroups=adm"),
            "{reason}"
        );
        let plain = stage.call("plain", json!({})).await;
        assert_eq!((plain.given.groups.len(), plain.given.groups_shared), (0, false));
    });
}
