//! The values of a manifest's members.

use super::host_form::HostForm;
use super::script::Script;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The class of a tool: policies may name the class instead of the tool.
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

/// What a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A function of PAR, run in the sandboxed child without exec.
    Builtin(Builtin),
    /// A function of the front. It has no child: it reads PAR's own record, or asks what only the
    /// front may ask, such as the resolver.
    Front(FrontTool),
    /// A program, run by descriptor under the child's init.
    Program(Program),
}

/// The builtin functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum Builtin {
    CertificateFile,
    Connections,
    CronList,
    DiffFiles,
    DiskIo,
    DiskUsage,
    FailedUnits,
    FileInfo,
    HealthCheck,
    HttpGet,
    HttpProbe,
    Interfaces,
    JournalSize,
    LargestPaths,
    ListDir,
    ListeningPorts,
    Logins,
    MemoryUsage,
    PendingUpdates,
    ProcessInfo,
    ProcessList,
    ReadConfig,
    ReadFile,
    SearchFiles,
    ServiceList,
    ServiceRestart,
    ServiceStatus,
    TailFile,
    TimerList,
    TlsCertificate,
}

impl Builtin {
    /// Those that report on the host, from what `proc = "host"` lets them read.
    pub const ON_HOST: [Self; 9] = [
        Self::Connections,
        Self::DiskIo,
        Self::DiskUsage,
        Self::HealthCheck,
        Self::Interfaces,
        Self::ListeningPorts,
        Self::MemoryUsage,
        Self::ProcessInfo,
        Self::ProcessList,
    ];

    /// Whether it is one of [`Self::ON_HOST`].
    #[must_use]
    pub fn reports_on_the_host(self) -> bool {
        Self::ON_HOST.contains(&self)
    }

    /// Whether it reports on the host from files in the folders of `read`, in which it opens only
    /// names of a fixed table.
    #[must_use]
    pub const fn reads_system_files(self) -> bool {
        matches!(self, Self::CronList | Self::JournalSize | Self::Logins | Self::PendingUpdates)
    }

    /// Whether it reads in the folders of `read` without being about one object there.
    #[must_use]
    pub const fn reads_in_folders(self) -> bool {
        self.reads_system_files() || matches!(self, Self::HealthCheck)
    }

    /// Whether it asks systemd: its manifest must `connect` it to the system bus, and to nothing
    /// else. What it says there is PAR's own, so that it may be of class `read`.
    #[must_use]
    pub const fn asks_systemd(self) -> bool {
        matches!(
            self,
            Self::FailedUnits
                | Self::ServiceList
                | Self::ServiceRestart
                | Self::ServiceStatus
                | Self::TimerList
        )
    }

    /// Whether it does without the sockets of its manifest: then its result says what is missing.
    #[must_use]
    pub const fn does_without_sockets(self) -> bool {
        matches!(self, Self::HealthCheck)
    }

    /// Whether it is about one unit: its manifest's resource must be a `Service`.
    #[must_use]
    pub const fn is_about_a_service(self) -> bool {
        matches!(self, Self::ServiceRestart | Self::ServiceStatus)
    }

    /// Whether it lists the units of this host: its manifest's resource must have them as members.
    #[must_use]
    pub const fn lists_units(self) -> bool {
        matches!(self, Self::FailedUnits | Self::ServiceList | Self::TimerList)
    }

    /// Whether it changes what it is about.
    #[must_use]
    pub const fn acts(self) -> bool {
        matches!(self, Self::ServiceRestart)
    }

    /// How its resource names the one host that it is connected to; `None` if it makes no
    /// connection to a host.
    #[must_use]
    pub const fn sink(self) -> Option<HostForm> {
        match self {
            Self::HttpGet | Self::HttpProbe => Some(HostForm::Url),
            Self::TlsCertificate => Some(HostForm::Host),
            _ => None,
        }
    }

    /// Whether it reads below its resource, a folder: its manifest must be `recursive`.
    #[must_use]
    pub const fn reads_below(self) -> bool {
        matches!(self, Self::DiffFiles | Self::LargestPaths | Self::SearchFiles)
    }
}

/// The functions of the front that are tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum FrontTool {
    DnsLookup,
    Recall,
    TcpProbe,
    WhoWasDenied,
}

impl FrontTool {
    /// How its resource names a host outside; `None` if no byte of it leaves this host.
    #[must_use]
    pub const fn sink(self) -> Option<HostForm> {
        match self {
            Self::DnsLookup => Some(HostForm::Name),
            Self::TcpProbe => Some(HostForm::Host),
            Self::Recall | Self::WhoWasDenied => None,
        }
    }
}

/// A program and the form of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Absolute path; opened once by the launcher and executed by descriptor.
    pub path: PathBuf,
    /// Arguments after `argv[0]`; for a script, after its name, which is `argv[1]`.
    pub args: Vec<Element>,
    /// Whether the program needs a loader and shared libraries.
    pub runtime: Runtime,
    /// The script that the program interprets, if it is an interpreter.
    pub script: Option<Script>,
    /// Absolute paths of the other programs that it may start.
    pub exec: Vec<PathBuf>,
}

/// A folder that a tool may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRoot {
    /// The real folder.
    pub folder: PathBuf,
    /// Whether a call may change only the folder in it that the resource's id names, not the whole
    /// folder.
    pub by_id: bool,
}

/// What happens to a change of modes. No tool can make one: by path it could change modes anywhere,
/// not only in the folders that the tool may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Modes {
    /// It fails.
    #[default]
    Refuse,
    /// It reports success and changes nothing, for programs that would otherwise stop.
    Ignore,
}

/// The format of a tool's standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Text or bytes, shown as they are.
    #[default]
    Text,
    /// One JSON object. Anything else is shown as text, and is an error.
    Json,
    /// What `journalctl -o json` prints, one entry a line. The result is one JSON object with some
    /// members of each entry.
    Journal,
}

/// The content of a program's standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// Nothing.
    #[default]
    None,
    /// The arguments: one line with one JSON object, with the resource in canonical form.
    Json,
}

/// One element of an argument array. An argument fills a whole element: no shell, no splitting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// Passed as written.
    Literal(String),
    /// The argument with this name; for the resource, its canonical form. A value that starts with
    /// `-` is refused; an absent argument leaves the element out.
    Argument(String),
    /// An option with its value, such as `--unit={unit}`: the option as written, up to `=`, and the
    /// argument. Its value cannot be read as another option. An absent argument leaves the element
    /// out.
    Setting(String, String),
}

/// What a program needs to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Only itself.
    Static,
    /// The dynamic loader and the system's library folders.
    Dynamic,
}

/// What the policy sees as the resource of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceSpec {
    /// A path argument, resolved by the sandbox before the decision.
    Path {
        /// Name of the top-level argument that holds the path.
        argument: String,
    },
    /// An entity with its own name: the argument itself, in the form that
    /// [`check_id`](crate::tools::check_id) requires.
    Id {
        /// The entity type.
        kind: IdKind,
        /// Name of the top-level argument that holds the id.
        argument: String,
    },
    /// A host with its port. Its name is not resolved before the decision.
    Host {
        /// Name of the top-level argument that names it.
        argument: String,
        /// The form of the name.
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

impl ResourceSpec {
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

/// Entity types that policies know by an id.
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

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The part of `/proc` that a tool sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcView {
    /// Nothing.
    #[default]
    None,
    /// For programs: the processes of the call, in a `/proc` of its own.
    #[serde(rename = "self")]
    Own,
    /// For builtins: the host's figures, through descriptors that were opened before the process
    /// was confined.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time from the go to the end, in milliseconds, by the launcher's clock.
    pub wall_ms_max: u64,
    /// Standard output, in bytes; standard error has the same limit separately.
    pub output_bytes_max: usize,
    /// Address space, in bytes.
    pub memory_bytes_max: u64,
    /// Processes and threads at the same time.
    pub processes_max: u64,
    /// The largest file that the tool writes, in bytes; 0 for a tool that writes no files.
    pub file_bytes_max: u64,
    /// All connections of one call, both directions together, in bytes; 0 for a tool without hosts.
    pub network_bytes_max: u64,
    /// What one call adds to the folders that it may change, in bytes on disk; by default the limit
    /// of one file.
    pub written_bytes_max: u64,
    /// Files and folders that one call adds to them; 10,000 by default.
    pub written_files_max: u64,
}

/// Files and folders that a call may add by default.
const WRITTEN_FILES: u64 = 10_000;

impl Limits {
    /// Fills in the defaults.
    pub(super) fn complete(self) -> Self {
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
