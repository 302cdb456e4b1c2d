//! Questions on the terminal.

use crate::cli::exit::Fail;
use crate::types::{limits, text};
use std::io::{self, Write as _};

/// The answer to a question, without white space around it. The end of the input is an empty one.
pub(super) fn answer(question: &str) -> Result<String, Fail> {
    eprint!("{question} ");
    io::stderr().flush().map_err(Fail::failed)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Fail::failed)?;
    Ok(answer.trim().to_owned())
}

/// The error for an answer that is not one of `expected`.
pub(super) fn unknown(answer: &str, expected: &str) -> Fail {
    let answer = text::visible_line(text::prefix(answer, limits::SHOWN_BYTES_MAX));
    Fail::usage(format!("unknown answer `{answer}`, expected {expected}"))
}

/// Asks until the answer is a yes or a no; an empty answer is a no.
pub(super) fn is_yes(question: &str) -> Result<bool, Fail> {
    loop {
        match answer(&format!("{question} [y/N]"))?.as_str() {
            "y" | "yes" | "Y" => return Ok(true),
            "n" | "no" | "N" | "" => return Ok(false),
            other => eprintln!("{}", unknown(other, "y or n")),
        }
    }
}
