//! Asking a server over HTTP with the caller's own key: the one that runs for a home, or any by its address.
//!
//! Here a log that was met before has to go on from what this caller has seen of it, before a run is sent to
//! its server.
//!
//! # Layout
//!
//! `known`: the logs that a caller knows · `server`: a server, asked · `meet`: a server held to what is
//! known.

pub(super) mod known;
mod server;
mod meet;

pub(super) use server::{Server, post, url};
