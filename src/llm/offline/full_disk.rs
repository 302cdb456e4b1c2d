//! A full file system that no call looked into.

use super::shape::{number, shown, unwrapped};
use crate::llm::conversation::Message;
use serde_json::Value;
use std::path::Path;

/// From how full on a file system is named, in percent of its space or inodes.
const FULL_PERCENT: u64 = 85;

/// After a report on disks and on folders: says which full file systems hold none of the folders
/// that were looked into, and what to ask next. `None` if that concerns none.
pub(super) fn not_looked_into(messages: &[Message]) -> Option<String> {
    let results = |wanted: &str| {
        let of_tool = messages.iter().filter_map(move |message| match message {
            Message::Tool { tool, text, .. } if tool == wanted => Some(text.as_str()),
            _ => None,
        });
        of_tool.filter_map(|text| serde_json::from_str::<Value>(text).ok()).collect::<Vec<_>>()
    };
    let folders: Vec<Value> = results("largest_paths").iter().map(unwrapped).collect();
    let folders: Vec<&str> = folders.iter().filter_map(|one| one.get("path")?.as_str()).collect();
    let disks = results("disk_usage").iter().map(unwrapped).next_back()?;
    let disks = disks.get("file_systems")?.as_array()?;
    let mount = |disk: &'_ Value| disk.get("mount").and_then(Value::as_str).map(str::to_owned);
    let mounts: Vec<String> = disks.iter().filter_map(mount).collect();
    let holds = |mount: &str| folders.iter().any(|folder| mount_of(folder, &mounts) == Some(mount));
    let full = disks.iter().filter(|disk| {
        let used = ["used_percent", "inodes_used_percent"].into_iter().filter_map(|name| number(disk, name));
        used.max() >= Some(FULL_PERCENT)
    });
    let left: Vec<String> = full.filter_map(mount).filter(|mount| !holds(mount)).collect();
    if messages.iter().all(|message| !is_about_folders(message)) || left.is_empty() {
        return None;
    }
    let line = |mount: &String| {
        let mount = shown(mount);
        format!("Not looked into: {mount}, which is full. Ask `what fills {mount}?`")
    };
    let mut lines: Vec<String> = left.iter().map(line).collect();
    lines.push(
        "  If `largest_paths` may not read there, add the folder to `read` in its manifest and run `par reload`."
            .to_owned(),
    );
    Some(lines.join("\n"))
}

fn is_about_folders(message: &Message) -> bool {
    matches!(message, Message::Tool { tool, .. } if tool == "largest_paths")
}

/// The mount point that a folder is on: the longest one that it lies below.
fn mount_of<'a>(folder: &str, mounts: &'a [String]) -> Option<&'a str> {
    let above = mounts.iter().filter(|mount| Path::new(folder).starts_with(mount));
    above.max_by_key(|mount| mount.len()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::not_looked_into;
    use crate::llm::Message;
    use serde_json::{Value, json};

    #[test]
    fn a_full_file_system_that_was_not_looked_into_is_named() {
        let tool = |tool: &str, result: Value| Message::Tool {
            call_id: "1".into(),
            tool: tool.into(),
            text: json!({ "status": "ok", "result": result }).to_string(),
        };
        let disks = || {
            let all = json!({ "file_systems": [{ "mount": "/", "used_percent": 90 }, { "mount": "/srv/a", "used_percent": 3,
                "inodes_used_percent": 100 }, { "mount": "/home", "used_percent": 84 }] });
            tool("disk_usage", all)
        };
        let below = |path: &str| tool("largest_paths", json!({ "path": path }));
        let told = not_looked_into(&[disks(), below("/var/log")]).expect("one is left");
        assert!(
            told.starts_with("Not looked into: /srv/a, which is full. Ask `what fills /srv/a?`\n"),
            "{told}"
        );
        assert!(!told.contains("Not looked into: /,") && !told.contains("/home"), "{told}");
        assert_eq!(not_looked_into(&[disks(), below("/var/log"), below("/srv/a/x")]), None);
        let told = not_looked_into(&[disks(), below("/srv/a")]).expect("one is left");
        assert!(told.starts_with("Not looked into: /, which"), "{told}");
        // A question about the disks alone.
        assert_eq!(not_looked_into(&[disks()]), None);
        assert_eq!(not_looked_into(&[below("/var/log")]), None);
    }
}
