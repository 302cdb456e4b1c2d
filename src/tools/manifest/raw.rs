//! The file as it is written, and checks of members that depend on each other. A member for a later
//! version is refused by name, never ignored.

use super::check::{elements, program_path, required_string, undeclared};
use super::content::ContentFolder;
use super::error::{Fault, with_lines};
use super::host_form::HostForm;
use super::hosts::Reach;
use super::paths::Places;
use super::script::Script;
use super::sockets::Connect;
use super::words::{
    Builtin, Class, FrontTool, IdKind, Limits, Modes, Output, ProcView, Program, ResourceSpec, Risk, Runner,
    Runtime, Stdin, WriteRoot,
};
use crate::types::{limits, nearest};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The file as written. A required member is absent if it could not be read.
pub(super) struct RawManifest {
    pub(super) name: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) class: Option<Class>,
    pub(super) risk: Option<Risk>,
    pub(super) builtin: Option<Builtin>,
    pub(super) front: Option<FrontTool>,
    pub(super) command: Option<Vec<String>>,
    pub(super) interpreter: Option<String>,
    pub(super) script: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) runtime: Option<Runtime>,
    pub(super) output: Output,
    pub(super) stdin: Stdin,
    pub(super) untrusted_output: Option<bool>,
    pub(super) recursive: bool,
    pub(super) sensitive: Vec<String>,
    /// `None` if the manifest does not say.
    pub(super) sends: Option<Vec<String>>,
    pub(super) resource: Option<RawResource>,
    pub(super) sandbox: RawSandbox,
    pub(super) limits: Option<Limits>,
    pub(super) input: Option<Value>,
    pub(super) output_schema: Option<Value>,
    /// Members outside tables that are there, but could not be read, and those that an unknown key
    /// was meant to be.
    pub(super) unsure: Vec<&'static str>,
    /// Whether all of `[sandbox]` was read.
    pub(super) is_sandbox_whole: bool,
}

pub(super) struct RawResource {
    pub(super) r#type: String,
    pub(super) from: Option<String>,
    pub(super) canonical: Option<String>,
    pub(super) is: Option<String>,
    pub(super) members: Option<String>,
    pub(super) content: Option<String>,
    pub(super) copy_in: Option<String>,
}

#[derive(Default)]
pub(super) struct RawSandbox {
    pub(super) read: Vec<String>,
    pub(super) write: Vec<String>,
    pub(super) exec: Vec<String>,
    pub(super) code: Vec<String>,
    pub(super) modes: Modes,
    pub(super) connect: Vec<String>,
    pub(super) addresses: Vec<String>,
    pub(super) proc: ProcView,
    pub(super) secrets: Vec<String>,
    pub(super) groups: Vec<String>,
}

/// The types of a resource.
const RESOURCE_TYPES: [&str; 5] = ["Path", "Project", "Service", "Job", "Host"];

/// Sockets, and entries that are hosts.
pub(super) type Ends = (Vec<Connect>, Vec<String>);

impl RawManifest {
    /// Whether all members outside tables were read.
    pub(super) fn is_whole(&self) -> bool {
        self.unsure.is_empty()
    }

    /// Whether a success is one JSON object; `None` if the file does not say what runs.
    pub(super) fn is_structured(&self) -> Option<bool> {
        let deciding = ["builtin", "front", "command", "script", "output", "output_schema"];
        if deciding.iter().any(|key| self.unsure.contains(key)) {
            return None;
        }
        let is_program = self.command.is_some() || self.script.is_some();
        let is_known = is_program || self.builtin.is_some() || self.front.is_some();
        is_known.then_some(self.output != Output::Text || !is_program)
    }

    /// The faults of the program's path, for a file of which [`Self::runner`] cannot be asked.
    pub(super) fn program_faults(&self) -> Vec<Fault> {
        let command = self.command.as_ref().and_then(|command| command.first());
        let paths = [("command", command), ("interpreter", self.interpreter.as_ref())];
        let fault = |(key, path): (&'static str, Option<&String>)| Some((key, program_path(path?).err()?));
        paths.into_iter().filter_map(fault).collect()
    }

    /// Arguments of the program that the schema does not declare.
    pub(super) fn element_faults(&self) -> Vec<Fault> {
        let Some(input) = &self.input else { return Vec::new() };
        let command = self.command.as_ref().and_then(|command| command.get(1..));
        let words = [("command", command), ("args", self.args.as_deref())];
        let read = words.into_iter().filter_map(|(key, words)| Some((key, elements(words?).ok()?)));
        read.flat_map(|(key, elements)| undeclared(&elements, input).into_iter().map(move |why| (key, why)))
            .collect()
    }

    /// What runs, or every fault of it.
    pub(super) fn runner(&self, file: &Path) -> Result<Runner, Vec<Fault>> {
        let say = |key, reason: &str| Err(vec![(key, reason.to_owned())]);
        if self.args.is_some() && self.script.is_none() {
            return say("args", "`args` is for scripts; write the arguments of a program in `command`");
        }
        if self.runtime.is_some() && self.command.is_none() {
            return say("runtime", "`runtime` is for programs");
        }
        if let Some(which) = self.front {
            return self.front_runner(which).map_err(|fault| vec![fault]);
        }
        match (&self.builtin, &self.command, &self.interpreter, &self.script) {
            (Some(_), None, None, None) if !self.sandbox.exec.is_empty() => {
                say("exec =", "a builtin starts no program")
            }
            (Some(_), None, None, None) if !self.sandbox.code.is_empty() => {
                say("code =", "`code` is for programs and scripts")
            }
            (Some(_), None, None, None) if !self.sandbox.secrets.is_empty() => {
                say("secrets =", "a builtin is given no secret")
            }
            (Some(_), None, None, None) if self.output != Output::Text => {
                say("output", "a builtin's output is always one JSON object")
            }
            (Some(_), None, None, None) if self.stdin != Stdin::None => {
                say("stdin", "a builtin gets its arguments without standard input")
            }
            (Some(builtin), None, None, None) => Ok(Runner::Builtin(*builtin)),
            (None, Some(command), None, None) => self.program(command),
            (None, None, Some(interpreter), Some(script)) => self.script(file, interpreter, script),
            (None, None, Some(_), None) => say("interpreter", "has `interpreter` without `script`"),
            (None, None, None, Some(_)) => say("script", "has `script` without `interpreter`"),
            (Some(_), Some(_), None, None) => say("command", "has both `builtin` and `command`"),
            (None, None, None, None) => {
                say("name", "has neither `builtin` nor `command` nor `script` nor `front`")
            }
            _ => say("name", "has more than one of `builtin`, `command` and `script`"),
        }
    }

    fn program(&self, command: &[String]) -> Result<Runner, Vec<Fault>> {
        let at = |reason| ("command", reason);
        let (path, args) = command.split_first().ok_or_else(|| vec![at("`command` is empty".to_owned())])?;
        let mut faults = Vec::new();
        let path = program_path(path).map_err(|reason| faults.push(at(reason)));
        let runtime = self.runtime.ok_or_else(|| {
            let reason =
                "a program needs `runtime`: \"dynamic\" if it needs shared libraries, else \"static\"";
            faults.push(at(with_lines(reason, "runtime = \"dynamic\"")));
        });
        let args = elements(args).map_err(|reason| faults.push(at(reason)));
        let exec = self.exec().map_err(|fault| faults.push(fault));
        match (path, runtime, args, exec) {
            (Ok(path), Ok(runtime), Ok(args), Ok(exec)) => {
                Ok(Runner::Program(Program { path, args, runtime, script: None, exec }))
            }
            _ => Err(faults),
        }
    }

    /// The needs of an interpreter, and of the programs that a script starts, are unknown: they
    /// count as dynamic.
    fn script(&self, file: &Path, interpreter: &str, script: &str) -> Result<Runner, Vec<Fault>> {
        let mut faults = Vec::new();
        let path = program_path(interpreter).map_err(|reason| faults.push(("interpreter", reason)));
        let script = Script::load(file, script).map_err(|reason| faults.push(("script", reason)));
        let args = elements(self.args.as_deref().unwrap_or_default());
        let args = args.map_err(|reason| faults.push(("args", reason)));
        let exec = self.exec().map_err(|fault| faults.push(fault));
        match (path, script, args, exec) {
            (Ok(path), Ok(script), Ok(args), Ok(exec)) => {
                let runtime = Runtime::Dynamic;
                Ok(Runner::Program(Program { path, args, runtime, script: Some(script), exec }))
            }
            _ => Err(faults),
        }
    }

    fn exec(&self) -> Result<Vec<PathBuf>, Fault> {
        let paths = self.sandbox.exec.iter().map(|path| program_path(path));
        paths.collect::<Result<_, _>>().map_err(|reason| ("exec =", reason))
    }

    pub(super) fn resource(&self, raw: &RawResource, input: &Value) -> Result<ResourceSpec, Fault> {
        if !RESOURCE_TYPES.contains(&raw.r#type.as_str()) {
            let meant = nearest(&raw.r#type, RESOURCE_TYPES);
            let meant = meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
            let reason = format!(
                "`type = \"{}\"` is not one of Path, Project, Service, Job and Host{meant}",
                raw.r#type
            );
            return Err(("[resource] type", reason));
        }
        self.known_resource(raw, input).map_err(|reason| ("[resource]", reason))
    }

    fn known_resource(&self, raw: &RawResource, input: &Value) -> Result<ResourceSpec, String> {
        let RawResource { r#type, from, canonical, is, .. } = raw;
        if self.builtin.is_some_and(Builtin::is_about_a_service)
            && (r#type, from.as_deref()) != (&"Service".to_owned(), Some("/service"))
        {
            return Err("this builtin needs `type = \"Service\"`, `from = \"/service\"` and \
                        `canonical = \"id\"`: rules decide on the unit"
                .to_owned());
        }
        match (r#type.as_str(), from, canonical.as_deref(), is) {
            ("Path", Some(from), Some("path"), None) => {
                Ok(ResourceSpec::Path { argument: required_string(from, input)? })
            }
            (kind, Some(from), Some("id"), None) => {
                let kind = IdKind::parse(kind)
                    .ok_or_else(|| format!("`type = \"{kind}\"` is not one of Project, Service and Job"))?;
                Ok(ResourceSpec::Id { kind, argument: required_string(from, input)? })
            }
            ("Host", Some(from), Some(form @ ("host" | "url" | "name")), None) => {
                let form = match form {
                    "url" => HostForm::Url,
                    "name" => HostForm::Name,
                    _ => HostForm::Host,
                };
                Ok(ResourceSpec::Host { argument: required_string(from, input)?, form })
            }
            ("Host", None, None, Some(id)) if id == "localhost" => {
                Ok(ResourceSpec::Fixed { kind: "Host".to_owned(), id: id.clone() })
            }
            _ => Err(
                "expected one of: `type = \"Path\"` with `from` and `canonical = \"path\"`; `type` Project, \
                      Service or Job with `from` and `canonical = \"id\"`; `type = \"Host\"` with \
                      `is = \"localhost\"`, or with `from` and `canonical = \"host\"`, `\"url\"` or `\"name\"`"
                    .to_owned(),
            ),
        }
    }

    /// The folder whose content a call is about. The tool's copy of it lies in the first folder
    /// that the tool may change.
    pub(super) fn content(
        &self,
        raw: &RawResource,
        resource: &ResourceSpec,
        input: &Value,
    ) -> Result<Option<ContentFolder>, Fault> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        let RawResource { content, copy_in, .. } = raw;
        let Some(words) = content else {
            return match copy_in {
                None => Ok(None),
                Some(_) => say("copy_in", "`copy_in` is for tools with `content`"),
            };
        };
        if self.builtin.is_some()
            || self.front.is_some()
            || self.sandbox.write.is_empty()
            || matches!(resource, ResourceSpec::Path { .. })
        {
            return say("content", "`content` is for programs that write, and whose resource is not a path");
        }
        let is_required = |name: &str| required_string(&format!("/{name}"), input).is_ok();
        let folder = ContentFolder::parse(words, copy_in.as_deref(), is_required);
        folder.map(Some).map_err(|reason| ("content", reason))
    }

    /// The folders that may be changed. A grant that ends in `/{argument}` gives each call the
    /// folder below it that the resource's id names.
    pub(super) fn write(
        &self,
        resource: Option<&ResourceSpec>,
        places: &Places,
    ) -> Result<Vec<WriteRoot>, String> {
        let id = match resource {
            Some(ResourceSpec::Id { argument, .. }) => Some(format!("/{{{argument}}}")),
            Some(ResourceSpec::Path { .. } | ResourceSpec::Host { .. } | ResourceSpec::Fixed { .. })
            | None => None,
        };
        let root = |grant: &String| {
            // A placeholder cannot be judged if the resource could not be read.
            let stem = match (&id, resource) {
                (_, None) => grant.split_once("/{").map(|(stem, _)| stem),
                (id, Some(_)) => id.as_ref().and_then(|id| grant.strip_suffix(id)),
            };
            if stem.is_none() && grant.contains(['{', '}']) {
                return Err(format!("the placeholder in `{grant}` must be the resource's id, at the end"));
            }
            let folder = places.resolve(stem.unwrap_or(grant))?;
            Ok(WriteRoot { folder, by_id: stem.is_some() })
        };
        self.sandbox.write.iter().map(root).collect()
    }

    pub(super) fn spelled(&self, places: &Places) -> Result<Vec<PathBuf>, String> {
        // A placeholder is a separate name after the folder.
        let folder = |grant: &String| places.spell(grant.split("/{").next().unwrap_or(grant));
        let all = self.sandbox.read.iter().chain(&self.sandbox.write).chain(&self.sandbox.code);
        all.map(folder).collect()
    }

    /// The folders of code, without links.
    pub(super) fn code(&self, places: &Places) -> Result<Vec<PathBuf>, Fault> {
        let say = |reason| Err(("code =", reason));
        if self.sandbox.code.len() > limits::CODE_FOLDERS_MAX {
            return say(format!("more than {} folders of code", limits::CODE_FOLDERS_MAX));
        }
        let folder = |grant: &String| {
            let path = places.resolve(grant)?;
            let meta = std::fs::metadata(&path).map_err(|e| format!("code folder `{grant}`: {e}"))?;
            if meta.is_dir() { Ok(path) } else { Err(format!("code folder `{grant}` is not a folder")) }
        };
        self.sandbox.code.iter().map(folder).collect::<Result<_, _>>().or_else(say)
    }

    pub(super) fn check_writing(&self, limits: &Limits, raw: &RawResource) -> Result<(), Fault> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        if self.sandbox.write.is_empty() {
            if self.sandbox.modes != Modes::Refuse {
                return say("modes", "`modes` is only for tools that write");
            }
            let said = [
                ("file_bytes_max", limits.file_bytes_max),
                ("written_bytes_max", limits.written_bytes_max),
                ("written_files_max", limits.written_files_max),
            ];
            return match said.into_iter().find(|(_, most)| *most > 0) {
                None => Ok(()),
                Some((key, _)) => say(key, &format!("`{key}` is only for tools that write")),
            };
        }
        if self.builtin.is_some() {
            return say("write =", "a builtin writes nothing");
        }
        if !matches!(self.class, None | Some(Class::Write | Class::Exec | Class::Admin)) {
            return say("class", "a tool that writes must be of class `write`, `exec` or `admin`");
        }
        if raw.r#type == "Path" {
            return say(
                "write =",
                "a tool that writes must have a resource with an id, or `Host`, not a path",
            );
        }
        match limits.file_bytes_max {
            0 => {
                let reason =
                    with_lines("a tool that writes needs `file_bytes_max`", "file_bytes_max = 1048576");
                Err(("[limits]", reason))
            }
            _ => Ok(()),
        }
    }

    /// A tool that reads below a folder must declare it, and no other tool may.
    pub(super) fn check_recursive(&self, raw: &RawResource) -> Result<(), Fault> {
        let say = |reason: String| Err(("recursive", reason));
        match self.builtin {
            _ if self.recursive && raw.r#type != "Path" => {
                say("`recursive` is for tools whose resource is a path".to_owned())
            }
            Some(which) if which.reads_below() && !self.recursive => {
                let reason = "this builtin reads below its resource: it needs `recursive = true`";
                Err(("builtin", reason.to_owned()))
            }
            Some(which) if self.recursive && !which.reads_below() => {
                say("this builtin does not read below its resource".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The sockets, and the entries that are hosts. PAR does not see what is done over a
    /// connection: it is more than reading.
    pub(super) fn connect(&self, places: &Places) -> Result<Ends, Fault> {
        let entries = &self.sandbox.connect;
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        let (sockets, hosts): (Vec<_>, Vec<_>) =
            entries.iter().cloned().partition(|entry| entry.starts_with("unix:"));
        match self.builtin {
            Some(builtin) if builtin.sink().is_some() && !sockets.is_empty() => {
                return say("connect =", "this builtin connects only to hosts");
            }
            Some(builtin) if builtin.asks_systemd() => {
                if sockets.len() != 1 || !hosts.is_empty() {
                    let reason = "this builtin needs the socket of the system bus and nothing else";
                    let line = "connect = [\"unix:/run/dbus/system_bus_socket\"]";
                    return Err(("connect =", with_lines(reason, line)));
                }
                if builtin.acts() && matches!(self.class, Some(Class::Read | Class::Net)) {
                    return say("class", "this builtin acts: its class is `write`, `exec` or `admin`");
                }
            }
            // It asks only how many units failed, and does without.
            Some(Builtin::HealthCheck) if sockets.len() <= 1 && hosts.is_empty() => {}
            Some(builtin) if builtin.sink().is_none() && !entries.is_empty() => {
                return say("connect =", "this builtin makes no connections");
            }
            // What a reader asks another process of this host stays here, if the author says so.
            _ if self.class == Some(Class::Read)
                && !entries.is_empty()
                && !(hosts.is_empty() && self.sends.as_ref().is_some_and(Vec::is_empty)) =>
            {
                return say(
                    "class",
                    "a tool with `connect` cannot be of class `read`, unless it lists only sockets and \
                     says `sends = []`",
                );
            }
            // A program that can open connections of its own could pass descriptors over a socket
            // that it is given.
            _ if !sockets.is_empty() && !hosts.is_empty() => {
                return say("connect =", "`connect` lists hosts or sockets, not both");
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

    /// A tool that reaches hosts must list them, and bound its traffic.
    pub(super) fn check_reach(
        &self,
        reach: &Reach,
        resource: &ResourceSpec,
        limits: &Limits,
    ) -> Result<(), Fault> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        if let Some(which) = self.front {
            return Self::check_front_reach(which, reach, resource, limits);
        }
        if matches!(resource, ResourceSpec::Host { form: HostForm::Name, .. }) {
            return say("[resource]", "`canonical = \"name\"` is for `front = \"dns_lookup\"`");
        }
        let needed = self.builtin.and_then(Builtin::sink);
        let given = match resource {
            ResourceSpec::Host { form, .. } => Some(*form),
            ResourceSpec::Path { .. } | ResourceSpec::Id { .. } | ResourceSpec::Fixed { .. } => None,
        };
        match (needed, reach.is_empty()) {
            (Some(_), true) => say("builtin", "this builtin needs `connect`"),
            (Some(form), false) if given != Some(form) => {
                let form = form.as_str();
                let reason = format!("this builtin needs `type = \"Host\"` with `canonical = \"{form}\"`");
                say("[resource]", &reason)
            }
            (_, false) => match limits.network_bytes_max {
                0 => {
                    let reason = "a tool that is connected to hosts needs `network_bytes_max`";
                    Err(("[limits]", with_lines(reason, "network_bytes_max = 10485760")))
                }
                _ => Ok(()),
            },
            (_, true) if matches!(resource, ResourceSpec::Host { .. }) => {
                say("[resource]", "a tool about a host needs `connect`")
            }
            (_, true) if limits.network_bytes_max != 0 => {
                say("network_bytes_max", "`network_bytes_max` is for tools with hosts in `connect`")
            }
            (_, true) => Ok(()),
        }
    }

    /// Scripts and secrets are passed as names in `/proc`, so their tools get a `/proc` to find
    /// them in. A builtin that reports on the host needs the host's.
    pub(super) fn proc(&self) -> Result<ProcView, Fault> {
        let needs_proc = self.script.is_some() || !self.sandbox.secrets.is_empty();
        match (self.sandbox.proc, self.builtin) {
            (_, None) if self.front.is_some() => self.front_proc(),
            (ProcView::Host, None) => Err(("proc", "`proc = \"host\"` is for builtins".to_owned())),
            (ProcView::Own, Some(_)) => Err(("proc", "`proc = \"self\"` is for programs".to_owned())),
            (ProcView::Host, Some(which)) if !which.reports_on_the_host() => {
                Err(("proc", "this builtin does not report on the host".to_owned()))
            }
            (ProcView::None, Some(which)) if which.reports_on_the_host() => Ok(ProcView::Host),
            (ProcView::None, None) if needs_proc => Ok(ProcView::Own),
            (proc, _) => Ok(proc),
        }
    }
}
