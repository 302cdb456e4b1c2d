//! From policy files to a [`Bundle`](bundle::Bundle), all or nothing.
//!
//! Files come as text, so nothing here reads a disk. A policy that Cedar takes but that can err or mislead is refused
//! with its line. Nothing here evaluates a policy: `policy/canary.rs` does, before a bundle leaves the room.
//!
//! # Layout
//!
//! `origin`, `error`: where something stands, and what is wrong there · `parse`, `links`: policies and linked templates
//! · `paths`, `labels`: what they name · `scope`: what a policy can meet · `mode`: shadow mode · `powers`, `schema`: what
//! is built in · `lint/`, `validate`: what is refused · `slice`, `offer_index`: policies by what they can meet ·
//! `suite/`: their tests · `recipe`, `archive`: what a bundle is made from, and made again from · `bundle`.

pub(super) mod origin;
pub(super) mod error;
pub(super) mod links;
pub(super) mod parse;
pub(super) mod paths;
pub(super) mod labels;
pub(super) mod scope;
pub(super) mod mode;
pub(super) mod powers;
pub(super) mod schema;
pub(super) mod lint;
pub(super) mod validate;
pub(super) mod slice;
pub(super) mod offer_index;
pub(super) mod suite;
pub(super) mod recipe;
pub(super) mod bundle;
pub(super) mod archive;
