//! One tool, complete and checked.

use super::check::{check_elements, check_input, check_limits, check_name, output_schema};
use super::content::ContentFolder;
use super::error::{InFile, ManifestError};
use super::hosts::Reach;
use super::output_schema::OutputSchema;
use super::paths::Places;
use super::raw::RawManifest;
use super::script::Script;
use super::secrets::check_secrets;
use super::sockets::Connect;
use super::words::{Class, Limits, Modes, Output, ProcView, ResourceSpec, Risk, Runner, Stdin, WriteRoot};
use crate::types::{Digest, limits};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tool that may be called, complete and checked.
#[derive(Debug)]
pub struct Manifest {
    /// The name that a model calls it by: `[a-z][a-z0-9_]*`, at most 64 bytes.
    pub name: String,
    /// One sentence, for the model and for people.
    pub summary: String,
    /// The class: an action group that policies name.
    pub class: Class,
    /// How much harm a wrong call does, in the author's judgement.
    pub risk: Risk,
    /// What runs.
    pub runner: Runner,
    /// Whether every result taints the session. If false, the JSON object of a success does not.
    pub untrusted_output: bool,
    /// What that object looks like; a result that does not match it taints.
    pub output_schema: Option<Arc<OutputSchema>>,
    /// What the policy sees as the resource.
    pub resource: ResourceSpec,
    /// The folder, below the first that the tool may change, whose content is read before the
    /// decision; the tool gets its own copy of it.
    pub content: Option<ContentFolder>,
    /// Whether a call reads below its resource, a folder: named paths there are decided on with the
    /// call.
    pub recursive: bool,
    /// Real folders that the tool may read below, in the manifest's order, `@names` resolved; an
    /// absent one stays in the list, and the launcher skips it.
    pub read: Vec<PathBuf>,
    /// Folders that the tool may change, in the manifest's order; it starts in the first. Each is
    /// locked for one call at a time.
    pub write: Vec<WriteRoot>,
    /// What happens to a change of modes in those folders.
    pub modes: Modes,
    /// The hosts that the tool may connect to; none by default.
    pub reach: Reach,
    /// `read` and `write` as written, with `@names` resolved but not links: tools see them under
    /// these names too.
    pub spelled: Vec<PathBuf>,
    /// The part of `/proc` that the tool sees.
    pub proc: ProcView,
    /// Named secrets that its program is given, in the manifest's order.
    pub secrets: Vec<String>,
    /// Sockets that its program is connected to, in the manifest's order.
    pub connect: Vec<Connect>,
    /// The format of standard output.
    pub output: Output,
    /// The content of standard input.
    pub stdin: Stdin,
    /// Bounds of one call.
    pub limits: Limits,
    /// JSON Schema 2020-12 of the arguments; `opaque` in it is PAR's own keyword.
    pub input: Value,
    /// The file.
    pub file: PathBuf,
    /// The file's text.
    pub text: String,
    /// SHA-256 of the file's bytes; with a script, [`Script::bind`] of that and the script's
    /// digest: another script is another manifest.
    pub digest: Digest,
}

impl Manifest {
    /// The script that the tool's program interprets, if any.
    #[must_use]
    pub fn script(&self) -> Option<&Script> {
        match &self.runner {
            Runner::Program(program) => program.script.as_ref(),
            Runner::Builtin(_) => None,
        }
    }

    /// An error about this manifest, at the first line that starts with `key`.
    #[must_use]
    pub fn refuse(&self, key: &str, reason: &str) -> ManifestError {
        InFile { file: &self.file, bytes: self.text.as_bytes() }.at(Some(key), reason)
    }

    /// How long the preparation of a call may take, in milliseconds.
    #[must_use]
    pub fn prepare_ms_max(&self) -> u64 {
        if self.content.is_some() { limits::CONTENT_MS_MAX } else { limits::PREPARE_MS_MAX }
    }

    /// Whether success is one JSON object on standard output.
    #[must_use]
    pub fn is_structured(&self) -> bool {
        self.output == Output::Json || matches!(self.runner, Runner::Builtin(_))
    }

    /// Whether a call makes its own connections, through PAR's proxy: a program with hosts to
    /// reach.
    #[must_use]
    pub fn is_proxied(&self) -> bool {
        !self.reach.is_empty() && matches!(self.runner, Runner::Program(_))
    }
}

impl Manifest {
    /// Parses and checks the bytes of the manifest `file`.
    pub fn parse(file: &Path, bytes: &[u8], places: &Places) -> Result<Self, ManifestError> {
        let refuse = InFile { file, bytes };
        let text = std::str::from_utf8(bytes).map_err(|_| refuse.at(None, "is not UTF-8"))?;
        let raw: RawManifest = toml::from_str(text).map_err(|e| refuse.toml(&e))?;
        let no = |what: &str, reason: &str| refuse.at(Some(what), reason);

        check_name(&raw.name).map_err(|reason| no("name", &reason))?;
        if raw.summary.trim().is_empty() {
            return Err(no("summary", "`summary` is empty"));
        }
        let runner = raw.runner(file).map_err(|(key, reason)| no(key, &reason))?;
        check_input(&raw.input).map_err(|reason| no("[input]", &reason))?;
        let is_structured = raw.output == Output::Json || matches!(runner, Runner::Builtin(_));
        let output_schema = output_schema(raw.output_schema.as_ref(), raw.untrusted_output, is_structured);
        let output_schema = output_schema.map_err(|(key, reason)| no(key, &reason))?;
        let resource = raw.resource(&raw.input).map_err(|reason| no("[resource]", &reason))?;
        raw.check_recursive().map_err(|(key, reason)| no(key, &reason))?;
        let (connect, hosts) = raw.connect(places).map_err(|(key, reason)| no(key, &reason))?;
        let reach = Reach::read(&hosts, &raw.sandbox.addresses, &resource);
        let reach = reach.map_err(|(key, reason)| no(key, &reason))?;
        raw.check_reach(&reach, &resource).map_err(|(key, reason)| no(key, &reason))?;
        let proc = raw.proc().map_err(|(key, reason)| no(key, &reason))?;
        check_secrets(&raw.sandbox.secrets).map_err(|reason| no("secrets =", &reason))?;
        if let Runner::Program(program) = &runner {
            let key = if program.script.is_some() { "args" } else { "command" };
            check_elements(program, &raw.input).map_err(|reason| no(key, &reason))?;
        }
        let read = raw.sandbox.read.iter().map(|grant| places.resolve(grant));
        let read = read.collect::<Result<_, _>>().map_err(|reason| no("read =", &reason))?;
        let write = raw.write(&resource, places).map_err(|reason| no("write =", &reason))?;
        let spelled = raw.spelled(places).map_err(|reason| no("[sandbox]", &reason))?;
        check_limits(&raw.limits).map_err(|reason| no("[limits]", &reason))?;
        raw.check_writing().map_err(|(key, reason)| no(key, &reason))?;
        let content = raw.content(&resource).map_err(|(key, reason)| no(key, &reason))?;
        let mut manifest = Self {
            name: raw.name,
            summary: raw.summary,
            class: raw.class,
            risk: raw.risk,
            runner,
            untrusted_output: raw.untrusted_output,
            output_schema: output_schema.map(Arc::new),
            resource,
            content,
            recursive: raw.recursive,
            read,
            write,
            modes: raw.sandbox.modes,
            reach,
            spelled,
            proc,
            secrets: raw.sandbox.secrets,
            connect,
            output: raw.output,
            stdin: raw.stdin,
            limits: raw.limits.complete(),
            input: raw.input,
            file: file.to_owned(),
            text: text.to_owned(),
            digest: Digest::sha256(bytes),
        };
        manifest.digest = manifest.script().map_or(manifest.digest, |script| script.bind(manifest.digest));
        Ok(manifest)
    }
}
