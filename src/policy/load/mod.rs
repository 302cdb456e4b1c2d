//! From policy files to a [`Bundle`](bundle::Bundle), all or nothing.
//!
//! Files come as text, so nothing here reads a disk. A policy that Cedar accepts but that can err
//! or mislead is refused with its line. Nothing here evaluates a policy: `policy/canary.rs` does,
//! before a bundle leaves the room.
//!
//! # Layout
//!
//! * `origin`, `error`: the place of a policy, and an error at a place.
//! * `links`, `parse`: linked templates and policies.
//! * `paths`, `labels`: the paths that policies name, and the labels of entities.
//! * `scope`, `mode`, `annotations`: what a policy can match, shadow mode, and annotations.
//! * `powers`, `built_in`, `schema`: the built-in policies and the schema.
//! * `lint/`, `validate`: what is refused.
//! * `slice`, `offer_index`: policies by what they can match.
//! * `suite/`: the bundle's own tests, parsed.
//! * `recipe`, `bundle`, `archive`: what a bundle is made from, the bundle, and its stored form.
//! * `named`: what a bundle names, for notes.

pub(super) mod origin;
pub(super) mod error;
pub(super) mod links;
pub(super) mod parse;
pub(super) mod paths;
pub(super) mod labels;
pub(super) mod scope;
pub(super) mod mode;
pub(super) mod annotations;
pub(super) mod powers;
pub(super) mod built_in;
pub(super) mod schema;
pub(super) mod lint;
pub(super) mod validate;
pub(super) mod slice;
pub(super) mod offer_index;
pub(super) mod suite;
pub(super) mod recipe;
pub(super) mod bundle;
pub(super) mod named;
pub(super) mod archive;
