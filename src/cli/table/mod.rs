//! Tables, words and times for people: as wide as the terminal, with colour where it helps.
//!
//! A pipe gets every value whole, in aligned columns without colour, and times in UTC. A terminal
//! gets what fits: paths lose their middle, sentences continue under their column, and a table that
//! is still too wide becomes one block of lines for each row.
//!
//! # Layout
//!
//! * `width`: widths of text, cut and wrapped to fit
//! * `when`: times in the local time zone, and how long ago they were
//! * `tone`: the colour of an outcome
//! * `screen`: what standard output is connected to
//! * `fit`: the widths of columns
//! * `draw`: tables

mod width;
mod when;
mod tone;
mod screen;
mod fit;
mod draw;

pub(super) use draw::{Cell, Column, Sheet, words};
pub(super) use screen::Screen;
pub(super) use tone::Tone;
pub(super) use when::{span, told};
pub(super) use width::{fold, width, wrap};
