//! Every outbound connection, for the model and for tools.
//!
//! For the model there is an HTTP client, [`Client`]. For a tool there is a connection made before
//! the tool sees it ([`connect()`], or [`resolve`] and then [`Checked::connect`] for a caller that
//! records in between), or the CONNECT proxy of its call ([`proxy::serve`]). Both look a name up
//! once, check every address in the answer against one table ([`check`]), and connect to an address
//! that was checked.
//!
//! Invariants: no other room opens a connection or looks a name up. The model's client connects
//! only to the configured server and to addresses that were checked, never where a model or a
//! redirect points, and reads no proxy from the environment. A tool is connected only to a
//! [`HostPort`](crate::types::HostPort) that its permit lists, never to text that it wrote. No byte
//! passes the proxy before the connection is on record.
//!
//! # Layout
//!
//! * `address`: the table of permitted and forbidden addresses.
//! * `client`: the HTTP client for providers of models. `endpoint`: a server's URL. `dns`: the
//!   resolver that checks. `waits`: deadlines. `error`: why a request got no answer.
//! * `connect`: resolves, checks and connects for tools.
//! * `proxy`: the CONNECT proxy of one call.

mod address;
mod connect;
mod error;
mod endpoint;
mod dns;
mod waits;
mod client;
pub mod proxy;
#[cfg(test)]
mod tests;

pub use address::{Forbidden, check};
pub use client::{Client, Credential, HttpRequest, Response, Way};
pub use connect::{Checked, ConnectError, Connected, connect, resolve};
pub use endpoint::Endpoint;
pub use error::{EgressError, Wait};
pub use ipnet::IpNet;
