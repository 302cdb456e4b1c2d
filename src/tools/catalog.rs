//! All tools, and the check of a proposed call against its manifest.

use super::manifest::error::{ManifestError, ManifestFaults};
use super::manifest::paths::Places;
use super::manifest::tool::Manifest;
use super::manifest::words::{IdKind, ResourceSpec};
use super::numbers;
use crate::config::trusted;
use crate::types::json::{canonical, parse_strict};
use crate::types::limits::UNIT_BYTES_MAX;
use crate::types::{Ceiling, limits, nearest, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// All tools by name. Immutable once loaded; a reload makes another catalog.
#[derive(Debug, Default)]
pub struct Catalog {
    tools: BTreeMap<String, CatalogEntry>,
}

#[derive(Debug)]
struct CatalogEntry {
    manifest: Arc<Manifest>,
    validator: jsonschema::Validator,
}

/// A name that no loaded tool has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no tool is named `{name}`{}", self.hint())]
pub struct UnknownTool {
    /// The name, made visible.
    pub name: String,
    /// The tool that was likely meant.
    pub meant: Option<String>,
}

impl UnknownTool {
    /// The error for `name`, with one of `known` that is similar.
    fn new<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let name = text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
        let meant = nearest(&name, known).map(str::to_owned);
        Self { name, meant }
    }

    /// Whether `reason` of a refusal says that no tool has `name`.
    #[must_use]
    pub fn is_reason(reason: &str, name: &str) -> bool {
        let plain = Self { name: name.to_owned(), meant: None }.to_string();
        reason.strip_prefix(&plain).is_some_and(|rest| rest.is_empty() || rest.starts_with(": did you mean"))
    }

    fn hint(&self) -> String {
        self.meant.as_ref().map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"))
    }
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedCall {
    /// The provider's own identifier of the call, echoed back to it.
    pub id: String,
    /// The tool's name, not yet known to exist.
    pub tool: String,
    /// The arguments: JSON text, not yet known to be JSON.
    pub arguments: String,
}

/// A call that passed its manifest's schema. Made only by [`Catalog::validate`].
#[derive(Debug)]
#[must_use = "a valid call still needs the gate's decision"]
pub struct ValidCall {
    proposed_id: String,
    manifest: Arc<Manifest>,
    arguments: Value,
    canonical: String,
}

impl ValidCall {
    /// The provider's own identifier of the call.
    #[must_use]
    pub fn proposed_id(&self) -> &str {
        &self.proposed_id
    }

    /// The tool's manifest.
    #[must_use]
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The arguments, as the schema accepted them.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// The arguments as canonical JSON (RFC 8785).
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }
}

/// A proposed call that is invalid, with the reason that the model may read.
#[derive(Debug)]
#[must_use = "an invalid call is recorded by `gate::refuse`"]
pub struct Invalid {
    /// The call as proposed.
    pub proposed: ProposedCall,
    /// The reason: visible text of bounded length.
    pub reason: String,
}

/// Why a catalog was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Manifests were refused: every fault of every file.
    #[error(transparent)]
    Manifests(#[from] ManifestFaults),
    /// The folder cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Folder(std::path::PathBuf, #[source] std::io::Error),
}

impl Catalog {
    /// Reads every `*.toml` in `folder`, in the order of their names.
    pub fn load(folder: &Path, places: &Places) -> Result<Self, CatalogError> {
        let at_folder = |e| CatalogError::Folder(folder.to_owned(), e);
        let files = trusted::list(folder, "toml").map_err(at_folder)?;
        let (mut catalog, mut faults, mut parsed) = (Self::default(), Vec::new(), Vec::new());
        for file in files {
            let bytes = match trusted::read(&file) {
                Ok(bytes) => bytes,
                Err(e) => {
                    faults.push(ManifestError { file, line: None, reason: e.to_string() });
                    continue;
                }
            };
            match Manifest::parse(&file, &bytes, places) {
                Ok(manifest) => parsed.push((file, manifest)),
                Err(ManifestFaults(found)) => faults.extend(found),
            }
        }
        let writers = parsed
            .iter()
            .flat_map(|(_, tool)| tool.write.iter().map(|root| (tool.name.clone(), root.folder.clone())));
        let writers: Vec<_> = writers.collect();
        for (file, mut manifest) in parsed {
            manifest.refuse_writers(&writers);
            faults.extend(catalog.add(&file, manifest).err());
        }
        if faults.is_empty() { Ok(catalog) } else { Err(ManifestFaults(faults).into()) }
    }

    fn add(&mut self, file: &Path, manifest: Manifest) -> Result<(), ManifestError> {
        let refuse = |reason: String| ManifestError { file: file.to_owned(), line: None, reason };
        let validator = jsonschema::draft202012::new(&manifest.input)
            .map_err(|e| refuse(format!("`[input]` is not a JSON Schema: {e}")))?;
        if self.tools.contains_key(&manifest.name) {
            return Err(refuse(format!("the tool name `{}` is already taken", manifest.name)));
        }
        self.tools.insert(manifest.name.clone(), CatalogEntry { manifest: Arc::new(manifest), validator });
        Ok(())
    }

    /// The manifest of `tool`.
    #[must_use]
    pub fn find(&self, tool: &str) -> Option<&Arc<Manifest>> {
        self.tools.get(tool).map(|tool| &tool.manifest)
    }

    /// The first name of `ceiling` that no tool has.
    #[must_use]
    pub fn unknown(&self, ceiling: &Ceiling) -> Option<UnknownTool> {
        let name = ceiling.names()?.iter().find(|name| !self.tools.contains_key(*name))?;
        Some(UnknownTool::new(name, self.tools.keys().map(String::as_str)))
    }

    /// Every manifest, by name.
    pub fn manifests(&self) -> impl Iterator<Item = &Arc<Manifest>> {
        self.tools.values().map(|tool| &tool.manifest)
    }

    /// Checks a proposed call: known tool, strict JSON, exact numbers, no NUL, schema.
    ///
    /// `offered` says whether the principal was offered the tool. A tool that was not offered gives
    /// the same error as an unknown one.
    pub fn validate(
        &self,
        proposed: ProposedCall,
        offered: impl Fn(&str) -> bool,
    ) -> Result<ValidCall, Invalid> {
        match self.check(&proposed, offered) {
            Ok((manifest, arguments, canonical)) => {
                Ok(ValidCall { proposed_id: proposed.id, manifest, arguments, canonical })
            }
            Err(reason) => {
                let reason = text::visible_line(text::prefix(&reason, 500));
                Err(Invalid { proposed, reason })
            }
        }
    }

    fn check(
        &self,
        proposed: &ProposedCall,
        offered: impl Fn(&str) -> bool,
    ) -> Result<(Arc<Manifest>, Value, String), String> {
        let tool = self.tools.get(&proposed.tool).filter(|_| offered(&proposed.tool));
        // Only what was offered is suggested: what was not looks as if it were not there.
        let known = || self.tools.keys().map(String::as_str).filter(|name| offered(name));
        let tool = tool.ok_or_else(|| UnknownTool::new(&proposed.tool, known()).to_string())?;
        if proposed.arguments.len() > limits::ARGUMENTS_BYTES_MAX {
            return Err(format!("the arguments are longer than {} bytes", limits::ARGUMENTS_BYTES_MAX));
        }
        // Some models leave the arguments empty if a call has none.
        let words = if proposed.arguments.trim().is_empty() { "{}" } else { &proposed.arguments };
        let arguments = parse_strict(words.as_bytes(), limits::JSON_DEPTH_MAX)
            .map_err(|e| format!("the arguments are not JSON: {e}"))?;
        numbers::check(&tool.manifest.input, &arguments)?;
        if has_nul(&arguments) {
            return Err("a string contains a NUL byte".to_owned());
        }
        tool.validator.validate(&arguments).map_err(|e| match e.instance_path().to_string() {
            at if at.is_empty() => format!("the arguments: {e}"),
            at => format!("`{at}`: {e}"),
        })?;
        let text = |argument: &str| arguments.get(argument).and_then(Value::as_str).unwrap_or_default();
        match &tool.manifest.resource {
            ResourceSpec::Path { argument } => check_path(text(argument))?,
            ResourceSpec::Id { argument, kind } => {
                kind.check(text(argument)).map_err(|e| format!("`{argument}`: {e}"))?;
            }
            ResourceSpec::Host { argument, form } => {
                form.read(text(argument)).map_err(|e| format!("`{argument}` {e}"))?;
            }
            ResourceSpec::Fixed { .. } => {}
        }
        let canonical = canonical(&arguments).map_err(|e| e.to_string())?;
        // This text is what is decided on, recorded and run, however a number in it was written:
        // `2.0` is `2`.
        let arguments =
            parse_strict(canonical.as_bytes(), limits::JSON_DEPTH_MAX).map_err(|e| e.to_string())?;
        Ok((tool.manifest.clone(), arguments, canonical))
    }
}

/// Checks a path argument's length and form; the sandbox finds where it leads.
fn check_path(path: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err("the path is not absolute".to_owned());
    }
    if path.len() > limits::PATH_BYTES_MAX {
        return Err(format!("the path is longer than {} bytes", limits::PATH_BYTES_MAX));
    }
    if text::names(path) > limits::PATH_NAMES_MAX {
        return Err(format!("the path has more than {} names", limits::PATH_NAMES_MAX));
    }
    Ok(())
}

/// Checks that `id` has the one form of an id, `[a-z0-9][a-z0-9._-]{0,63}`: it is also a plain file
/// name, never an option and never `.` or `..`.
pub fn check_id(id: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let first = id.bytes().next().is_some_and(plain);
    if first && id.len() <= limits::ID_BYTES_MAX && id.bytes().all(|b| plain(b) || b"._-".contains(&b)) {
        Ok(())
    } else {
        Err(format!("is not an id `[a-z0-9][a-z0-9._-]*` of at most {} bytes", limits::ID_BYTES_MAX))
    }
}

impl IdKind {
    /// Checks that `id` has the form of an id of this kind. A service is a unit of systemd, whose
    /// names have more characters; like other ids it is a plain file name and never an option.
    pub fn check(self, id: &str) -> Result<(), String> {
        match self {
            Self::Project | Self::Job => check_id(id),
            Self::Service => {
                let first = id.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
                let all = id.bytes().all(|b| b.is_ascii_alphanumeric() || b":_.@\\-".contains(&b));
                if first && all && id.len() <= UNIT_BYTES_MAX {
                    Ok(())
                } else {
                    Err(format!(
                        "is not a unit `[A-Za-z0-9][A-Za-z0-9:_.@\\-]*` of at most {UNIT_BYTES_MAX} bytes"
                    ))
                }
            }
        }
    }
}

/// Whether a unit may have this name, in any form that systemd has for one.
#[must_use]
pub fn is_unit_name(name: &str) -> bool {
    (1..=UNIT_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, member)| name.contains('\0') || has_nul(member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
