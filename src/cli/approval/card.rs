//! The card of an approval: everything that a person needs for the answer.
//!
//! It comes in the order in which a person reads: the question, what would run, why it needs a
//! person and who may answer, what the run had read, and last the words of the model. A member that
//! this version does not know is shown too. Control characters become visible: a model wrote part
//! of it.

use super::words::whole;
use crate::cli::table::{Screen, fold, told};
use crate::gate::describe_content;
use crate::types::clock::Wall;
use crate::types::{text, told_origins};
use serde_json::Value;

/// The beginning of each line of a text.
const TEXT_MARK: &str = "  | ";
/// The beginning of a line that continues the one above.
const GOES_ON: &str = "  > ";
/// Width of the names, in characters.
const NAME_CHARS: usize = 10;

/// The members that have a name of their own on the card, in its order.
const NAMED: [(&str, &str); 25] = [
    ("approval", "/id"),
    ("state", "/state"),
    ("question", "/shown/question"),
    ("tool", "/tool"),
    ("summary", "/shown/summary"),
    ("arguments", "/arguments"),
    ("on", "/resource/id"),
    ("program", "/shown/program"),
    ("command", "/shown/command"),
    ("script", "/shown/script"),
    ("risk", "/shown/risk"),
    ("sandbox", "/shown/sandbox"),
    ("groups", "/groups"),
    ("asked by", "/requester/who"),
    ("credential", "/requester/principal"),
    ("user", "/requester/user"),
    ("through", "/shown/channel"),
    ("run", "/run"),
    ("asked", "/created"),
    ("expires", "/expires"),
    ("answer", "/answer/who"),
    ("reason", "/answer/reason"),
    ("model says", "/said"),
    ("call hash", "/call_hash"),
    ("card", "/card"),
];
/// Those of them that are times: on a terminal, local ones with their distance from now.
const TIMES: [&str; 2] = ["asked", "expires"];
/// Makes some lines of the card.
type Lines = fn(&Value) -> Vec<String>;

/// After these names come the parts that have lines of their own.
const AFTER: [(&str, Lines); 4] =
    [("arguments", origin_lines), ("on", object_lines), ("sandbox", why_lines), ("reason", read_lines)];
/// Members that those parts show, or that identify the request and say nothing to a person.
const ELSEWHERE: [&str; 6] = ["resource", "why", "tainted_by", "session", "call", "confirm"];
/// The same, of the members of `shown`.
const SHOWN_ELSEWHERE: [&str; 2] = ["from", "taint"];

/// Lines of a text that a short card shows: so many at its start, and so many at its end.
const TEXT_HEAD: usize = 10;
const TEXT_TAIL: usize = 5;
/// The digests that an answer repeats.
const DIGESTS: [&str; 2] = ["call hash", "card"];

/// The whole card, line by line.
pub(super) fn lines(approval: &Value, screen: &Screen) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, at) in NAMED {
        lines.extend(part(approval, name, at, screen));
    }
    folded(lines, screen)
}

/// The card without the middle of a long script. If something is left out, so are the digests: an
/// answer is to the whole card, so that a person who has seen less of it has nothing to answer
/// with.
pub(super) fn short_lines(approval: &Value, screen: &Screen) -> Vec<String> {
    let (mut lines, mut is_cut) = (Vec::new(), false);
    for (name, at) in NAMED {
        let mut more = part(approval, name, at, screen);
        if name == "script" {
            is_cut = cut_text(&mut more);
        }
        if !(is_cut && DIGESTS.contains(&name)) {
            lines.extend(more);
        }
    }
    if is_cut {
        let id = whole(approval, "/id");
        lines.push(line("card", &format!("in `par approval show {id} --full`, which leaves nothing out")));
    }
    folded(lines, screen)
}

/// The question and the call, to be read again after a long card.
pub(super) fn head_lines(approval: &Value, screen: &Screen) -> Vec<String> {
    let names = ["approval", "question", "tool", "arguments", "on"];
    let parts = NAMED.into_iter().filter(|(name, _)| names.contains(name));
    folded(parts.flat_map(|(name, at)| part(approval, name, at, screen)).collect(), screen)
}

/// Replaces the middle of the text in `lines` by how much it is. Returns whether it did.
fn cut_text(lines: &mut Vec<String>) -> bool {
    let Some(start) = lines.iter().position(|line| line.starts_with(TEXT_MARK)) else { return false };
    let count = lines.iter().skip(start).take_while(|line| line.starts_with(TEXT_MARK)).count();
    let Some(left_out) = count.checked_sub(TEXT_HEAD + TEXT_TAIL).filter(|left_out| *left_out > 1) else {
        return false;
    };
    let note =
        format!("  … {left_out} of {count} lines are left out here; the digest above is of all of them");
    lines.splice(start + TEXT_HEAD..start + count - TEXT_TAIL, [note]);
    true
}

/// Folds what is wider than the terminal, so that a card has as many lines as it takes there.
fn folded(lines: Vec<String>, screen: &Screen) -> Vec<String> {
    let Some(columns) = screen.columns else { return lines };
    let fold = |line: String| {
        let mut pieces = fold(&line, columns).into_iter();
        let first = pieces.next().unwrap_or_default();
        let rest = pieces.collect::<String>();
        let rest = if rest.is_empty() {
            Vec::new()
        } else {
            self::fold(&rest, columns.saturating_sub(GOES_ON.len()))
        };
        std::iter::once(first)
            .chain(rest.into_iter().map(|piece| format!("{GOES_ON}{piece}")))
            .collect::<Vec<_>>()
    };
    lines.into_iter().flat_map(fold).collect()
}

/// The lines of one member, and of the parts that follow it.
fn part(approval: &Value, name: &'static str, at: &str, screen: &Screen) -> Vec<String> {
    let mut lines = Vec::new();
    match approval.pointer(at) {
        Some(Value::String(time)) if TIMES.contains(&name) && screen.columns.is_some() => {
            let at = Wall::parse(time);
            lines.push(line(name, &at.map_or_else(|| text::visible_line(time), |at| told(at, screen.now))));
        }
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(Value::Array(items)) if items.is_empty() => {}
        Some(value) => lines.extend(member(name, value)),
    }
    if let Some((_, more)) = AFTER.iter().find(|(after, _)| *after == name) {
        lines.extend(more(approval));
    }
    if name == "sandbox" {
        lines.extend(unknown_lines(approval));
    }
    lines
}

/// The digest that an answer repeats the end of: that of the whole card, or of the call.
pub(super) fn digest(approval: &Value) -> &str {
    let word = |name: &str| approval.get(name).and_then(Value::as_str);
    word("card").or_else(|| word("call_hash")).unwrap_or_default()
}

/// The name of that digest on the card, whose last line it is.
pub(super) fn digest_name(approval: &Value) -> &'static str {
    if approval.get("card").is_some_and(Value::is_string) { "card" } else { "call hash" }
}

/// A member: on one line, or as a block if it is text of several lines or an object of several
/// members.
fn member(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::String(words) if words.trim_end().contains('\n') => {
            let block = words.lines().map(|line| format!("{TEXT_MARK}{}", text::visible_line(line)));
            std::iter::once(name.to_owned()).chain(block).collect()
        }
        Value::Object(members) if !["arguments"].contains(&name) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .flat_map(|(of, value)| member(&format!("{name} {}", text::visible_line(of)), value))
            .collect(),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().map(|item| line(name, &text::visible_line(&item.to_string()))).collect()
        }
        value => vec![line(name, &whole(value, ""))],
    }
}

fn line(name: &str, words: &str) -> String {
    format!("{name:<NAME_CHARS$} {words}").trim_end().to_owned()
}

/// Where the sensitive arguments were found.
fn origin_lines(approval: &Value) -> Vec<String> {
    let told = approval.pointer("/shown/from").and_then(told_origins);
    told.map(|told| line("from", &told)).into_iter().collect()
}

/// The content that the call is given, and what it leaves out.
fn object_lines(approval: &Value) -> Vec<String> {
    let content = approval.get("resource").and_then(describe_content);
    let left_out = each(approval, "/resource/exclusions");
    content
        .map(|words| line("content", &words))
        .into_iter()
        .chain(left_out.map(|one| line("leaves out", &whole(one, "/canonical"))))
        .collect()
}

fn why_lines(approval: &Value) -> Vec<String> {
    let one = |one: &Value| {
        let advice = one.get("advice").and_then(Value::as_str).map(text::visible_line).unwrap_or_default();
        line("why", format!("{} {} {advice}", whole(one, "/policy"), whole(one, "/origin")).trim_end())
    };
    each(approval, "/why").map(one).collect()
}

/// The untrusted data that the run had read.
fn read_lines(approval: &Value) -> Vec<String> {
    let whence = |one: &Value| format!("{} by {}", whole(one, "/resource"), whole(one, "/tool"));
    let all = each(approval, "/shown/taint").map(|one| {
        let (first, newest, count) = (whole(one, "/first"), whole(one, "/newest"), whole(one, "/count"));
        line("has read", &format!("{} ×{count}, entries {first} to {newest}: untrusted", whence(one)))
    });
    let all: Vec<String> = all.collect();
    if !all.is_empty() {
        return all;
    }
    // A request of an earlier version names the newest ones.
    each(approval, "/tainted_by")
        .map(|one| line("has read", &format!("{}, entry {}: untrusted", whence(one), whole(one, "/result"))))
        .collect()
}

/// What a later version says about the call.
fn unknown_lines(approval: &Value) -> Vec<String> {
    let begins =
        |at: &str| NAMED.iter().any(|(_, named)| *named == at || named.starts_with(&format!("{at}/")));
    let unknown = |below: &str, of: &Value, elsewhere: &[&str]| {
        let members = of.as_object().into_iter().flatten();
        let is_new = |name: &str| !elsewhere.contains(&name) && !begins(&format!("{below}/{name}"));
        members
            .filter(|(name, value)| is_new(name) && !value.is_null())
            .flat_map(|(name, value)| member(&text::visible_line(&name.replace('_', " ")), value))
            .collect::<Vec<_>>()
    };
    let mut lines = unknown("", approval, &[ELSEWHERE.as_slice(), &["ledger"]].concat());
    lines.extend(unknown("/shown", approval.get("shown").unwrap_or(&Value::Null), &SHOWN_ELSEWHERE));
    lines
}

fn each<'a>(approval: &'a Value, at: &str) -> impl Iterator<Item = &'a Value> {
    approval.pointer(at).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::{digest, lines, short_lines};
    use crate::cli::table::Screen;
    use crate::types::clock::Wall;
    use serde_json::json;

    #[test]
    fn a_card_shows_every_member_in_the_order_of_reading() {
        let card = lines(
            &json!({
                "id": "apr_1", "state": "pending", "said": "do\u{1b}[2J it", "call_hash": "aa11",
                "card": "bb22", "tool": "deploy",
                "arguments": {"project": "demo"}, "resource": {"id": "demo", "exclusions": [{"canonical": "/x"}]},
                "shown": {"question": "May demo 1.0.0 go live?", "script": {"name": "deploy.sh", "text": "one\ntwo\n"},
                    "sandbox": {"write": ["/srv"]}, "of_later": "a new fact",
                    "from": {"project": "message", "version": "untrusted"},
                    "taint": [{"tool": "read_file", "resource": "/var/log/x", "first": 5, "newest": 7, "count": 2}]},
                "why": [{"policy": "p", "origin": "f:1", "advice": "ask"}], "groups": ["release"],
                "confirm": false,
                "requester": {"principal": "key:ZcTr354w", "who": "ops-ci (ben)", "user": null},
                "tainted_by": [{"tool": "read_file", "resource": "/var/log/x", "result": 7}],
            }),
            &screen(None),
        );
        assert_eq!(
            card.join("\n"),
            "approval   apr_1\n\
             state      pending\n\
             question   May demo 1.0.0 go live?\n\
             tool       deploy\n\
             arguments  {\"project\":\"demo\"}\n\
             from       `project`: from the message; `version`: from an untrusted result\n\
             on         demo\n\
             leaves out /x\n\
             script name deploy.sh\n\
             script text\n  | one\n  | two\n\
             sandbox write [\"/srv\"]\n\
             why        p f:1 ask\n\
             of later   a new fact\n\
             groups     [\"release\"]\n\
             asked by   ops-ci (ben)\n\
             credential key:ZcTr354w\n\
             has read   /var/log/x by read_file ×2, entries 5 to 7: untrusted\n\
             model says do\\u{1b}[2J it\n\
             call hash  aa11\n\
             card       bb22"
        );
    }

    /// The stranger's stumble 27: the script scrolled the call away. A short card leaves out its
    /// middle, and then has no digest to answer with (law L5).
    #[test]
    fn a_short_card_cannot_be_answered_from() {
        let script: String = (1..=80).map(|n| format!("echo line {n}\n")).collect();
        let long = json!({"id": "apr_1", "tool": "deploy", "call_hash": "aa11", "card": "bb22",
            "shown": {"script": {"name": "d.sh", "sha256": "cc33", "text": script}}});
        let whole = lines(&long, &screen(None)).join("\n");
        assert!(whole.contains("line 40\n") && whole.ends_with("card       bb22"), "{whole}");
        let short = short_lines(&long, &screen(Some(80)));
        assert!(short.len() < 25, "{short:?}");
        let short = short.join("\n");
        for part in
            ["sha256 cc33", "| echo line 10\n", "65 of 80 lines are left out", "| echo line 80", "--full"]
        {
            assert!(short.contains(part), "{part}: {short}");
        }
        for not in ["line 11\n", "line 75\n", "aa11", "bb22"] {
            assert!(!short.contains(not), "{not}: {short}");
        }
        // Nothing is left out of a short script, so the digests stay.
        let few = json!({"card": "bb22", "shown": {"script": {"text": "one\ntwo\n"}}});
        assert_eq!(short_lines(&few, &screen(Some(80))), lines(&few, &screen(Some(80))));
    }

    /// Lines of a script are folded, and no character is lost.
    #[test]
    fn a_card_is_as_wide_as_the_terminal() {
        let card = json!({"shown": {"script": {"text": format!("a{}b\nshort\n", " ".repeat(90))}}});
        let shown = lines(&card, &screen(Some(40)));
        assert!(shown.iter().all(|line| line.len() <= 40), "{shown:?}");
        let text: String = shown.iter().skip(1).map(|line| line.get(4..).unwrap_or_default()).collect();
        assert_eq!(text, format!("a{}bshort", " ".repeat(90)));
    }

    fn screen(columns: Option<usize>) -> Screen {
        Screen {
            columns,
            is_colored: false,
            now: Wall::parse("2026-11-24T11:00:00.000000Z").expect("a time"),
        }
    }

    /// A list said `in 14 min`, and the card said microseconds of UTC.
    #[test]
    fn a_person_reads_how_long_is_left_and_a_program_the_exact_time() {
        let card = json!({"id": "apr_1", "expires": "2026-11-24T11:14:00.000000Z"});
        let shown = lines(&card, &screen(Some(80))).join("\n");
        assert!(shown.contains("expires ") && shown.ends_with(", in 14 min"), "{shown}");
        let exact = lines(&card, &screen(None)).join("\n");
        assert!(exact.ends_with("2026-11-24T11:14:00.000000Z"), "{exact}");
    }

    #[test]
    fn the_digest_is_of_the_whole_card_if_it_has_one() {
        assert_eq!(digest(&json!({"card": "bb22", "call_hash": "aa11"})), "bb22");
        assert_eq!(digest(&json!({"call_hash": "aa11"})), "aa11");
    }
}
