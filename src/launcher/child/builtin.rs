//! The last step of a builtin's child: it opens what the builtin reads, loads the last filter, and
//! runs the function.

use super::certificate_files::CertificateFiles;
use super::host_proc::CallProc;
use super::http::WebCall;
use super::start::{Start, send_or_exit};
use super::timed::TimedSocket;
use super::{certificates, http, largest, pair, search, system_files, unix};
use crate::call::{Beneath, FileKind, PathObject};
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::protocol::ChildMessage;
use crate::launcher::sys;
use crate::launcher::view::files::open_for_reading;
use crate::tools::builtin::host::{HostFacts, HostView, report};
use crate::tools::builtin::{self, Answer, NOT_FOUND, write_answer};
use crate::tools::{Builtin, ResourceSpec};
use crate::types::clock::mono_us;
use rustix::io::Errno;
use seccompiler::BpfProgram;
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

/// How long a report waits for one answer of the bus: it is one of many checks.
const BUS_WAIT: Duration = Duration::from_secs(1);

/// What a call hands to its builtin.
pub(crate) struct BuiltinGiven<'a> {
    /// What is left out below its object.
    pub(crate) excluded: &'a [&'a Beneath],
    /// The units that it leaves out.
    pub(crate) units: &'a [&'a str],
    /// The connection that was made for it.
    pub(crate) connected: Option<OwnedFd>,
    /// Whether an update waits for a restart of the host, if the host says so.
    pub(crate) needs_reboot: Option<bool>,
}

/// What a builtin is given in addition to its arguments.
struct BuiltinInputs<'a> {
    /// The object, opened with `O_PATH`.
    object: Option<(&'a PathObject, &'a OwnedFd)>,
    /// The same, open for reading, or why not.
    opened: Option<Result<OwnedFd, String>>,
    proc: CallProc<'a>,
    excluded: &'a [&'a Beneath],
    connected: Option<OwnedFd>,
    /// The connection, if it leads to another host.
    to_host: Option<TimedSocket>,
    facts: HostFacts,
    /// Files that may hold a certificate.
    certificates: Option<CertificateFiles>,
}

/// Answers about an object that does not exist.
pub(crate) fn absent(start: &Start<'_>, layers: Vec<String>) -> Result<u8, String> {
    last_step(start, &start.machine.filters.builtin, layers)?;
    answer(Err(NOT_FOUND.to_owned()))
}

/// Runs `which` about `decided`, with what it is `given`.
pub(crate) fn run(
    start: &Start<'_>,
    which: Builtin,
    decided: Option<&(&PathObject, OwnedFd)>,
    given: BuiltinGiven<'_>,
    layers: Vec<String>,
) -> Result<u8, String> {
    let BuiltinGiven { excluded, units, connected, needs_reboot } = given;
    let (machine, names) = (start.machine, start.tool.proc_names());
    if which.asks_systemd() {
        return systemd(start, which, (connected, units), layers);
    }
    // Opened before the last filter, which lets nothing be opened, except by a builtin that walks.
    let mut inputs = BuiltinInputs {
        object: decided.map(|(path, fd)| (*path, fd)),
        opened: decided.map(|(path, fd)| open_object(start, which, path, fd)),
        proc: CallProc::open(&machine.supplies.kept, names),
        excluded,
        connected,
        to_host: None,
        facts: HostFacts {
            failed_units: None,
            is_clock_synchronized: (which == Builtin::HealthCheck).then(sys::is_clock_synchronized).flatten(),
            needs_reboot,
            certificates: None,
        },
        certificates: (which == Builtin::HealthCheck)
            .then(|| CertificateFiles::open(start.tool.system_roots()))
            .flatten(),
    };
    if let Some(socket) = inputs.connected.as_ref().filter(|_| which == Builtin::HealthCheck) {
        unix::bound_waits(socket, BUS_WAIT)?;
    }
    let wall_ms_max = start.tool.manifest.limits.wall_ms_max;
    let (to_host, connected) = match inputs.connected.take() {
        Some(socket) if which.sink().is_some() => (Some(TimedSocket::new(socket, wall_ms_max)?), None),
        other => (None, other),
    };
    let inputs = BuiltinInputs { to_host, connected, ..inputs };
    let filter = match which {
        which if which.sink().is_some() => &machine.filters.fetcher,
        which if which.reads_below() || which.reads_system_files() || !names.of_process.is_empty() => {
            &machine.filters.walker
        }
        _ => &machine.filters.builtin,
    };
    last_step(start, filter, layers)?;
    answer(run_function(start, which, inputs))
}

/// Asks systemd over the system bus. A call that systemd did not carry out has a result too.
fn systemd(
    start: &Start<'_>,
    which: Builtin,
    (connected, units): (Option<OwnedFd>, &[&str]),
    layers: Vec<String>,
) -> Result<u8, String> {
    let limits = start.tool.manifest.limits;
    let socket = connected.ok_or("no connection was given")?;
    // The launcher's clock ends the call; a little earlier, it can still say why.
    unix::bound_waits(&socket, Duration::from_millis(limits.wall_ms_max.saturating_mul(9) / 10))?;
    last_step(start, &start.machine.filters.builtin, layers)?;
    // A file, since the filter allows only reading and writing.
    let (bus, host) = (File::from(socket), start.machine.supplies.host.hostname.as_str());
    let asked = builtin::UnitsAsked { arguments: start.arguments, left_out: units };
    match builtin::ask_systemd(which, bus, asked, limits.output_bytes_max, host) {
        Ok((value, is_done)) => Ok(answer(Ok(value))?.max(u8::from(!is_done))),
        Err(reason) => answer(Err(reason)),
    }
}

fn run_function(start: &Start<'_>, which: Builtin, inputs: BuiltinInputs<'_>) -> Answer {
    let (machine, arguments) = (start.machine, start.arguments);
    let limits = start.tool.manifest.limits;
    let (cap, host) = (limits.output_bytes_max, machine.supplies.host.hostname.as_str());
    if which.reports_on_the_host() {
        let bus = inputs.connected.map(File::from);
        let failed_units = bus.and_then(|bus| builtin::count_failed(bus).ok());
        let certificates = inputs.certificates.map(CertificateFiles::ends);
        let facts = HostFacts { failed_units, certificates, ..inputs.facts };
        return report(which, &HostView::new(&machine.supplies.host, &inputs.proc, facts), arguments, cap);
    }
    if which.reads_system_files() {
        return system_files::report(start, which);
    }
    let trust = machine.supplies.tls.as_ref();
    if matches!(which, Builtin::HttpGet | Builtin::HttpProbe) {
        let (connected, began_us) = (inputs.to_host, mono_us());
        let call = WebCall { which, trust, connected, arguments, cap, host, began_us };
        return http::get(host_words(start), call);
    }
    if which == Builtin::TlsCertificate {
        return certificates::of_server(trust, inputs.to_host, host_words(start), arguments, host);
    }
    let (Some((path, object)), Some(opened)) = (inputs.object, inputs.opened) else {
        return Err(NOT_FOUND.to_owned());
    };
    if which == Builtin::FileInfo {
        // Hashing ends early, so that the rest is reported.
        let end_us = mono_us().saturating_add(limits.wall_ms_max.saturating_mul(750));
        let content = opened.as_ref().ok().map(|file| file.as_fd());
        let host = &machine.supplies.host;
        return builtin::file_info(object.as_fd(), content, &path.canonical, host, end_us);
    }
    let (fd, name, excluded) = (opened?, path.canonical.as_str(), inputs.excluded);
    let stamp = |answer| builtin::stamped(answer, host);
    match which {
        Builtin::ReadFile => builtin::read_file(fd.as_fd(), name, arguments, cap).map(stamp),
        Builtin::TailFile => builtin::tail_file(fd.as_fd(), name, arguments, cap, host),
        Builtin::CertificateFile => certificates::of_file(trust, fd.as_fd(), name, arguments, host),
        Builtin::ReadConfig => builtin::read_config(fd.as_fd(), name, arguments, cap, host),
        Builtin::ListDir => builtin::list_dir(fd.as_fd(), name, arguments, cap).map(stamp),
        Builtin::SearchFiles => {
            search::search(&machine.paths, path, &fd, excluded, arguments, &limits).map(stamp)
        }
        Builtin::LargestPaths => {
            largest::largest(&machine.paths, path, &fd, excluded, arguments, &limits, host)
        }
        Builtin::DiffFiles => pair::compare(&machine.paths, path, &fd, excluded, arguments, cap, host),
        _ => Err(NOT_FOUND.to_owned()),
    }
}

/// The argument that names the call's host.
fn host_words<'a>(start: &Start<'a>) -> &'a str {
    match &start.tool.manifest.resource {
        ResourceSpec::Host { argument, .. } => {
            start.arguments.get(argument).and_then(Value::as_str).unwrap_or_default()
        }
        ResourceSpec::Path { .. } | ResourceSpec::Id { .. } | ResourceSpec::Fixed { .. } => "",
    }
}

/// Opens only the kind of object that the builtin wants: opening a FIFO or a device can have
/// effects.
fn open_object(
    start: &Start<'_>,
    which: Builtin,
    path: &PathObject,
    fd: &OwnedFd,
) -> Result<OwnedFd, String> {
    use Builtin::{
        CertificateFile, DiffFiles, FileInfo, LargestPaths, ListDir, ReadConfig, ReadFile, SearchFiles,
        TailFile,
    };
    match (which, path.kind) {
        (ReadFile | SearchFiles | FileInfo | ReadConfig | CertificateFile | TailFile, FileKind::File)
        | (ListDir | SearchFiles | LargestPaths | DiffFiles, FileKind::Folder) => {}
        (SearchFiles, FileKind::Other) => {
            return Err(format!("`{}` is neither a folder nor a regular file", path.canonical));
        }
        (ListDir | LargestPaths | DiffFiles, _) => {
            return Err(format!("`{}` is not a folder", path.canonical));
        }
        (_, _) => return Err(format!("`{}` is not a regular file", path.canonical)),
    }
    let opened = open_for_reading(start.machine.paths.proc.as_fd(), fd);
    opened.map_err(|_: Errno| NOT_FOUND.to_owned())
}

fn last_step(start: &Start<'_>, filter: &BpfProgram, mut layers: Vec<String>) -> Result<(), String> {
    load(filter)?;
    layers.push("seccomp".to_owned());
    send_or_exit(start, &ChildMessage::Confined(layers));
    Ok(())
}

fn answer(answer: Answer) -> Result<u8, String> {
    // The launcher reads the pipe; if it closed the pipe, it has decided to end the call.
    Ok(write_answer(answer, &mut Stdout).unwrap_or(1))
}

/// Standard output without a buffer: the process ends without flushing one.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Descriptor 1 is the call's pipe from `take_over` on.
        Ok(nix::unistd::write(std::io::stdout(), bytes)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
