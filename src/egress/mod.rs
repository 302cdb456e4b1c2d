//! Every outbound socket.
//!
//! Today that is the HTTP client of the model's provider ([`Client`]). What belongs here next: the
//! address rules and the resolver that checks each address against them, the descriptors that are
//! connected for a tool before it starts, and the CONNECT proxy. No other room opens a connection.
//!
//! Architecture invariant: the model's client goes where the configuration says, never where a model
//! or a server's redirect says, and reads no proxy from the environment.

mod client;
mod endpoint;
mod error;
#[cfg(test)]
mod tls;

pub use client::{Ask, Client, Credential, Response};
pub use endpoint::Endpoint;
pub use error::EgressError;
