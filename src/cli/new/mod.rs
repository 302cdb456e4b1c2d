//! New files of `etc/`: tools and rules that a person adds with a command.
//!
//! The person's own process writes them, never a server. A file is written next to its place and
//! renamed, and no file is overwritten. What was added is loaded as a start would load it; if that
//! fails, or the new cases do not hold, everything is taken back.
//!
//! # Layout
//!
//! * `added`: writes files, and takes them back
//! * `place`: a file or folder of this host
//! * `care`: what to know about a tool before it is used
//! * `case`: a case of the policies' own tests
//! * `proposal`: adds a rule with its cases, and checks it
//! * `argument`: the arguments of a new tool, and what its calls are about
//! * `program`: what a program needs
//! * `tool`: `par tool new`
//! * `parts`: the parts of a file that are about one tool
//! * `switch`: `par tool enable` and `disable`

mod added;
mod place;
mod care;
mod case;
mod proposal;
mod argument;
mod program;
mod tool;
mod parts;
mod switch;

pub(super) use added::Added;
pub(super) use case::{NewCase, covered, in_shell, text, words};
pub(super) use place::FoundPlace;
pub(super) use proposal::Proposal;
pub(super) use switch::{SwitchedTool, disable, enable, reading_tools_off};
pub(super) use tool::NewTool;
