//! One tool, complete and checked.

use super::check::{check_input, check_name, output_schema};
use super::code::{self, CodeFile};
use super::content::ContentFolder;
use super::error::{Fault, InFile, ManifestError, ManifestFaults};
use super::groups::{self, HostGroup};
use super::hosts::Reach;
use super::output_schema::OutputSchema;
use super::paths::Places;
use super::raw::RawManifest;
use super::script::Script;
use super::secrets::check_secrets;
use super::sensitive::{self, SensitiveArgument};
use super::sockets::Connect;
use super::tree::CodeTree;
use super::words::{
    Class, FrontTool, IdKind, Limits, Modes, Output, ProcView, ResourceSpec, Risk, Runner, Stdin, WriteRoot,
};
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
    /// Whether a call reads what belongs to the units of this host: named units are decided on with
    /// the call.
    pub reads_units: bool,
    /// The arguments that are looked up in what the run was given.
    pub sensitive: Vec<SensitiveArgument>,
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
    /// The host's groups that it is in, in addition to its own, in the manifest's order.
    pub groups: Vec<HostGroup>,
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
    /// SHA-256 of the file's bytes. With a script, [`Script::bind`] of that and the script's
    /// digest. For a program, bound to its bytes and to its folders of code too: another program is
    /// another manifest.
    pub digest: Digest,
    /// The program and those that it may start, in the manifest's order; none for a builtin.
    pub code: Vec<CodeFile>,
    /// Folders that the program reads code or executes programs from, in the manifest's order.
    pub trees: Vec<CodeTree>,
}

impl Manifest {
    /// The script that the tool's program interprets, if any.
    #[must_use]
    pub fn script(&self) -> Option<&Script> {
        match &self.runner {
            Runner::Program(program) => program.script.as_ref(),
            Runner::Builtin(_) | Runner::Front(_) => None,
        }
    }

    /// The types of what rules decide on: its resource, and its members if there are any.
    pub fn resource_kinds(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.resource.kind()).chain(self.reads_units.then(|| IdKind::Service.as_str()))
    }

    /// An error about this manifest, at the first line that starts with `key`.
    #[must_use]
    pub fn refuse(&self, key: &str, reason: &str) -> ManifestError {
        InFile { file: &self.file, text: &self.text }.at(key, reason)
    }

    /// Refuses the tool if another can change what it executes. `writers` are the folders that
    /// tools may change, each with the tool's name.
    pub(in crate::tools) fn refuse_writers(&mut self, writers: &[(String, PathBuf)]) {
        let why = |tool: &str, folder: &Path| {
            format!("the tool `{tool}` may change `{}`, so code there is not run", folder.display())
        };
        for (tool, folder) in writers {
            for file in &mut self.code {
                let real = std::fs::canonicalize(file.path());
                if real.is_ok_and(|real| real.starts_with(folder)) {
                    file.refuse(&why(tool, folder));
                }
            }
            for tree in &mut self.trees {
                if tree.path().starts_with(folder) || folder.starts_with(tree.path()) {
                    tree.refuse(&why(tool, folder));
                }
            }
        }
    }

    /// How long the preparation of a call may take, in milliseconds.
    #[must_use]
    pub fn prepare_ms_max(&self) -> u64 {
        if self.content.is_some() { limits::CONTENT_MS_MAX } else { limits::PREPARE_MS_MAX }
    }

    /// Whether success is one JSON object on standard output.
    #[must_use]
    pub fn is_structured(&self) -> bool {
        self.output != Output::Text || !matches!(self.runner, Runner::Program(_))
    }

    /// The function of the front that it runs, if it runs there.
    #[must_use]
    pub fn front(&self) -> Option<FrontTool> {
        match self.runner {
            Runner::Front(which) => Some(which),
            Runner::Builtin(_) | Runner::Program(_) => None,
        }
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
    ///
    /// # Errors
    ///
    /// Every fault of the file, except that a fault which hides others, such as a line that is not
    /// TOML, is reported alone.
    pub fn parse(file: &Path, bytes: &[u8], places: &Places) -> Result<Self, ManifestFaults> {
        let text = std::str::from_utf8(bytes).map_err(|_| {
            let reason = "is not UTF-8".to_owned();
            ManifestFaults(vec![ManifestError { file: file.to_owned(), line: None, reason }])
        })?;
        let in_file = InFile { file, text };
        let (raw, found) = RawManifest::read(in_file).map_err(|e| ManifestFaults(vec![e]))?;
        let mut checks = ManifestChecks { in_file, found };
        let made = checks.manifest(raw, places, Digest::sha256(bytes));
        let mut found = checks.found;
        found.sort_by_key(|fault| fault.line);
        match made {
            Some(manifest) if found.is_empty() => Ok(manifest),
            _ => Err(ManifestFaults(found)),
        }
    }
}

/// The faults so far. A check that depends on a member which could not be read is left out.
struct ManifestChecks<'a> {
    in_file: InFile<'a>,
    found: Vec<ManifestError>,
}

impl ManifestChecks<'_> {
    /// The manifest, if every part of it could be made.
    fn manifest(&mut self, raw: RawManifest, places: &Places, digest: Digest) -> Option<Manifest> {
        self.check_words(&raw);
        let runner = if raw.is_whole() { self.runner(&raw) } else { None };
        if runner.is_none() && !raw.is_whole() {
            raw.program_faults().iter().for_each(|(key, reason)| self.refuse(key, reason));
        }
        raw.element_faults().iter().for_each(|(key, reason)| self.refuse(key, reason));
        let resource = self.resource(&raw);
        let reads_units = match (&raw.resource, raw.is_whole()) {
            (Some(given), true) => self.take(raw.reads_units(given)),
            _ => Some(false),
        };
        let grants = self.grants(&raw, resource.as_ref(), places);
        let proc = if raw.is_whole() { self.take(raw.proc()) } else { None };
        let content = match (&raw.resource, &resource, &raw.input) {
            (Some(given), Some(resource), Some(input)) if raw.is_whole() && raw.is_sandbox_whole => {
                self.take(raw.content(given, resource, input))
            }
            _ => Some(None),
        };
        let groups = self.groups(&raw);
        let sensitive = self.sensitive(&raw);
        let output_schema = self.output_schema(&raw);
        let Grants { read, write, spelled, connect, reach, code } = grants?;
        let mut manifest = Manifest {
            name: raw.name?,
            summary: raw.summary?,
            class: raw.class?,
            risk: raw.risk?,
            runner: runner?,
            untrusted_output: raw.untrusted_output?,
            output_schema: output_schema?.map(Arc::new),
            resource: resource?,
            content: content?,
            recursive: raw.recursive,
            reads_units: reads_units?,
            sensitive: sensitive?,
            read,
            write,
            modes: raw.sandbox.modes,
            reach,
            spelled,
            proc: proc?,
            secrets: raw.sandbox.secrets,
            groups: groups?,
            connect,
            output: raw.output,
            stdin: raw.stdin,
            limits: raw.limits?.complete(),
            input: raw.input?,
            file: self.in_file.file.to_owned(),
            text: self.in_file.text.to_owned(),
            digest,
            code: Vec::new(),
            trees: Vec::new(),
        };
        manifest.digest = manifest.script().map_or(manifest.digest, |script| script.bind(manifest.digest));
        if let Runner::Program(program) = &manifest.runner {
            manifest.code = code::load(&program.path, &program.exec);
            manifest.trees = code::load_trees(&code, &manifest.code);
            manifest.digest = code::bind(manifest.digest, &manifest.code, &manifest.trees);
        }
        Some(manifest)
    }

    /// Members that depend on no other.
    fn check_words(&mut self, raw: &RawManifest) {
        if let Some(name) = &raw.name {
            self.take(check_name(name).map_err(|reason| ("name", reason)));
        }
        if raw.summary.as_ref().is_some_and(|summary| summary.trim().is_empty()) {
            self.refuse("summary", "`summary` is empty");
        }
        for reason in raw.input.iter().flat_map(check_input) {
            self.refuse("[input]", &reason);
        }
        self.take(check_secrets(&raw.sandbox.secrets).map_err(|reason| ("secrets =", reason)));
    }

    fn output_schema(&mut self, raw: &RawManifest) -> Option<Option<OutputSchema>> {
        let is_structured = raw.is_structured()?;
        self.take(output_schema(raw.output_schema.as_ref(), raw.untrusted_output?, is_structured))
    }

    fn sensitive(&mut self, raw: &RawManifest) -> Option<Vec<SensitiveArgument>> {
        let sends = raw.sends.as_deref().unwrap_or_default();
        if !sends.is_empty() && matches!(raw.class, Some(Class::Read | Class::Write)) {
            let reason =
                "a tool with `sends` lets data leave this host: its class is `net`, `exec` or `admin`";
            self.refuse("class", reason);
        }
        let found = sensitive::read(&raw.sensitive, sends, raw.input.as_ref()?);
        self.take(found)
    }

    fn groups(&mut self, raw: &RawManifest) -> Option<Vec<HostGroup>> {
        // The list is read only for a tool that names groups.
        let known = if raw.sandbox.groups.is_empty() { Vec::new() } else { groups::host_groups() };
        self.take(groups::resolve(&raw.sandbox.groups, &known).map_err(|reason| ("groups =", reason)))
    }

    fn runner(&mut self, raw: &RawManifest) -> Option<Runner> {
        let faults = match raw.runner(self.in_file.file) {
            Ok(runner) => return Some(runner),
            Err(faults) => faults,
        };
        faults.iter().for_each(|(key, reason)| self.refuse(key, reason));
        None
    }

    fn resource(&mut self, raw: &RawManifest) -> Option<ResourceSpec> {
        let (given, input) = (raw.resource.as_ref()?, raw.input.as_ref()?);
        if raw.is_whole() {
            self.take(raw.check_recursive(given));
        }
        self.take(raw.resource(given, input))
    }

    /// What the tool may reach. `None` if a part of it could not be read.
    fn grants(
        &mut self,
        raw: &RawManifest,
        resource: Option<&ResourceSpec>,
        places: &Places,
    ) -> Option<Grants> {
        let read: Vec<Result<PathBuf, String>> =
            raw.sandbox.read.iter().map(|grant| places.resolve(grant)).collect();
        let read: Vec<Option<PathBuf>> =
            read.into_iter().map(|one| self.take(one.map_err(|reason| ("read =", reason)))).collect();
        let write = raw.write(resource, places).map_err(|reason| ("write =", reason));
        let (write, code) = (self.take(write), self.take(raw.code(places)));
        let spelled = match read.iter().all(Option::is_some) && write.is_some() && code.is_some() {
            true => self.take(raw.spelled(places).map_err(|reason| ("[sandbox]", reason))),
            false => None,
        };
        let ends = self.take(raw.connect(places));
        let resource = resource?;
        let reach = ends
            .as_ref()
            .and_then(|(_, hosts)| self.take(Reach::read(hosts, &raw.sandbox.addresses, resource)));
        if let (Some(limits), Some(given), true) = (&raw.limits, &raw.resource, raw.is_sandbox_whole) {
            if let Some(reach) = reach.as_ref().filter(|_| raw.is_whole()) {
                self.take(raw.check_reach(reach, resource, limits));
            }
            self.take(raw.check_writing(limits, given));
        }
        let (connect, _) = ends?;
        Some(Grants {
            read: read.into_iter().collect::<Option<_>>()?,
            write: write?,
            spelled: spelled?,
            connect,
            reach: reach?,
            code: code?,
        })
    }

    fn refuse(&mut self, key: &str, reason: &str) {
        self.found.push(self.in_file.at(key, reason));
    }

    fn take<T>(&mut self, checked: Result<T, Fault>) -> Option<T> {
        checked.map_err(|(key, reason)| self.refuse(key, &reason)).ok()
    }
}

/// What a tool may reach.
struct Grants {
    read: Vec<PathBuf>,
    write: Vec<WriteRoot>,
    spelled: Vec<PathBuf>,
    connect: Vec<Connect>,
    reach: Reach,
    code: Vec<PathBuf>,
}
