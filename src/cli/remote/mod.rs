//! Calls a server over HTTP with the caller's own key: the server of a home, or any server by its
//! address.
//!
//! Before a run is sent, the server's log must extend what this caller has seen of it.
//!
//! # Layout
//!
//! * `known`: the logs that a caller knows
//! * `server`: requests to a server; `live_run`: a run, as it happens
//! * `home`: the server of a home
//! * `managed`: the runs of all users
//! * `check`: checks a server's log against the known one

pub(super) mod known;
mod server;
mod live_run;
mod home;
mod check;
pub(super) mod managed;

pub(super) use home::{HomeServer, url};
pub(super) use server::{Server, post};
