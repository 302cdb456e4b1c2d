//! Every outbound connection: for the model, and for tools.
//!
//! For the model it is an HTTP client ([`Client`]). For a tool it is a connection that is made before the tool sees it
//! ([`connect()`], or [`resolve`] and then [`Checked::connect`] for who records in between), or the CONNECT proxy of
//! its call ([`proxy::serve`]). Both look a name up once, hold every address that comes back against one table
//! ([`check`]), and connect to what was checked. No other room opens a connection or looks a name up.
//!
//! Architecture invariants: the model's client goes where the configuration says, never where a model or a server's
//! redirect says, and reads no proxy from the environment. A tool is connected to a [`HostPort`](crate::types::HostPort)
//! that its permit lists, never to a text that it wrote. No byte passes the proxy before the connection is on record.

mod error;
mod address;
mod endpoint;
mod client;
mod connect;
pub mod proxy;
#[cfg(test)]
mod tests;

pub use address::{Forbidden, check};
pub use client::{Client, Credential, HttpRequest, Response};
pub use connect::{Checked, ConnectError, Connected, connect, resolve};
pub use endpoint::Endpoint;
pub use error::EgressError;
pub use ipnet::IpNet;
