//! The card: what a person is shown about a call, in addition to the call itself, and the digest
//! that an answer repeats.
//!
//! The payload of an `approval.request` is the card. Its digest covers every other member, so an
//! answer is to all that was shown.

use super::context::CallContext;
use super::mint::asked::Asked;
use super::pending::Pending;
use super::point::Gate;
use super::refusal::Obstacle;
use crate::ledger::payload::{
    ApprovalRequestPayload, ApprovalSubject, ObjectFound, ShownCall, ShownSandbox, ShownScript, TaintRange,
};
use crate::policy::TaintSource;
use crate::secrets::Secrets;
use crate::tools::{CodeTree, Manifest, Program, Runner, Script, WriteRoot};
use crate::types::{Digest, RefusalClass, json, limits, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is shown of a call on `subject`; `None` if its script is too long to be shown, and so for a
/// person to agree to, or if it has no command line.
pub(super) fn shown(
    context: &CallContext<'_>,
    pending: &Pending,
    subject: &ApprovalSubject,
    secrets: &Secrets,
) -> Option<ShownCall> {
    let manifest = pending.manifest();
    let script = match manifest.script() {
        Some(script) if script.bytes().len() > limits::APPROVAL_SCRIPT_BYTES_MAX => return None,
        script => script.map(|script| shown_script(script, secrets)),
    };
    Some(ShownCall {
        question: text::visible(text::prefix(context.message, limits::APPROVAL_QUESTION_BYTES_MAX)),
        channel: context.channel,
        summary: Some(text::visible_line(&manifest.summary)),
        program: program(manifest).map(|program| path(&program.path)),
        command: match program(manifest) {
            Some(program) => Some(words(command(program, pending, &subject.object).ok()?, secrets)),
            None => None,
        },
        script,
        risk: manifest.risk.as_str().to_owned(),
        sandbox: sandbox(manifest, subject),
        from: context
            .origins(&pending.valid)
            .map(|found| found.members().clone())
            .filter(|all| !all.is_empty()),
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

/// Each word on one line, with secrets replaced.
fn words(command: Vec<String>, secrets: &Secrets) -> Vec<String> {
    let cleaned = secrets.clean(command);
    cleaned.iter().map(|word| text::visible_line(word)).collect()
}

fn shown_script(script: &Script, secrets: &Secrets) -> ShownScript {
    let words = secrets.clean(String::from_utf8_lossy(script.bytes()).into_owned());
    ShownScript { name: script.name().to_owned(), sha256: script.digest(), text: text::visible(&words) }
}

fn program(manifest: &Manifest) -> Option<&Program> {
    match &manifest.runner {
        Runner::Builtin(_) | Runner::Front(_) => None,
        Runner::Program(program) => Some(program),
    }
}

/// The command line of the call, in the words that the launcher uses.
fn command(program: &Program, pending: &Pending, object: &ObjectFound) -> Result<Vec<String>, String> {
    let canonical = match object {
        ObjectFound::Path { canonical, .. } => Some(canonical.clone()),
        ObjectFound::Absent { folder, rest } => Some(format!("{}/{rest}", folder.trim_end_matches('/'))),
        _ => None,
    };
    let script = program.script.as_ref().map(|script| script.name().to_owned());
    program.words(script, &pending.manifest().resource, pending.valid.arguments(), canonical.as_deref())
}

/// Why no program can be started with the arguments of this call; `None` if one can be.
pub(super) fn obstacle(pending: &Pending, exact: &Value) -> Option<Obstacle> {
    let reason = command(program(pending.manifest())?, pending, &subject(exact)?.object).err()?;
    Some(Obstacle::new(RefusalClass::Schema, reason))
}

fn sandbox(manifest: &Manifest, subject: &ApprovalSubject) -> ShownSandbox {
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
        write: manifest.write.iter().map(|root| path(&folder(root, subject))).collect(),
        exec: program(manifest).map(|program| program.exec.iter().map(|one| path(one)).collect()),
        connect: manifest.connect.iter().map(ToString::to_string).chain(manifest.reach.entries()).collect(),
        secrets: manifest.secrets.clone(),
        limits: bounds.into_iter().map(|(name, bound)| (name.to_owned(), bound)).collect(),
    }
}

/// The folder that this call may change: one root may hold a folder for each resource.
fn folder(root: &WriteRoot, subject: &ApprovalSubject) -> PathBuf {
    if root.by_id { root.folder.join(&subject.id) } else { root.folder.clone() }
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
    pub(super) fn shows_same(
        &self,
        context: &CallContext<'_>,
        pending: &Pending,
        exact: &Value,
        asked: &Asked,
    ) -> bool {
        // A request of an earlier version shows less. Its `call_hash` covers the call.
        let Some(before) = &asked.requested().shown else { return true };
        let Some(subject) = subject(exact) else { return false };
        let now = shown(context, pending, &subject, self.secrets());
        let now = now.map(|now| if before.summary.is_some() { now } else { as_before(now, pending) });
        // Earlier versions did not show where arguments came from.
        let now = now.map(|now| if before.from.is_some() { now } else { ShownCall { from: None, ..now } });
        now.as_ref() == Some(before)
    }
}

/// What a person would be shown of this call by the versions that did not show its command line.
fn as_before(now: ShownCall, pending: &Pending) -> ShownCall {
    let write = pending.manifest().write.iter().map(|root| path(&root.folder)).collect();
    let sandbox = ShownSandbox { write, exec: None, ..now.sandbox };
    ShownCall { summary: None, command: None, sandbox, ..now }
}

/// The resource of the exact call.
pub(super) fn subject(exact: &Value) -> Option<ApprovalSubject> {
    serde_json::from_value(exact.get("resource")?.clone()).ok()
}

/// The members of the card in the form that readers get; null for a request of an earlier version.
pub(super) fn view(shown: Option<&ShownCall>) -> Value {
    shown.map_or(Value::Null, |shown| serde_json::json!(shown))
}
