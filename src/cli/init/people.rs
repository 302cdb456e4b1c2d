//! Who there is to say yes.

use crate::cli::exit::Fail;
use crate::types::{limits, text};
use clap::ValueEnum;
use std::io::{self, Write as _};

/// Who there is to say yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum People {
    /// Whoever asked confirms, outside the run
    One,
    /// Another user of a group approves
    Several,
}

impl People {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Several => "several",
        }
    }

    /// Asked on a terminal. What is no answer makes no home.
    pub(super) fn ask() -> Result<Self, Fail> {
        eprint!("Will one person use this, or several? With several, another one approves. [one/SEVERAL] ");
        io::stderr().flush().map_err(Fail::failed)?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(Fail::failed)?;
        match answer.trim() {
            "one" | "o" | "1" => Ok(Self::One),
            "several" | "s" | "" => Ok(Self::Several),
            other => {
                let other = text::visible_line(text::prefix(other, limits::SHOWN_BYTES_MAX));
                Err(Fail::usage(format!("`{other}` is neither `one` nor `several`")))
            }
        }
    }
}
