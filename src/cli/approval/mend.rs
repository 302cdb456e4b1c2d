//! What would allow an answer that was refused because of a group.

use super::source::ApprovalSource;
use crate::cli::exit::{self, Fail};
use crate::config::Config;
use crate::types::text;
use nix::unistd::{User, geteuid};
use serde_json::Value;

/// Adds the lines that would allow the answer, if it was refused because the user is in none of the
/// groups that `approval` asks for.
pub(super) fn with_mend(fail: Fail, source: &ApprovalSource, approval: &Value) -> Fail {
    let groups = approval.get("groups").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let groups: Vec<&str> = groups.iter().filter_map(Value::as_str).collect();
    // No membership of their own lets a requester approve: the reason names what would.
    let is_of_group = fail.code == exit::DENIED
        && fail.what.starts_with("only a user in the group")
        && groups.iter().any(|group| fail.what.contains(group));
    if !is_of_group {
        return fail;
    }
    let mend = match source {
        ApprovalSource::Home(config) => mend_here(config, &groups),
        ApprovalSource::Server(_) => mend_there(&groups),
    };
    Fail::new(fail.code, format!("{}. {mend}", fail.what))
}

/// The lines for the home's own `par.toml`, for the user of this process.
fn mend_here(config: &Config, groups: &[&str]) -> String {
    let uid = geteuid();
    let name = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    let user = config.os_users.get(&name).map_or_else(|| format!("os:{name}"), |of| of.user.clone());
    let line = |group: &&str| {
        let mut members = config.groups.get(*group).cloned().unwrap_or_default();
        if members.contains(&user) {
            return None;
        }
        members.push(user.clone());
        Some(format!("\n  {} = {members:?}", text::visible_line(group)))
    };
    let lines: String = groups.iter().filter_map(line).collect();
    let file = config.home.file();
    if lines.is_empty() {
        return format!("{} names `{user}`, but this is not loaded yet. Run:\n  par reload", file.display());
    }
    format!("To allow it, write below `[groups]` in {}:{lines}\nand then run:\n  par reload", file.display())
}

fn mend_there(groups: &[&str]) -> String {
    let lines: String =
        groups.iter().map(|group| format!("\n  {} = [\"USER\"]", text::visible_line(group))).collect();
    format!(
        "To allow it, name the user of this key below `[groups]` in the server's par.toml, next to those that are \
         there:{lines}\nand on the server run:\n  par reload"
    )
}
