//! The object of a call: from the sandbox's claim to what policies see and the record keeps.

use super::pending::Pending;
use super::point::Gate;
use super::refusal::Obstacle;
use super::rules::STALE;
use crate::call::{Content, Listing, Object, UnreadableObject};
use crate::policy;
use crate::secrets::Clean;
use crate::tools::ResourceSpec;
use crate::types::{Digest, limits, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Digits of a content digest that people are shown; the record has all of them.
const DIGITS_SHOWN: usize = 16;

impl Gate {
    /// The object in the form that policies know, checked against the manifest's roots: the
    /// sandbox's claim alone does not decide where a path lies.
    pub(super) fn resource(
        &self,
        pending: &Pending,
        object: &Object,
        recorded: &Clean<Value>,
    ) -> Result<policy::Resource, Obstacle> {
        if pending.is_stale() {
            return Err(Obstacle::by_policy(STALE));
        }
        // A link led there; the path that policies would decide on cannot be recorded.
        if !recorded.found().is_none() {
            return Err(Obstacle::by_policy("the name of its object holds a secret"));
        }
        self.claimed(pending, object).map_err(Obstacle::by_host)
    }

    /// The object as the sandbox claims it. An error is an impossible claim.
    fn claimed(&self, pending: &Pending, object: &Object) -> Result<policy::Resource, &'static str> {
        let manifest = pending.manifest();
        if let Object::Content(content) = object {
            check_content(pending, content)?;
        }
        // Content does not change what else the call is about.
        let bare = match (object, &manifest.content) {
            (Object::Content(_), Some(_)) => &Object::Fixed,
            (Object::Content(_), None) => return Err("the sandbox read a folder unasked"),
            (_, Some(_)) => return Err("the sandbox did not read the folder that the call is about"),
            (object, None) => object,
        };
        let argument = match (&manifest.resource, bare) {
            (ResourceSpec::Path { argument }, _) => argument,
            (_, Object::Fixed) => {
                return by_name(pending).unwrap_or(Err("the resource's argument names nothing"));
            }
            (ResourceSpec::Fixed { .. } | ResourceSpec::Id { .. } | ResourceSpec::Host { .. }, _) => {
                return Err("the sandbox resolved a path for a tool that has none");
            }
        };
        let inside =
            |canonical: &str| manifest.read.iter().any(|root| Path::new(canonical).starts_with(root));
        let outside =
            || policy::Resource::Outside { lexical: lexical(words(pending, argument).unwrap_or("/")) };
        Ok(match bare {
            Object::Fixed => return Err("the sandbox resolved nothing for a tool that names a path"),
            Object::Path(path) if inside(&path.canonical) && lexical(&path.canonical) == path.canonical => {
                let asked = path.within.iter().filter(|name| pending.named.contains(name));
                self.named(path.canonical.clone(), asked.cloned().collect())
            }
            Object::Absent { folder, rest } if inside(folder) => {
                let whole = format!("{}/{rest}", folder.trim_end_matches('/'));
                if lexical(&whole) == whole { self.named(whole, BTreeSet::new()) } else { outside() }
            }
            // What the rules say about it decides whether a caller learns that it is there.
            Object::Unreadable(one) if inside(&one.at.canonical) && lexical(&one.path()) == one.path() => {
                let path = one.path();
                // Below a folder that may not be searched, only names can be compared.
                let holds = |name: &&String| {
                    one.at.within.contains(*name)
                        || (!one.rest.is_empty() && Path::new(&path).starts_with(name.as_str()))
                };
                let within = pending.named.iter().filter(holds).cloned().collect();
                self.named(path, within)
            }
            Object::Path(_)
            | Object::Absent { .. }
            | Object::Unreadable(_)
            | Object::Outside
            | Object::Content(_) => outside(),
        })
    }

    /// The object in the form that is recorded.
    pub(super) fn recorded_object(&self, object: &Object) -> Clean<Value> {
        self.secrets().clean(object_json(object))
    }

    /// Adds the `@names` of those folders that prepare was asked about and found to contain the
    /// path.
    pub(super) fn named(&self, canonical: String, within: BTreeSet<String>) -> policy::Resource {
        let holds = |folder: &PathBuf| {
            Path::new(&canonical).starts_with(folder)
                || within.iter().any(|name| Path::new(name) == folder.as_path())
        };
        let names = self.names.iter().filter(|(_, folder)| holds(folder)).map(|(name, _)| format!("@{name}"));
        let names: Vec<String> = names.collect();
        policy::Resource::Path { canonical, within: within.into_iter().chain(names).collect() }
    }
}

/// An argument that is a string.
fn words<'a>(pending: &'a Pending, argument: &str) -> Option<&'a str> {
    pending.valid.arguments().get(argument).and_then(Value::as_str)
}

/// The object of a call whose manifest or arguments name it, so that the sandbox has nothing to
/// resolve; none for a path.
pub(super) fn by_name(pending: &Pending) -> Option<Result<policy::Resource, &'static str>> {
    let manifest = pending.manifest();
    let named = |argument: &String| words(pending, argument);
    Some(match &manifest.resource {
        ResourceSpec::Path { .. } => return None,
        ResourceSpec::Fixed { kind, id } => {
            Ok(policy::Resource::Fixed { kind: kind.clone(), id: id.clone() })
        }
        // The catalog has checked that the argument has the one form of an id.
        ResourceSpec::Id { kind, argument } => match named(argument) {
            Some(id) => Ok(policy::Resource::Id { kind: *kind, id: id.to_owned() }),
            None => Err("the resource's argument is not a string"),
        },
        ResourceSpec::Host { argument, form } => {
            match named(argument).and_then(|words| form.read(words).ok()) {
                Some(host) if manifest.reach.holds(&host) => Ok(policy::Resource::host(host.as_str())),
                Some(_) => Err("the tool is not connected to that host"),
                None => Err("the resource's argument names no host"),
            }
        }
    })
}

/// Device and inode as text: they may exceed the integers that JSON readers keep.
fn object_json(object: &Object) -> Value {
    match object {
        Object::Fixed => json!({ "is": "fixed" }),
        Object::Content(Content { folder, listing: None }) => json!({ "is": "content", "folder": folder }),
        Object::Content(Content { folder, listing: Some(listing) }) => json!({
            "is": "content",
            "folder": folder,
            "sha256": listing.sha256,
            "files": listing.files,
            "folders": listing.folders,
            "bytes": listing.bytes,
        }),
        Object::Outside => json!({ "is": "outside" }),
        Object::Absent { folder, rest } => json!({ "is": "absent", "folder": folder, "rest": rest }),
        Object::Unreadable(unreadable) => unreadable_json(unreadable),
        Object::Path(path) => json!({
            "is": "path",
            "canonical": path.canonical,
            "dev": path.id.dev.to_string(),
            "ino": path.id.ino.to_string(),
            "kind": path.kind,
            "within": path.within,
        }),
    }
}

fn unreadable_json(unreadable: &UnreadableObject) -> Value {
    let UnreadableObject { at, rest, uid } = unreadable;
    json!({
        "is": "unreadable",
        "canonical": at.canonical,
        "dev": at.id.dev.to_string(),
        "ino": at.id.ino.to_string(),
        "kind": at.kind,
        "within": at.within,
        "rest": rest,
        "uid": uid,
    })
}

/// The content that an approval request is about, in words; `resource` is that of the request.
#[must_use]
pub fn describe_content(resource: &Value) -> Option<String> {
    let object = resource.get("object").filter(|object| object.get("is") == Some(&json!("content")))?;
    let member = |name: &str| object.get(name).and_then(Value::as_str);
    let count = |name: &str| object.get(name).and_then(Value::as_u64).unwrap_or(0);
    let folder = text::visible_line(member("folder")?);
    let Some(sha256) = member("sha256") else { return Some(format!("{folder}: not there")) };
    let (files, folders, bytes) = (count("files"), count("folders"), count("bytes"));
    let digest = text::prefix(sha256, DIGITS_SHOWN);
    Some(format!("{folder}: {files} files, {folders} folders, {bytes} bytes, sha256 {digest}…"))
}

/// Checks that it is the folder of this call, and that its listing is possible.
fn check_content(pending: &Pending, content: &Content) -> Result<(), &'static str> {
    let names = pending.manifest().content.as_ref().map(|folder| folder.names(pending.valid.arguments()));
    match names {
        Some(Ok(names)) if names.join("/") == content.folder => {}
        _ => return Err("the sandbox read another folder than the call is about"),
    }
    let is_one = |listing: &Listing| {
        Digest::from_hex(&listing.sha256).is_some()
            && listing.files.saturating_add(listing.folders) <= limits::CONTENT_ENTRIES_MAX
            && listing.bytes <= limits::CONTENT_BYTES_MAX
    };
    if content.listing.as_ref().is_none_or(is_one) {
        Ok(())
    } else {
        Err("the sandbox reported an invalid listing")
    }
}

/// A path in lexical form: no empty names, no `.`, and each `..` resolved.
pub(super) fn lexical(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}
