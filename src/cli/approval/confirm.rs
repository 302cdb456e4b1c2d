//! The confirmation of an approval: the end of the card's digest, typed after the card was shown.

use super::card;
use crate::cli::exit::Fail;
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};

/// How many characters of the digest are typed.
const TYPED_CHARS: usize = 4;

/// The characters of `digest` that a confirmation repeats.
pub(super) fn expected(digest: &str) -> &str {
    digest.get(digest.len().saturating_sub(TYPED_CHARS)..).unwrap_or_default()
}

/// Checks `--card`.
pub(super) fn check(given: &str, approval: &Value) -> Result<(), Fail> {
    if is_right(given, card::digest(approval)) {
        return Ok(());
    }
    let name = card::digest_name(approval);
    Err(Fail::failed(format!(
        "{}: `--card` takes the end of `{name}`, which `par approval show` prints last for this approval",
        not_approved(given, approval)
    )))
}

/// Asks on the terminal. Without a terminal this is an error. What was typed before the card was
/// shown is discarded.
pub(super) fn ask(approval: &Value) -> Result<(), Fail> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Fail::usage(
            "a confirmation needs a terminal; without one, read the call with `par approval show`, then add \
             `--card` with the last four characters of its digest",
        ));
    }
    rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush).map_err(Fail::failed)?;
    let name = card::digest_name(approval);
    eprint!("To approve this call, type the last four characters of `{name}`, the last line of the card: ");
    std::io::stderr().flush().map_err(Fail::failed)?;
    let mut typed = String::new();
    stdin.read_line(&mut typed).map_err(Fail::failed)?;
    if is_right(typed.trim(), card::digest(approval)) {
        return Ok(());
    }
    Err(Fail::failed(format!(
        "{}: to try again, run the command again",
        not_approved(typed.trim(), approval)
    )))
}

/// Why what was typed does not confirm.
fn not_approved(typed: &str, approval: &Value) -> String {
    let name = card::digest_name(approval);
    let call_hash = approval.get("call_hash").and_then(Value::as_str).unwrap_or_default();
    if name == "card" && is_right(typed, call_hash) {
        return "not approved: this is the end of `call hash`, and the last four characters of `card` are needed"
            .to_owned();
    }
    format!("not approved: these are not the last four characters of `{name}`")
}

fn is_right(typed: &str, digest: &str) -> bool {
    let expected = expected(digest);
    expected.len() == TYPED_CHARS && typed.eq_ignore_ascii_case(expected)
}

#[cfg(test)]
mod tests {
    use super::{is_right, not_approved};
    use serde_json::json;

    #[test]
    fn only_the_end_of_the_digest_confirms() {
        for (typed, expect) in
            [("cdef", true), ("CDEF", true), ("", false), ("y", false), ("abcd", false), ("abcdef", false)]
        {
            assert_eq!(is_right(typed, "0123abcdef"), expect, "{typed}");
        }
        assert!(!is_right("", ""), "without a digest nothing confirms");
    }

    /// Two digests stand on a card. Which one is meant, and which one was typed, is said.
    #[test]
    fn the_end_of_the_other_digest_is_named() {
        let approval = json!({ "card": "00bb22", "call_hash": "00aa11" });
        assert!(not_approved("aa11", &approval).contains("this is the end of `call hash`"));
        assert!(not_approved("xxxx", &approval).ends_with("the last four characters of `card`"));
        let earlier = json!({ "call_hash": "00aa11" });
        assert!(not_approved("xxxx", &earlier).ends_with("the last four characters of `call hash`"));
    }
}
