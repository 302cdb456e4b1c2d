//! A synchronous D-Bus client for one call's child: it is given a connected socket, says who it is
//! by the socket's credentials, calls methods and reads their replies.
//!
//! It needs no runtime and no thread. Whatever comes from the bus is bounded in size, depth and
//! number of values before anything is kept of it.
//!
//! # Layout
//!
//! * `error`: why a call over the bus failed.
//! * `signature`, `values`: types and values (D-Bus specification, "Type System").
//! * `message`: a message as bytes.
//! * `client`: the connection.
//! * `systemd`: what systemd's manager is asked.

mod error;
mod signature;
mod values;
mod message;
mod client;
mod systemd;
#[cfg(test)]
mod tests;

pub use client::BusClient;
pub use error::BusError;
pub(super) use systemd::{Systemd, UnitRow};
pub(super) use values::BusValue;
