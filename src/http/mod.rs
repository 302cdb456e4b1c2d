//! The HTTP surface and the admin socket.
//!
//! Requests become calls of the rooms below, and their results become a status code, a body or a
//! page. Nothing here decides whether an operation is permitted, starts a process, or makes an
//! entry of its own. Each request shows a key or a login, and the gate is asked for the power that
//! it uses.
//!
//! Invariants: only this room knows status codes. A principal comes out of a request only together
//! with the power that it will use (`auth::Caller`).
//!
//! # Layout
//!
//! Lowest first.
//!
//! * `problem`: every error
//! * `blocking`, `bounds`, `ready`, `answered`, `link`: shared by endpoints
//! * `connections`: which connection is closed when there are too many
//! * `app`: the state that every endpoint uses
//! * `middleware`: wraps every request (id, host, panics, headers)
//! * `auth`: authentication
//! * `body`: reads JSON
//! * `stream`: streams of events
//! * `api/`: the endpoints of the API
//! * `ui/`: the dashboard
//! * `routes`: paths of the API
//! * `server`: accepts connections
//! * `host_socket`: a socket for users of this host
//! * `ask`: the socket for users of this host who ask
//! * `admin/`: the socket for users of this host who manage and answer

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
mod host_socket;
mod ask;
pub mod admin;
#[cfg(any(test, fuzzing))]
pub(crate) mod borders;
#[cfg(test)]
mod tests;

pub use answered::Answered;
pub use app::{App, Exports};
pub use ask::{AskSocket, socket_path as ask_socket_path};
pub use bounds::Bounds;
pub use ready::Ready;
pub use server::serve;
