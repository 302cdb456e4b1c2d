//! The HTTP surface and the admin socket.
//!
//! Here requests become calls of the rooms below, and what those return becomes a status code, a body or a page. Nothing
//! here decides whether something may be done, starts a process, or makes an entry of its own: each request shows a key
//! or a login, and the gate is asked for the power that it uses.
//!
//! # Layout
//!
//! Lowest first. `problem` is every error; `blocking`, `bounds`, `ready`, `answered`, `link` are what endpoints share;
//! `connections` says which connection ends when there are too many; `app` is what every endpoint answers from;
//! `middleware` is around every request (id, host, panics, headers); `auth` who asks; `body` reads JSON; `stream` is what
//! streams of events are made of. `api` holds the endpoints, `ui` the dashboard, `routes` their paths; `server` accepts
//! connections. `admin` is the socket for the host's own users.
//!
//! Architecture invariants: only this room knows status codes; a principal comes out of a request only
//! together with the power that it is to use (`auth::Caller`).

mod problem;
mod blocking;
mod bounds;
mod ready;
mod answered;
mod link;
mod connections;
mod app;
mod middleware;
mod auth;
mod body;
mod stream;
mod api;
mod ui;
mod routes;
mod server;
pub mod admin;
#[cfg(any(test, fuzzing))]
pub(crate) mod borders;
#[cfg(test)]
mod tests;

pub use answered::Answered;
pub use app::{App, Exports};
pub use bounds::Bounds;
pub use ready::Ready;
pub use server::serve;
