//! A model on a server: everything that does not depend on the protocol.
//!
//! A [`Wire`](wire::Wire) encodes and decodes one protocol, and has no socket, no clock and no key.
//! This module has the settings, the retries, the deadline, the identifiers of calls and the
//! reports of failures, the same for every protocol.
//!
//! # Layout
//!
//! * `wire`: the interface of a protocol. `answer`: what it reads, made into a reply.
//! * `frames`: divides a stream. `partial`: a reply that comes as one. `streaming`: its secrets and
//!   its bytes.
//! * `retry`: when to try again. `client`: a provider over the network.

pub(super) mod answer;
mod retry;
pub(super) mod frames;
pub(super) mod wire;
pub(super) mod partial;
mod streaming;
pub(super) mod client;
