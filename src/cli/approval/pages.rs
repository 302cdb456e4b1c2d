//! Shows a card that is longer than the terminal, page by page.
//!
//! Only a person who was shown all of it can answer: the question for the digest comes after the
//! last page, and each page waits for a key that was typed after the page was shown.

use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::terminal_rows;
use std::io::{IsTerminal as _, Write as _};

/// Shows `lines`. If they take several pages, `again` is shown after the last one, so that what is
/// asked stands next to the question.
pub(super) fn show(lines: &[String], again: &[String]) -> Result<(), Fail> {
    let is_asked = std::io::stdin().is_terminal();
    let Some(rows) = terminal_rows().filter(|rows| is_asked && lines.len() >= *rows) else {
        return lines.iter().try_for_each(|line| show::line(line));
    };
    let page = rows.saturating_sub(2).max(1);
    for (at, part) in lines.chunks(page).enumerate() {
        part.iter().try_for_each(|line| show::line(line))?;
        let (first, last) = (at * page + 1, at * page + part.len());
        if last < lines.len() && !goes_on(first, last, lines.len())? {
            return Err(Fail::failed("not approved: the card was not shown to its end"));
        }
    }
    show::line("")?;
    again.iter().try_for_each(|line| show::line(line))
}

/// Waits for Enter. What was typed before the page was shown is discarded.
fn goes_on(first: usize, last: usize, all: usize) -> Result<bool, Fail> {
    let stdin = std::io::stdin();
    rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush).map_err(Fail::failed)?;
    eprint!("lines {first} to {last} of {all}: Enter shows more, q ends ");
    std::io::stderr().flush().map_err(Fail::failed)?;
    let mut typed = String::new();
    let read = stdin.read_line(&mut typed).map_err(Fail::failed)?;
    Ok(read > 0 && typed.trim().is_empty())
}
