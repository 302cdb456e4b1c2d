//! The card: what a person is shown about a call, in addition to the call itself, and the digest
//! that an answer repeats.
//!
//! The payload of an `approval.request` is the card. Its digest covers every other member, so an
//! answer is to all that was shown.

use super::context::CallContext;
use super::mint::asked::Asked;
use super::pending::Pending;
use super::point::Gate;
use crate::ledger::payload::{ApprovalRequestPayload, ShownCall, ShownSandbox, ShownScript, TaintRange};
use crate::policy::TaintSource;
use crate::secrets::Secrets;
use crate::tools::{CodeTree, Manifest, Runner, Script};
use crate::types::{Digest, json, limits, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is shown of a call that `manifest` would run; `None` if its script is too long to be shown,
/// and so for a person to agree to.
pub(super) fn shown(context: &CallContext<'_>, manifest: &Manifest, secrets: &Secrets) -> Option<ShownCall> {
    let script = match manifest.script() {
        Some(script) if script.bytes().len() > limits::APPROVAL_SCRIPT_BYTES_MAX => return None,
        script => script.map(|script| shown_script(script, secrets)),
    };
    Some(ShownCall {
        question: text::visible(text::prefix(context.message, limits::APPROVAL_QUESTION_BYTES_MAX)),
        channel: context.channel,
        program: match &manifest.runner {
            Runner::Builtin(_) | Runner::Front(_) => None,
            Runner::Program(program) => Some(path(&program.path)),
        },
        script,
        risk: manifest.risk.as_str().to_owned(),
        sandbox: sandbox(manifest),
        taint: ranges(&context.session.tainted_by),
    })
}

/// The payload with its digest; `None` if it has no canonical form.
pub(super) fn sealed(payload: ApprovalRequestPayload) -> Option<ApprovalRequestPayload> {
    let card = digest(&payload)?;
    Some(ApprovalRequestPayload { card: Some(card), ..payload })
}

/// SHA-256 over the canonical JSON of every member but `card`.
pub(super) fn digest(payload: &ApprovalRequestPayload) -> Option<Digest> {
    let mut members = serde_json::to_value(payload).ok()?;
    members.as_object_mut()?.remove("card");
    json::canonical(&members).ok().map(|text| Digest::sha256(text.as_bytes()))
}

fn shown_script(script: &Script, secrets: &Secrets) -> ShownScript {
    let words = secrets.clean(String::from_utf8_lossy(script.bytes()).into_owned());
    ShownScript { name: script.name().to_owned(), sha256: script.digest(), text: text::visible(&words) }
}

fn sandbox(manifest: &Manifest) -> ShownSandbox {
    let limits = &manifest.limits;
    let bounds = [
        ("wall_ms_max", limits.wall_ms_max),
        ("output_bytes_max", limits.output_bytes_max as u64),
        ("memory_bytes_max", limits.memory_bytes_max),
        ("processes_max", limits.processes_max),
        ("file_bytes_max", limits.file_bytes_max),
        ("network_bytes_max", limits.network_bytes_max),
        ("written_bytes_max", limits.written_bytes_max),
        ("written_files_max", limits.written_files_max),
    ];
    ShownSandbox {
        read: manifest
            .read
            .iter()
            .map(PathBuf::as_path)
            .chain(manifest.trees.iter().map(CodeTree::path))
            .map(path)
            .collect(),
        write: manifest.write.iter().map(|root| path(&root.folder)).collect(),
        connect: manifest.connect.iter().map(ToString::to_string).chain(manifest.reach.entries()).collect(),
        secrets: manifest.secrets.clone(),
        limits: bounds.into_iter().map(|(name, bound)| (name.to_owned(), bound)).collect(),
    }
}

fn path(path: &Path) -> String {
    text::visible_line(&path.to_string_lossy())
}

/// Every source of taint, in the order in which it was first read.
fn ranges(tainted_by: &[TaintSource]) -> Vec<TaintRange> {
    let mut ranges: Vec<TaintRange> = Vec::new();
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in tainted_by {
        let place = *places.entry((&one.tool, &one.resource)).or_insert(ranges.len());
        match ranges.get_mut(place) {
            Some(range) => {
                range.newest = one.result;
                range.count += 1;
            }
            None => ranges.push(TaintRange {
                tool: one.tool.clone(),
                resource: one.resource.clone(),
                first: one.result,
                newest: one.result,
                count: 1,
            }),
        }
    }
    ranges
}

impl Gate {
    /// Whether the call of `pending` shows what a person was shown when it was asked about. What
    /// differs between two requests for one call is left out: identifier, expiry, and the policies
    /// that ask, which are compared as gates.
    pub(super) fn shows_same(&self, context: &CallContext<'_>, pending: &Pending, asked: &Asked) -> bool {
        // A request of an earlier version shows less. Its `call_hash` covers the call.
        let Some(before) = &asked.requested().shown else { return true };
        shown(context, pending.manifest(), self.secrets()).as_ref() == Some(before)
    }
}

/// The members of the card in the form that readers get; null for a request of an earlier version.
pub(super) fn view(shown: Option<&ShownCall>) -> Value {
    shown.map_or(Value::Null, |shown| serde_json::json!(shown))
}
