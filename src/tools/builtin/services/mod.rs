//! Tools that ask systemd, over the system bus.
//!
//! What systemd says of a unit is a closed list of members: never its environment, its command
//! line or its description. A unit has one name: an alias is refused with the name that the rules
//! decide on.
//!
//! # Layout
//!
//! * `asked`: the question, with what is left out of a list.
//! * `unit`: names of units, and how their states are written.
//! * The tools, each in a file with its name, and `ask`, which runs one.

mod asked;
mod unit;
mod service_list;
mod service_status;
mod failed_units;
mod timer_list;
mod service_restart;
mod ask;
#[cfg(test)]
mod tests;

pub use ask::{Told, ask_systemd};
pub use asked::UnitsAsked;
pub use failed_units::count_failed;
