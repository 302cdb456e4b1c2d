//! Whether the result of an earlier call may be shown to a model again, asked as of now.
//!
//! The record says what the sandbox found then. The question is the one that the same call would
//! ask now: this caller, this session, the tools, rules and labels in force, and every path below a
//! folder that the rules name now.

use super::context::CallContext;
use super::pending::Pending;
use super::point::Gate;
use super::resource::lexical;
use crate::call::{Beneath, Content, FileId, FileKind, Listing, Object, PathObject};
use crate::ledger::payload::{BeneathDecision, CallDecisionPayload, ObjectFound};
use crate::ledger::{Kind, Stored};
use crate::policy::{Approved, Counts, Question, Ruling, Session};
use crate::tools::{Class, ProposedCall};
use crate::types::Decision;
use crate::types::clock::Wall;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

impl Gate {
    /// Whether the caller of `context` may read the result of the call that `decision` allowed.
    ///
    /// A call that a person agreed to then counts as permitted if it would need that agreement
    /// again. Rules about how often a tool runs, and about what a tainted session may do, are about
    /// acts and not about reading what an act returned.
    pub fn may_reread(&self, context: &CallContext<'_>, decision: &Stored) -> bool {
        self.reread(context, decision).is_some()
    }

    fn reread(&self, context: &CallContext<'_>, decision: &Stored) -> Option<()> {
        let header = &decision.header;
        let is_allow = header.is(Kind::CallDecision) && header.decision() == Some(Decision::Allow);
        let recorded: CallDecisionPayload = decision.payload().filter(|_| is_allow)?;
        let tool = header.str("tool")?;
        let is_look = matches!(self.rules().catalog.find(tool)?.class, Class::Read | Class::Net);
        let untainted = Session { taint: BTreeSet::new(), ..context.session.clone() };
        let context =
            &CallContext { session: if is_look { context.session } else { &untainted }, ..*context };
        let arguments = recorded.arguments.as_ref()?.to_string();
        let proposed = ProposedCall { id: String::new(), tool: tool.to_owned(), arguments };
        let pending = self.open(self.validate(context, proposed).ok()?);
        let object = object_of(&pending, &recorded)?;
        let resource = self.resource(&pending, &object, &self.recorded_object(&object)).ok()?;
        let now_us = Wall::now().0;
        let ask = |resource: &crate::policy::Resource| {
            pending.rules.bundle.decide(&Question {
                subject: context.principal.subject(),
                session: context.session,
                manifest: pending.manifest(),
                arguments: pending.valid.arguments(),
                resource,
                approved: Approved::No,
                now_us,
                source_ip: context.source_ip,
                channel: context.channel,
                counts: Counts::default(),
                origins: None,
                is_chosen: false,
                is_halted: false,
            })
        };
        if matches!(ask(&resource).answer, Ruling::Deny { .. }) {
            return None;
        }
        let below = self.members(&pending, &object).ok()?.decide(ask);
        // What the call would leave out now and did not leave out then may be in the result.
        let left_out: BTreeSet<&str> =
            recorded.exclusions.iter().flatten().map(|one| one.canonical.as_str()).collect();
        let is_same = below.exclusions.iter().all(|one| left_out.contains(one.canonical.as_str()));
        (is_same && below.obstacle(&pending.manifest().runner).is_none()).then_some(())
    }
}

/// The object as it was found then, with the names that the rules of now have for it.
fn object_of(pending: &Pending, recorded: &CallDecisionPayload) -> Option<Object> {
    Some(match recorded.object.as_ref()? {
        ObjectFound::Fixed => Object::Fixed,
        ObjectFound::Absent { folder, rest } => Object::Absent { folder: folder.clone(), rest: rest.clone() },
        ObjectFound::Path { canonical, dev, ino, kind, within } => {
            let is_recursive = pending.manifest().recursive && *kind == FileKind::Folder;
            let found = recorded.beneath.as_deref().filter(|_| is_recursive).unwrap_or_default();
            Object::Path(PathObject {
                canonical: canonical.clone(),
                id: FileId { dev: dev.parse().ok()?, ino: ino.parse().ok()? },
                kind: *kind,
                within: names_over(pending, canonical, within),
                beneath: if is_recursive { beneath(pending, canonical, found) } else { Vec::new() },
                unseen: Vec::new(),
            })
        }
        ObjectFound::Content { folder, sha256, files, folders, bytes } => {
            let counts = (sha256.clone(), *files, *folders, *bytes);
            let listing = match counts {
                (Some(sha256), Some(files), Some(folders), Some(bytes)) => {
                    Some(Listing { sha256, files, folders, bytes })
                }
                _ => None,
            };
            Object::Content(Content { folder: folder.clone(), listing })
        }
        // Nothing was read.
        ObjectFound::Unreadable { .. } | ObjectFound::Outside => return None,
    })
}

/// The named paths that contain `canonical`, by name or as the sandbox found then.
fn names_over(pending: &Pending, canonical: &str, found: &[String]) -> Vec<String> {
    let holds = |name: &&String| found.contains(*name) || Path::new(canonical).starts_with(name.as_str());
    pending.named.iter().filter(holds).cloned().collect()
}

/// The named paths below `canonical`: those of now by their names, and those of then as found.
fn beneath(pending: &Pending, canonical: &str, found: &[BeneathDecision]) -> Vec<Beneath> {
    let is_below = |name: &&String| name.as_str() != canonical && Path::new(name).starts_with(canonical);
    let by_name = pending.named.iter().filter(is_below).map(|name| (name.clone(), lexical(name)));
    let mut all: BTreeMap<String, String> = by_name.collect();
    for one in found.iter().filter(|one| pending.named.contains(&one.name)) {
        let at = one.resource.get("id").and_then(Value::as_str).filter(|at| lexical(at) == **at);
        all.extend(at.map(|at| (one.name.clone(), at.to_owned())));
    }
    let one = |(name, canonical): (String, String)| Beneath {
        within: names_over(pending, &canonical, std::slice::from_ref(&name)),
        name,
        // It counts as there: what was there then is not known.
        id: Some(FileId { dev: 0, ino: 0 }),
        canonical,
    };
    all.into_iter().map(one).collect()
}
