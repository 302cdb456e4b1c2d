//! What is there in place of a file that a sentence names and that is not there.
//!
//! A sentence names a log by its short name, such as `errors in nginx`, and hosts differ in which
//! logs they have. After a call that found nothing, the folder is listed, so that the answer says
//! which names would have worked. The listing is a call like any other.

use super::sentences::NamedFolders;
use super::shape::unwrapped;
use crate::llm::conversation::Message;
use crate::llm::provider::ToolOffer;
use crate::runbooks::WrittenCall;
use crate::tools::builtin::NOT_FOUND;
use serde_json::{Value, json};
use std::path::Path;

/// What is said before the listing.
const NOTHING_THERE: &str = "There is nothing of that name that may be read. This is what there is:";
/// What is said before the calls that take the place of reading a journal.
const FILES_INSTEAD: &str = "The journal does not answer this. The log files are searched instead:";
/// The tools that read the journal.
const JOURNALS: [&str; 3] = ["journal_query", "journal_search", "kernel_log"];
/// Why a journal without entries says nothing.
const UNREAD: [&str; 3] = ["no_journal_files", "unreadable_journal_files", "damaged_journal_files"];
/// The tool that lists a folder.
const LIST: &str = "list_dir";
/// Names that the listing has.
const NAMES_MAX: usize = 50;

/// The listing that follows `results`, those of `calls`, if one of these found nothing at its path.
pub(super) fn listing(
    calls: &[WrittenCall],
    results: &[&str],
    folders: &NamedFolders,
    offered: &[ToolOffer],
) -> Option<WrittenCall> {
    let is_offered = offered.iter().any(|tool| tool.name == LIST);
    let (call, _) = calls.iter().zip(results).find(|(_, text)| is_offered && is_absent(text))?;
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let path = Path::new(arguments.get("path")?.as_str()?);
    let mut named = [&folders.logs, &folders.workspace].into_iter().map(AsRef::as_ref);
    let folder = named.find(|folder: &&Path| path.starts_with(folder)).or_else(|| path.parent())?;
    let is_other = folder != path;
    let arguments = json!({ "path": folder.to_str()?, "limit": NAMES_MAX }).to_string();
    is_other.then(|| WrittenCall { tool: LIST.to_owned(), arguments })
}

/// The project whose live version a sentence asked for, if none is live: the folder `current` is
/// not there.
pub(super) fn not_live(calls: &[WrittenCall], results: &[&str]) -> Option<String> {
    let (call, _) = calls.iter().zip(results).find(|(_, text)| is_absent(text))?;
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let project = Path::new(arguments.get("path")?.as_str()?.strip_suffix(LIVE)?);
    Some(project.file_name()?.to_str()?.to_owned())
}

/// The file, below a project's folder, that says which version is live.
const LIVE: &str = "/current/VERSION";

/// What is said before the first result of a reply to results.
pub(super) fn before(first: Option<&Message>) -> &'static str {
    match first {
        Some(Message::Tool { tool, .. }) if tool != LIST => FILES_INSTEAD,
        _ => NOTHING_THERE,
    }
}

/// The tools in `offered` but those that read the journal, if one of `calls` read it and could not
/// say what is in it.
pub(super) fn without_journal(
    calls: &[WrittenCall],
    results: &[&str],
    offered: &[ToolOffer],
) -> Option<Vec<ToolOffer>> {
    let reads = |call: &WrittenCall| JOURNALS.contains(&call.tool.as_str());
    calls.iter().zip(results).find(|(call, text)| reads(call) && is_unread(text))?;
    Some(offered.iter().filter(|tool| !JOURNALS.contains(&tool.name.as_str())).cloned().collect())
}

/// Whether the call ran, and found no entry in a journal of which it did not see everything.
fn is_unread(result: &str) -> bool {
    let told: Value = serde_json::from_str(result).unwrap_or_default();
    let is = |name: &str, expect: &str| told.get(name).and_then(Value::as_str) == Some(expect);
    let result = unwrapped(&told);
    let list = |name: &str| result.get(name).and_then(Value::as_array);
    let has_none = list("entries").is_some_and(Vec::is_empty);
    let unread = list("not_seen").into_iter().flatten().filter_map(Value::as_str);
    is("decision", "allow")
        && (is("status", "error") || has_none && unread.into_iter().any(|one| UNREAD.contains(&one)))
}

/// Whether the rules allowed the call, and there was nothing for it.
fn is_absent(result: &str) -> bool {
    let told: Value = serde_json::from_str(result).unwrap_or_default();
    let is = |name: &str, expect: &str| told.get(name).and_then(Value::as_str) == Some(expect);
    is("decision", "allow") && is("error", NOT_FOUND)
}

/// The messages after the last one of a person.
pub(super) fn since_asked(messages: &[Message]) -> &[Message] {
    let asked = messages.iter().rposition(|message| matches!(message, Message::User(_)));
    asked.and_then(|at| messages.get(at + 1..)).unwrap_or(messages)
}

#[cfg(test)]
mod tests {
    use super::{NamedFolders, WrittenCall, listing, not_live};
    use crate::llm::ToolOffer;

    #[test]
    fn a_journal_that_was_not_read_is_replaced_by_log_files() {
        let offer = |name: &str| ToolOffer {
            name: name.to_owned(),
            summary: String::new(),
            input: serde_json::json!({}),
        };
        let offered = ["journal_search", "search_files", "kernel_log"].map(offer);
        let check = |tool: &str, result: &str, expect: bool| {
            let call = WrittenCall { tool: tool.to_owned(), arguments: "{}".to_owned() };
            let others = super::without_journal(&[call], &[result], &offered);
            let names = others.map(|all| all.into_iter().map(|tool| tool.name).collect::<Vec<_>>());
            assert_eq!(names, expect.then(|| vec!["search_files".to_owned()]), "{tool} {result}");
        };
        let told = |entries: &str, not_seen: &str| {
            format!(
                r#"{{"decision":"allow","status":"ok","result":{{"entries":[{entries}],"not_seen":[{not_seen}]}}}}"#
            )
        };
        check("journal_search", &told("", "\"no_journal_files\""), true);
        check("kernel_log", &told("", "\"damaged_journal_files\""), true);
        check("journal_search", &told("{}", "\"unreadable_journal_files\""), false);
        check("journal_search", &told("", ""), false);
        check("journal_search", r#"{"decision":"allow","status":"error","error":"no permission"}"#, true);
        check("journal_search", r#"{"decision":"deny","status":"denied"}"#, false);
        check("search_files", &told("", "\"no_journal_files\""), false);
    }

    #[test]
    fn only_an_allowed_call_that_found_nothing_is_followed_by_a_listing() {
        let folders = NamedFolders { logs: "/var/log".into(), workspace: "/srv/w".into() };
        let offer = |name: &str| ToolOffer {
            name: name.to_owned(),
            summary: String::new(),
            input: serde_json::json!({}),
        };
        let absent = r#"{"decision":"allow","status":"error","error":"not permitted or not found"}"#;
        let denied = r#"{"decision":"deny","status":"refused","error":"not permitted or not found"}"#;
        let check = |path: &str, result: &str, offered: &str, expect: Option<&str>| {
            let arguments = format!("{{\"path\":\"{path}\"}}");
            let call = WrittenCall { tool: "read_file".to_owned(), arguments };
            let found = listing(&[call], &[result], &folders, &[offer(offered)]);
            let folder = found.map(|call| call.arguments);
            let expect = expect.map(|folder| format!("{{\"path\":\"{folder}\",\"limit\":50}}"));
            assert_eq!(folder, expect, "{path} {result}");
        };
        check("/var/log/nginx/error.log", absent, "list_dir", Some("/var/log"));
        check("/srv/w/demo/README", absent, "list_dir", Some("/srv/w"));
        check("/opt/x/y", absent, "list_dir", Some("/opt/x"));
        check("/var/log", absent, "list_dir", None);
        check("/var/log/nginx", absent, "read_file", None);
        check("/var/log/nginx", denied, "list_dir", None);
        check("/var/log/nginx", r#"{"decision":"allow","status":"ok"}"#, "list_dir", None);
        let live = |path: &str, result: &str| {
            let arguments = format!("{{\"path\":\"{path}\"}}");
            not_live(&[WrittenCall { tool: "read_file".to_owned(), arguments }], &[result])
        };
        let demo = "/srv/w/demo/current/VERSION";
        assert_eq!(live(demo, absent).as_deref(), Some("demo"));
        assert_eq!((live(demo, denied), live("/srv/w/demo", absent)), (None, None));
    }
}
