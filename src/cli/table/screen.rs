//! What standard output is connected to.

use super::tone::Tone;
use crate::config::{is_color_wanted, terminal_columns};
use crate::types::clock::Wall;

/// A terminal of a certain width, or a pipe or file.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Screen {
    /// The columns of the terminal; `None` for a pipe or a file.
    pub(in crate::cli) columns: Option<usize>,
    pub(in crate::cli) is_colored: bool,
    /// The time that others are compared with.
    pub(in crate::cli) now: Wall,
}

impl Screen {
    pub(in crate::cli) fn stdout() -> Self {
        Self { columns: terminal_columns(), is_colored: is_color_wanted(), now: Wall::now() }
    }

    /// `text` in the colour of `tone`, if colours are wanted.
    pub(in crate::cli) fn paint(&self, tone: Tone, text: &str) -> String {
        match tone.code().filter(|_| self.is_colored && !text.is_empty()) {
            Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            None => text.to_owned(),
        }
    }
}
