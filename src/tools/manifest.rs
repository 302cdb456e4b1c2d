//! One tool, as its file in `tools.d/` declares it.
//!
//! Reading is in two stages: [`Raw`] is the file, [`Manifest`] is what was checked. What a later
//! version will support is refused by name, never ignored.

use super::connect::Connect;
use super::content::ContentFolder;
use super::given::check_secrets;
use super::reach::{HostForm, Reach};
use super::script::Script;
use super::taken::taken;
use crate::types::{Digest, limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A tool that may be called, complete and checked.
#[derive(Debug)]
pub struct Manifest {
    /// The name that a model calls it by: `[a-z][a-z0-9_]*`, at most 64 bytes.
    pub name: String,
    /// One sentence for the model and for people.
    pub summary: String,
    /// The class action that policies name.
    pub class: Class,
    /// How much harm a wrong call does, in the author's judgement.
    pub risk: Risk,
    /// What runs.
    pub runner: Runner,
    /// Whether every result taints the session. Without it the JSON object of a success does not.
    pub untrusted_output: bool,
    /// What the policy sees as the resource.
    pub resource: Resource,
    /// The folder, below the first that the tool may change, whose content is read before the decision and given to
    /// the tool as a copy of its own.
    pub content: Option<ContentFolder>,
    /// Whether a call reads below its resource, a folder: named paths there are decided on with it.
    pub recursive: bool,
    /// Real folders that the tool may read below, in the manifest's order, `@names` resolved; an
    /// absent one stays in the list and is skipped by the launcher.
    pub read: Vec<PathBuf>,
    /// Folders that the tool may change, in the manifest's order; it works in the first. One call at a
    /// time in each.
    pub write: Vec<WriteRoot>,
    /// What becomes of a change of modes in those folders.
    pub modes: Modes,
    /// What the tool may be connected to; nothing by default.
    pub reach: Reach,
    /// `read` and `write` as they are written, `@names` resolved and links not: under these names too tools see them.
    pub spelled: Vec<PathBuf>,
    /// What of `/proc` the tool sees.
    pub proc: ProcView,
    /// Named secrets that its program is given, in the manifest's order.
    pub secrets: Vec<String>,
    /// Whom its program is connected to, likewise.
    pub connect: Vec<Connect>,
    /// What standard output means.
    pub output: Output,
    /// What is on standard input.
    pub stdin: Stdin,
    /// Bounds of one call.
    pub limits: Limits,
    /// JSON Schema 2020-12 of the arguments; `opaque` in it is PAR's own word.
    pub input: Value,
    /// The file.
    pub file: PathBuf,
    /// The file's text.
    pub text: String,
    /// SHA-256 of the file's bytes; with a script, [`Script::bind`] of that and the script's: another
    /// script is another manifest.
    pub digest: Digest,
}

impl Manifest {
    /// The script that the tool's program interprets, where it is one.
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
        Refusal { file: &self.file, bytes: self.text.as_bytes() }.at(Some(key), reason)
    }

    /// How long a call may take until it is decided, in milliseconds.
    #[must_use]
    pub fn prepare_ms_max(&self) -> u64 {
        if self.content.is_some() { limits::CONTENT_MS_MAX } else { limits::PREPARE_MS_MAX }
    }

    /// Whether success is one JSON object on standard output.
    #[must_use]
    pub fn is_structured(&self) -> bool {
        self.output == Output::Json || matches!(self.runner, Runner::Builtin(_))
    }

    /// Whether a call makes its connections itself, through PAR's proxy: a program with hosts to reach.
    #[must_use]
    pub fn is_proxied(&self) -> bool {
        !self.reach.is_empty() && matches!(self.runner, Runner::Program(_))
    }
}

/// The class of an action: policies may name the class instead of the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum Class {
    Read,
    Write,
    Exec,
    Net,
    Admin,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Exec, Self::Net, Self::Admin];

    /// The name in manifests and policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Exec => "exec",
            Self::Net => "net",
            Self::Admin => "admin",
        }
    }
}

/// The author's judgement of a tool's risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum Risk {
    Low,
    Medium,
    High,
}

impl Risk {
    /// The name in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What a call starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A function of PAR, run in the sandboxed child without exec.
    Builtin(Builtin),
    /// A program, run by descriptor under the child's init.
    Program(Program),
}

/// The functions that PAR brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum Builtin {
    HealthCheck,
    HttpGet,
    ListDir,
    ReadFile,
    SearchFiles,
}

/// A program and the shape of its argument array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Absolute path; opened once by the launcher and executed by descriptor.
    pub path: PathBuf,
    /// Elements behind `argv[0]`; of a script behind its name, which is `argv[1]`.
    pub args: Vec<Element>,
    /// Whether the program needs a loader and shared libraries.
    pub runtime: Runtime,
    /// What the program interprets, where it is an interpreter.
    pub script: Option<Script>,
    /// Absolute paths of the other programs that it may start.
    pub exec: Vec<PathBuf>,
}

/// A folder that a tool may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRoot {
    /// The real folder.
    pub folder: PathBuf,
    /// Whether not it, but the folder in it that the resource's id names, is what a call may change.
    pub by_id: bool,
}

/// What becomes of a change of modes. No tool makes one: by a path it would be one anywhere, and not only in the
/// folders that the tool may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Modes {
    /// It is an error.
    #[default]
    Refuse,
    /// The tool is told that it was made, and nothing is changed: for programs that will not go on otherwise.
    Ignore,
}

/// What a tool's standard output means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Text, or bytes: shown as they are.
    #[default]
    Text,
    /// One JSON object. Anything else is shown as text, and is an error.
    Json,
}

/// What a program finds on its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// Nothing.
    #[default]
    None,
    /// The arguments: one line with one JSON object, the resource in its canonical form.
    Json,
}

/// One element of an argument array. An argument fills a whole element: no shell, no splitting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// Given as it stands.
    Literal(String),
    /// The argument of this name; for the resource, its canonical form. A value that starts with `-`
    /// is refused, an absent one leaves the element out.
    Argument(String),
}

/// What a program needs to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Nothing but itself.
    Static,
    /// The dynamic loader and the system's library folders.
    Dynamic,
}

/// What the policy sees as the resource of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A path argument, resolved by the sandbox before the decision.
    Path {
        /// Name of the top-level argument that holds the path.
        argument: String,
    },
    /// A thing with a name of its own: the argument itself, in the form that [`super::check_id`] asks
    /// for.
    Id {
        /// What it names.
        kind: IdKind,
        /// Name of the top-level argument that holds the id.
        argument: String,
    },
    /// A host with its port, which is not looked up before the decision.
    Host {
        /// Name of the top-level argument that names it.
        argument: String,
        /// How.
        form: HostForm,
    },
    /// The same resource for every call, such as `Host::"localhost"`.
    Fixed {
        /// Cedar entity type, without the namespace.
        kind: String,
        /// Cedar entity id.
        id: String,
    },
}

impl Resource {
    /// The Cedar entity type, without the namespace.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Path { .. } => "Path",
            Self::Host { .. } => "Host",
            Self::Id { kind, .. } => kind.as_str(),
            Self::Fixed { kind, .. } => kind,
        }
    }
}

/// Things that policies know by an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum IdKind {
    Project,
    Service,
    Job,
}

impl IdKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Project, Self::Service, Self::Job];

    /// The Cedar entity type, without the namespace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "Project",
            Self::Service => "Service",
            Self::Job => "Job",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What of `/proc` a tool sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcView {
    /// Nothing.
    #[default]
    None,
    /// Of a program: the processes of its call, in a `/proc` of the call's own.
    #[serde(rename = "self")]
    Own,
    /// The host's figures, through descriptors opened before anything was confined; builtins only.
    Host,
}

impl ProcView {
    /// The name in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Own => "self",
            Self::Host => "host",
        }
    }
}

/// Bounds of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// From go to the end, in milliseconds, by the launcher's clock.
    pub wall_ms_max: u64,
    /// Standard output, in bytes; standard error has the same bound of its own.
    pub output_bytes_max: usize,
    /// Address space, in bytes.
    pub memory_bytes_max: u64,
    /// Processes and threads at once.
    pub processes_max: u64,
    /// One file that the tool writes, in bytes; 0 for a tool that writes none.
    #[serde(default)]
    pub file_bytes_max: u64,
    /// All connections of one call, both ways together, in bytes; 0 for a tool that is connected to nothing.
    #[serde(default)]
    pub network_bytes_max: u64,
    /// What one call adds to the folders that it may change, in bytes on the disk; where the file does not say, as
    /// much as one file.
    #[serde(default)]
    pub written_bytes_max: u64,
    /// Files and folders that one call adds to them; where the file does not say, 10,000.
    #[serde(default)]
    pub written_files_max: u64,
}

/// Files and folders that a call may add where its manifest does not say.
const WRITTEN_FILES: u64 = 10_000;

impl Limits {
    /// With what the file did not say.
    fn complete(self) -> Self {
        if self.file_bytes_max == 0 {
            return self;
        }
        let or = |said: u64, otherwise| if said == 0 { otherwise } else { said };
        Self {
            written_bytes_max: or(self.written_bytes_max, self.file_bytes_max),
            written_files_max: or(self.written_files_max, WRITTEN_FILES),
            ..self
        }
    }
}

/// Why a manifest was refused, with the place where it can be mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// The file.
    pub file: PathBuf,
    /// Line in the file, from 1, where one is known.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file.display(), self.reason),
            None => write!(f, "{}: {}", self.file.display(), self.reason),
        }
    }
}

impl std::error::Error for ManifestError {}

/// What a manifest's words are resolved against.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `[paths]` of `par.toml`: name without `@` → absolute folder.
    pub names: BTreeMap<String, PathBuf>,
    /// Folders that no manifest may grant, contain or lie in: `etc/` and `data/`, as real paths.
    pub private: Vec<PathBuf>,
}

impl Manifest {
    /// Checks the bytes of the manifest `file`.
    pub fn parse(file: &Path, bytes: &[u8], places: &Places) -> Result<Self, ManifestError> {
        let refuse = Refusal { file, bytes };
        let text = std::str::from_utf8(bytes).map_err(|_| refuse.at(None, "is not UTF-8"))?;
        let raw: Raw = toml::from_str(text).map_err(|e| refuse.toml(&e))?;
        let no = |what: &str, reason: &str| refuse.at(Some(what), reason);

        check_name(&raw.name).map_err(|reason| no("name", &reason))?;
        if raw.summary.trim().is_empty() {
            return Err(no("summary", "`summary` is empty"));
        }
        let runner = raw.runner(file).map_err(|(key, reason)| no(key, &reason))?;
        check_input(&raw.input).map_err(|reason| no("[input]", &reason))?;
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
            digest: Digest::of(bytes),
        };
        manifest.digest = manifest.script().map_or(manifest.digest, |script| script.bind(manifest.digest));
        Ok(manifest)
    }
}

impl Places {
    /// What a grant says: an absolute path, or `@name` from the configuration with folders below it.
    fn spell(&self, grant: &str) -> Result<PathBuf, String> {
        let path = match grant.strip_prefix('@').map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
            Some((name, below)) => {
                let known = self.names.get(name);
                let known = known.ok_or_else(|| format!("`@{name}` is not in `[paths]` of par.toml"))?;
                // Not by `join`, which an absolute rest would lead elsewhere.
                let mut path = known.clone().into_os_string();
                path.push("/");
                path.push(below);
                PathBuf::from(path)
            }
            None => PathBuf::from(grant),
        };
        let plain = path.is_absolute()
            && path
                .components()
                .all(|c| matches!(c, std::path::Component::RootDir | std::path::Component::Normal(_)));
        if !plain {
            return Err(format!("`{grant}` is no absolute path without `.` and `..`"));
        }
        // Behind a name may stand more than one slash.
        Ok(path.components().collect())
    }

    /// The folder, or socket, that a grant names, without links.
    pub(super) fn resolve(&self, grant: &str) -> Result<PathBuf, String> {
        let path = self.spell(grant)?;
        // A grant through a link is judged by where it leads; an absent one by its words.
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        for private in &self.private {
            if real.starts_with(private) || private.starts_with(&real) {
                return Err(format!(
                    "`{grant}` contains, equals or lies in `{}`, which no tool may see",
                    private.display()
                ));
            }
        }
        Ok(real)
    }
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    summary: String,
    class: Class,
    risk: Risk,
    builtin: Option<Builtin>,
    command: Option<Vec<String>>,
    interpreter: Option<String>,
    script: Option<String>,
    args: Option<Vec<String>>,
    runtime: Option<Runtime>,
    #[serde(default)]
    output: Output,
    #[serde(default)]
    stdin: Stdin,
    untrusted_output: bool,
    #[serde(default)]
    recursive: bool,
    resource: RawResource,
    sandbox: RawSandbox,
    limits: Limits,
    input: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawResource {
    r#type: String,
    from: Option<String>,
    canonical: Option<String>,
    is: Option<String>,
    content: Option<String>,
    copy_in: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSandbox {
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    #[serde(default)]
    exec: Vec<String>,
    #[serde(default)]
    modes: Modes,
    #[serde(default)]
    connect: Vec<String>,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    proc: ProcView,
    #[serde(default)]
    secrets: Vec<String>,
}

/// Sockets, and entries that are hosts.
type Ends = (Vec<Connect>, Vec<String>);

impl Raw {
    fn runner(&self, file: &Path) -> Result<Runner, (&'static str, String)> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        if self.args.is_some() && self.script.is_none() {
            return say("args", "`args` is for scripts; those of a program stand in `command`");
        }
        if self.runtime.is_some() && self.command.is_none() {
            return say("runtime", "`runtime` is for programs");
        }
        match (&self.builtin, &self.command, &self.interpreter, &self.script) {
            (Some(_), None, None, None) if !self.sandbox.exec.is_empty() => {
                say("exec =", "a builtin starts no program")
            }
            (Some(_), None, None, None) if !self.sandbox.secrets.is_empty() => {
                say("secrets =", "a builtin is given no secret")
            }
            (Some(_), None, None, None) if self.output != Output::Text => {
                say("output", "a builtin's output is always one JSON object")
            }
            (Some(_), None, None, None) if self.stdin != Stdin::None => {
                say("stdin", "a builtin has its arguments without a standard input")
            }
            (Some(builtin), None, None, None) => Ok(Runner::Builtin(*builtin)),
            (None, Some(command), None, None) => self.program(command),
            (None, None, Some(interpreter), Some(script)) => self.script(file, interpreter, script),
            (None, None, Some(_), None) => say("interpreter", "has `interpreter` without `script`"),
            (None, None, None, Some(_)) => say("script", "has `script` without `interpreter`"),
            (Some(_), Some(_), None, None) => say("command", "has both `builtin` and `command`"),
            (None, None, None, None) => say("name", "has neither `builtin` nor `command` nor `script`"),
            _ => say("name", "has more than one of `builtin`, `command` and `script`"),
        }
    }

    fn program(&self, command: &[String]) -> Result<Runner, (&'static str, String)> {
        let at = |reason| ("command", reason);
        let (path, args) = command.split_first().ok_or_else(|| at("`command` is empty".to_owned()))?;
        let path = program_path(path).map_err(at)?;
        let runtime = self
            .runtime
            .ok_or_else(|| at("a program needs `runtime = \"static\"` or `\"dynamic\"`".to_owned()))?;
        let args = args.iter().map(|word| element(word)).collect::<Result<_, _>>().map_err(at)?;
        Ok(Runner::Program(Program { path, args, runtime, script: None, exec: self.exec()? }))
    }

    /// What an interpreter and the programs that a script starts need is not known, so that it is as
    /// for a dynamic one.
    fn script(&self, file: &Path, interpreter: &str, script: &str) -> Result<Runner, (&'static str, String)> {
        let path = program_path(interpreter).map_err(|reason| ("interpreter", reason))?;
        let script = Script::load(file, script).map_err(|reason| ("script", reason))?;
        let words = self.args.as_deref().unwrap_or_default();
        let args = words.iter().map(|word| element(word)).collect::<Result<_, _>>();
        let args = args.map_err(|reason| ("args", reason))?;
        let exec = self.exec()?;
        Ok(Runner::Program(Program { path, args, runtime: Runtime::Dynamic, script: Some(script), exec }))
    }

    fn exec(&self) -> Result<Vec<PathBuf>, (&'static str, String)> {
        let paths = self.sandbox.exec.iter().map(|path| program_path(path));
        paths.collect::<Result<_, _>>().map_err(|reason| ("exec =", reason))
    }

    fn resource(&self, input: &Value) -> Result<Resource, String> {
        let RawResource { r#type, from, canonical, is, .. } = &self.resource;
        match (r#type.as_str(), from, canonical.as_deref(), is) {
            ("Path", Some(from), Some("path"), None) => {
                Ok(Resource::Path { argument: required_string(from, input)? })
            }
            (kind, Some(from), Some("id"), None) => {
                let kind = IdKind::parse(kind)
                    .ok_or_else(|| format!("`type = \"{kind}\"` is not one of Project, Service and Job"))?;
                Ok(Resource::Id { kind, argument: required_string(from, input)? })
            }
            ("Host", Some(from), Some(form @ ("host" | "url")), None) => {
                let form = if form == "url" { HostForm::Url } else { HostForm::Host };
                Ok(Resource::Host { argument: required_string(from, input)?, form })
            }
            ("Host", None, None, Some(id)) if id == "localhost" => {
                Ok(Resource::Fixed { kind: "Host".to_owned(), id: id.clone() })
            }
            _ => {
                Err("is none of: `type = \"Path\"` with `from` and `canonical = \"path\"`; `type` Project, \
                      Service or Job with `from` and `canonical = \"id\"`; `type = \"Host\"` with \
                      `is = \"localhost\"`, or with `from` and `canonical = \"host\"` or `\"url\"`"
                    .to_owned())
            }
        }
    }

    /// The folder whose content a call is about. The copy of it that the tool is given lies in the first folder that it
    /// may change.
    fn content(&self, resource: &Resource) -> Result<Option<ContentFolder>, (&'static str, String)> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        let RawResource { content, copy_in, .. } = &self.resource;
        let Some(words) = content else {
            return match copy_in {
                None => Ok(None),
                Some(_) => say("copy_in", "`copy_in` is for tools with `content`"),
            };
        };
        if self.builtin.is_some()
            || self.sandbox.write.is_empty()
            || matches!(resource, Resource::Path { .. })
        {
            return say("content", "`content` is for programs that write, and whose resource is no path");
        }
        let is_required = |name: &str| required_string(&format!("/{name}"), &self.input).is_ok();
        let folder = ContentFolder::parse(words, copy_in.as_deref(), is_required);
        folder.map(Some).map_err(|reason| ("content", reason))
    }

    /// The folders that may be changed. One that ends in `/{argument}` is, of each call, the folder that
    /// the resource's id names there.
    fn write(&self, resource: &Resource, places: &Places) -> Result<Vec<WriteRoot>, String> {
        let id = match resource {
            Resource::Id { argument, .. } => Some(format!("/{{{argument}}}")),
            Resource::Path { .. } | Resource::Host { .. } | Resource::Fixed { .. } => None,
        };
        let root = |grant: &String| {
            let stem = id.as_ref().and_then(|id| grant.strip_suffix(id));
            if stem.is_none() && grant.contains(['{', '}']) {
                return Err(format!("in `{grant}` a placeholder is not the resource's id at the end"));
            }
            let folder = places.resolve(stem.unwrap_or(grant))?;
            Ok(WriteRoot { folder, by_id: stem.is_some() })
        };
        self.sandbox.write.iter().map(root).collect()
    }

    fn spelled(&self, places: &Places) -> Result<Vec<PathBuf>, String> {
        // A placeholder is a name of its own behind the folder.
        let folder = |grant: &String| places.spell(grant.split("/{").next().unwrap_or(grant));
        self.sandbox.read.iter().chain(&self.sandbox.write).map(folder).collect()
    }

    fn check_writing(&self) -> Result<(), (&'static str, String)> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        if self.sandbox.write.is_empty() {
            if self.sandbox.modes != Modes::Refuse {
                return say("modes", "`modes` is for tools that write");
            }
            let said = [
                ("file_bytes_max", self.limits.file_bytes_max),
                ("written_bytes_max", self.limits.written_bytes_max),
                ("written_files_max", self.limits.written_files_max),
            ];
            return match said.into_iter().find(|(_, most)| *most > 0) {
                None => Ok(()),
                Some((key, _)) => say(key, &format!("`{key}` is for tools that write")),
            };
        }
        if self.builtin.is_some() {
            return say("write =", "a builtin writes nothing");
        }
        if !matches!(self.class, Class::Write | Class::Exec | Class::Admin) {
            return say("class", "a tool that writes is of class `write`, `exec` or `admin`");
        }
        if self.resource.r#type == "Path" {
            return say("write =", "a tool that writes has a resource with an id, or `Host`, not a path");
        }
        match self.limits.file_bytes_max {
            0 => say("[limits]", "a tool that writes needs `file_bytes_max`"),
            _ => Ok(()),
        }
    }

    /// Who reads below a folder says so, and nobody else does.
    fn check_recursive(&self) -> Result<(), (&'static str, String)> {
        let say = |reason: String| Err(("recursive", reason));
        match self.builtin {
            _ if self.recursive && self.resource.r#type != "Path" => {
                say("`recursive` is for tools whose resource is a path".to_owned())
            }
            Some(Builtin::SearchFiles) if !self.recursive => Err((
                "builtin",
                "`search_files` reads below its resource: it needs `recursive = true`".to_owned(),
            )),
            Some(which) if self.recursive && which != Builtin::SearchFiles => {
                say("this builtin does not read below its resource".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The sockets, and the entries that are hosts. What is done over a connection nobody here sees: it is more than
    /// reading.
    fn connect(&self, places: &Places) -> Result<Ends, (&'static str, String)> {
        let entries = &self.sandbox.connect;
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        let (sockets, hosts): (Vec<_>, Vec<_>) =
            entries.iter().cloned().partition(|entry| entry.starts_with("unix:"));
        match self.builtin {
            Some(Builtin::HttpGet) if !sockets.is_empty() => {
                return say("connect =", "`http_get` is connected to hosts");
            }
            Some(builtin) if builtin != Builtin::HttpGet && !entries.is_empty() => {
                return say("connect =", "this builtin is connected to nothing");
            }
            _ if self.class == Class::Read && !entries.is_empty() => {
                return say("class", "a tool that is connected is not of class `read`");
            }
            // Who has calls for connections of its own could pass descriptors over a socket that it is given.
            _ if !sockets.is_empty() && !hosts.is_empty() => {
                return say("connect =", "a tool is connected to hosts or to sockets, not to both");
            }
            _ if sockets.len() > limits::CONNECTIONS_GIVEN_MAX => {
                return Err((
                    "connect =",
                    format!("more than {} connections", limits::CONNECTIONS_GIVEN_MAX),
                ));
            }
            _ => {}
        }
        let sockets = sockets.iter().map(|entry| Connect::parse(entry, places));
        Ok((sockets.collect::<Result<_, _>>().map_err(|reason| ("connect =", reason))?, hosts))
    }

    /// Who reaches hosts says which, and bounds it.
    fn check_reach(&self, reach: &Reach, resource: &Resource) -> Result<(), (&'static str, String)> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        let by_url = matches!(resource, Resource::Host { form: HostForm::Url, .. });
        match (self.builtin, reach.is_empty()) {
            (Some(Builtin::HttpGet), true) => say("builtin", "`http_get` needs `connect`"),
            (Some(Builtin::HttpGet), false) if !by_url => {
                say("[resource]", "`http_get` is about `type = \"Host\"` with `canonical = \"url\"`")
            }
            (_, false) => match self.limits.network_bytes_max {
                0 => say("[limits]", "a tool that is connected to hosts needs `network_bytes_max`"),
                _ => Ok(()),
            },
            (_, true) if matches!(resource, Resource::Host { .. }) => {
                say("[resource]", "a tool about a host needs `connect`")
            }
            (_, true) if self.limits.network_bytes_max != 0 => {
                say("network_bytes_max", "`network_bytes_max` is for tools with hosts in `connect`")
            }
            (_, true) => Ok(()),
        }
    }

    /// Scripts and secrets are told by names in `/proc`, so their tools have one to find them in.
    fn proc(&self) -> Result<ProcView, (&'static str, String)> {
        let is_told = self.script.is_some() || !self.sandbox.secrets.is_empty();
        match (self.sandbox.proc, self.builtin) {
            (ProcView::Host, None) => Err(("proc", "`proc = \"host\"` is for builtins".to_owned())),
            (ProcView::Own, Some(_)) => Err(("proc", "`proc = \"self\"` is for programs".to_owned())),
            (ProcView::None, None) if is_told => Ok(ProcView::Own),
            (proc, _) => Ok(proc),
        }
    }
}

/// The name of the top-level argument that `from` points to, a required string.
fn required_string(from: &str, input: &Value) -> Result<String, String> {
    let argument = from.strip_prefix('/').filter(|name| !name.contains(['/', '~']));
    let argument =
        argument.ok_or_else(|| format!("`from = \"{from}\"` does not point to a top-level argument"))?;
    let required = input.pointer("/required").and_then(Value::as_array);
    let required = required.is_some_and(|names| names.iter().any(|name| name == argument));
    let string = input.pointer(&format!("/properties/{argument}/type")).is_some_and(|t| t == "string");
    if required && string {
        Ok(argument.to_owned())
    } else {
        Err(format!("`from = \"{from}\"` does not point to a required string"))
    }
}

/// An absolute path of a regular file that is there.
fn program_path(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        return Err(format!("`{}` is no absolute path", path.display()));
    }
    let there = std::fs::metadata(&path).map_err(|e| format!("program `{}`: {e}", path.display()))?;
    if !there.is_file() {
        return Err(format!("program `{}` is no regular file", path.display()));
    }
    Ok(path)
}

fn element(word: &str) -> Result<Element, String> {
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match inner {
        Some(name) if !name.contains(['{', '}']) => Ok(Element::Argument(name.to_owned())),
        None if !word.contains(['{', '}']) => Ok(Element::Literal(word.to_owned())),
        _ => Err(format!("in `{word}` a placeholder does not fill the whole element")),
    }
}

fn check_elements(program: &Program, input: &Value) -> Result<(), String> {
    for element in &program.args {
        let Element::Argument(name) = element else { continue };
        let kind = input.pointer(&format!("/properties/{name}/type")).and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer")) {
            return Err(format!("`{{{name}}}` is not a declared string or integer argument"));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
    let rest = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !first || !rest || name.len() > 64 {
        return Err(format!("`{name}` does not match `[a-z][a-z0-9_]*`, at most 64 bytes"));
    }
    match taken(name) {
        None => Ok(()),
        Some(what) => Err(format!("`{name}` is the name of {what} in policies: take another")),
    }
}

fn check_input(input: &Value) -> Result<(), String> {
    if input.pointer("/type").is_none_or(|t| t != "object") {
        return Err("`type` is not \"object\"".to_owned());
    }
    if input.pointer("/additionalProperties").is_none_or(|open| open != false) {
        return Err("`additionalProperties = false` is missing: an open object is refused".to_owned());
    }
    Ok(())
}

fn check_limits(limits: &Limits) -> Result<(), String> {
    let bounds = [
        ("wall_ms_max", limits.wall_ms_max, 3_600_000),
        ("output_bytes_max", limits.output_bytes_max as u64, 1 << 20),
        ("memory_bytes_max", limits.memory_bytes_max, 1 << 40),
        ("processes_max", limits.processes_max, 1 << 16),
        // Absent is 0, which is for tools that write nothing.
        ("file_bytes_max", limits.file_bytes_max.max(1), 1 << 40),
        ("network_bytes_max", limits.network_bytes_max.max(1), 1 << 40),
        ("written_bytes_max", limits.written_bytes_max.max(1), 1 << 50),
        ("written_files_max", limits.written_files_max.max(1), 1 << 40),
    ];
    for (name, value, most) in bounds {
        if value == 0 || value > most {
            return Err(format!("`{name} = {value}` is not within 1 and {most}"));
        }
    }
    Ok(())
}

/// Builds errors that point into the file.
#[derive(Clone, Copy)]
struct Refusal<'a> {
    file: &'a Path,
    bytes: &'a [u8],
}

impl Refusal<'_> {
    /// An error at the first line that starts with `key`, where there is one.
    fn at(&self, key: Option<&str>, reason: &str) -> ManifestError {
        let text = String::from_utf8_lossy(self.bytes);
        let line = key.and_then(|key| {
            text.lines().position(|line| line.trim_start().starts_with(key)).map(|at| at + 1)
        });
        ManifestError { file: self.file.to_owned(), line, reason: reason.to_owned() }
    }

    fn toml(&self, error: &toml::de::Error) -> ManifestError {
        let line =
            error.span().map(|span| 1 + self.bytes.iter().take(span.start).filter(|b| **b == b'\n').count());
        ManifestError { file: self.file.to_owned(), line, reason: error.message().to_owned() }
    }
}
