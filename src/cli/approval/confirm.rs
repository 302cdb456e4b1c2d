//! The confirmation of an approval: the end of the card's digest, typed after the card was shown.

use crate::cli::exit::Fail;
use std::io::{IsTerminal as _, Write as _};

/// How many characters of the digest are typed.
const TYPED_CHARS: usize = 4;

/// The characters of `digest` that a confirmation repeats.
pub(super) fn expected(digest: &str) -> &str {
    digest.get(digest.len().saturating_sub(TYPED_CHARS)..).unwrap_or_default()
}

/// Checks `--card`.
pub(super) fn check(given: &str, digest: &str) -> Result<(), Fail> {
    if is_right(given, digest) {
        return Ok(());
    }
    Err(Fail::failed(
        "not approved: `--card` must be the last four characters of the digest that `par approval show` \
         prints for this approval",
    ))
}

/// Asks on the terminal. Without a terminal this is an error. What was typed before the card was
/// shown is discarded.
pub(super) fn ask(digest: &str) -> Result<bool, Fail> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Fail::usage(
            "a confirmation needs a terminal; without one, read the call with `par approval show`, then add \
             `--card` with the last four characters of its digest",
        ));
    }
    rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush).map_err(Fail::failed)?;
    eprint!("To approve this call, type the last four characters of the digest above: ");
    std::io::stderr().flush().map_err(Fail::failed)?;
    let mut typed = String::new();
    stdin.read_line(&mut typed).map_err(Fail::failed)?;
    Ok(is_right(typed.trim(), digest))
}

fn is_right(typed: &str, digest: &str) -> bool {
    let expected = expected(digest);
    expected.len() == TYPED_CHARS && typed.eq_ignore_ascii_case(expected)
}

#[cfg(test)]
mod tests {
    use super::is_right;

    #[test]
    fn only_the_end_of_the_digest_confirms() {
        for (typed, expect) in
            [("cdef", true), ("CDEF", true), ("", false), ("y", false), ("abcd", false), ("abcdef", false)]
        {
            assert_eq!(is_right(typed, "0123abcdef"), expect, "{typed}");
        }
        assert!(!is_right("", ""), "without a digest nothing confirms");
    }
}
