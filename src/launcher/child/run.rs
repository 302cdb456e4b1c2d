//! The child of one call: prepare, wait for go, go.
//!
//! It is the first process of its own PID namespace, if the machine offers one. Nothing here
//! returns to the launcher's code: the child ends in this file.

use super::proc::OwnProc;
use super::resolve::{ResolveContext, reopen};
use super::start::{Inherited, REFUSED, Start, send};
use super::{builtin, content, inherit, init, journal_files, netns, unix, workdirs};
use crate::call::{Beneath, FileKind, Object, PathObject};
use crate::launcher::confine::identity::become_user;
use crate::launcher::confine::layers::{self, Connects, PathRule};
use crate::launcher::host::machine::Machine;
use crate::launcher::protocol::{
    Ask, CHILD_MESSAGE_BYTES_MAX, ChildMessage, Received, receive_with, send_with,
};
use crate::launcher::spec::CALLS_MAX;
use crate::launcher::sys;
use crate::launcher::tool::{OpenTool, Root, WriteFolder, does_without_sockets};
use crate::launcher::view::host_tree::HostTree;
use crate::launcher::view::mounts::{self, Mount, Origins};
use crate::launcher::view::own_proc;
use crate::tools::{Limits, Output, ResourceSpec, Runner};
use crate::types::json::parse_strict;
use crate::types::limits::{JSON_DEPTH_MAX, NAMED_BENEATH_MAX, PATH_NAMES_MAX, UNIT_BYTES_MAX};
use crate::types::text;
use nix::sched::CloneFlags;
use rustix::process::{
    DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal, setsid,
};
use serde_json::Value;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

/// Children that may share one uid's process limit if they have no user namespace of their own.
const SHARED_UID_CALLS: u64 = CALLS_MAX as u64;

/// What a child is started with.
pub(crate) struct Birth<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) tool: &'a OpenTool,
    /// Uid and gid of this call, if the launcher may change them.
    pub(crate) identity: Option<(u32, u32)>,
    pub(crate) call: &'a Ask,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) control: OwnedFd,
}

/// The outside connections of a call.
struct Outward<'a> {
    /// For a builtin: the connection that the front made.
    connected: Option<OwnedFd>,
    /// The sockets to connect to at go.
    sockets: &'a [unix::UnixSocket],
    /// What the host's files said in prepare about a pending restart.
    needs_reboot: Option<bool>,
    /// The units that the call leaves out.
    units: &'a [&'a str],
}

/// Whether an update waits for a restart of the host, on hosts that say so (Debian and its kin).
fn needs_reboot(tree: &HostTree) -> Option<bool> {
    tree.find("/etc/debian_version").ok()?;
    Some(tree.find("/run/reboot-required").is_ok())
}

/// Runs the call. Never returns.
pub(crate) fn run(birth: &Birth<'_>) -> ! {
    let code = match live(birth) {
        Ok(code) => code,
        Err(reason) => {
            // If no peer is left to read this, the child ends without a message.
            send(&birth.control, &ChildMessage::Refused(reason)).ok();
            REFUSED
        }
    };
    sys::exit_now(code)
}

fn live(birth: &Birth<'_>) -> Result<u8, String> {
    let (machine, tool, control) = (birth.machine, birth.tool, &birth.control);
    // First, while this process still has rights over the namespace.
    let proxy = tool.manifest.is_proxied().then(netns::open).transpose()?;
    let own_proc = tool.has_own_proc().then(|| OwnProc::enter(machine, tool)).transpose()?;
    let (mut layers, own_user) = take_over(birth)?;
    layers.extend(own_proc.iter().map(|_| own_proc::LAYER.to_owned()));
    // At this point the tool's own rights apply, and Landlock's do not yet: it closes `/proc`.
    let mounts = mount_table(birth)?;
    layers.extend(confine(birth, own_proc.as_ref())?);
    let keep = kept(birth, own_proc.as_ref());
    let until_ready: Vec<RawFd> = proxy.iter().map(OwnedFd::as_raw_fd).chain(keep.iter().copied()).collect();
    close_all_but(&[until_ready.as_slice(), &[machine.paths.tree.descriptor().as_raw_fd()]].concat())?;
    limit(birth, own_user)?;
    layers.push("rlimits".to_owned());
    let origins = own_proc.as_ref().and_then(|own| own.origins.as_ref()).unwrap_or(&machine.paths.origins);
    let call = birth.call;
    // In canonical form, which the launcher has validated against the schema.
    let arguments = parse_strict(call.arguments.as_bytes(), JSON_DEPTH_MAX)
        .map_err(|e| format!("the arguments are not valid JSON: {e}"))?;
    let start = Start { machine, tool, arguments: &arguments, named: &call.named, control };
    let object = resolve(&start, origins, own_proc.as_ref())?;
    check_mounts(origins, &object, mounts.as_deref())?;
    let sockets = match unix::find(&machine.paths.tree, &tool.manifest.connect) {
        Err(_) if does_without_sockets(&tool.manifest.runner) => Vec::new(),
        found => found?,
    };
    let needs_reboot = needs_reboot(&machine.paths.tree);
    // Access to the rest of the host ends here.
    let numbers = sockets.iter().map(|place| place.fd.as_raw_fd());
    close_all_but(&until_ready.iter().copied().chain(numbers).collect::<Vec<_>>())?;
    ready(&start, &object, proxy)?;
    match receive_with(control, GO_BYTES_MAX) {
        (Received::Packet(go), connected) => {
            let words = words_of(&go)?;
            let (units, places) = if tool.manifest.reads_units { (words, vec![]) } else { (vec![], words) };
            let excluded = excluded(&places, &object)?;
            let outward = Outward { connected, sockets: &sockets, needs_reboot, units: &units };
            run_body(&start, &object, &excluded, outward, own_proc.as_ref(), layers)
        }
        // The launcher no longer waits for this child.
        _ => Ok(0),
    }
}

/// What the launcher sends when the call may start: what it leaves out, which is the names of units
/// or positions among what was found below the object.
pub(crate) fn go_packet<'a>(left_out: impl Iterator<Item = &'a str>) -> Vec<u8> {
    format!("go {}", left_out.collect::<Vec<_>>().join(" ")).into_bytes()
}

/// Size of that packet, in bytes: each name with its space.
const GO_BYTES_MAX: usize = 8 + (UNIT_BYTES_MAX + 1) * NAMED_BENEATH_MAX;

const MALFORMED: &str = "the launcher's go is malformed";

/// The words after `go`.
fn words_of(go: &[u8]) -> Result<Vec<&str>, String> {
    let words = std::str::from_utf8(go).ok().and_then(|go| go.strip_prefix("go ")).ok_or(MALFORMED)?;
    Ok(words.split_ascii_whitespace().collect())
}

fn excluded<'a>(places: &[&str], object: &'a Object) -> Result<Vec<&'a Beneath>, String> {
    let wrong = || MALFORMED.to_owned();
    let beneath = match object {
        Object::Path(path) => path.beneath.as_slice(),
        Object::Fixed
        | Object::Content(_)
        | Object::Absent { .. }
        | Object::Unreadable(_)
        | Object::Outside => &[],
    };
    let one =
        |place: &str| place.parse::<usize>().ok().and_then(|place| beneath.get(place)).ok_or_else(wrong);
    places.iter().copied().map(one).collect()
}

/// Reports the object, and hands over the listener.
fn ready(start: &Start<'_>, object: &Object, proxy: Option<OwnedFd>) -> Result<(), String> {
    let word = serde_json::to_vec(&ChildMessage::Ready(object.clone())).map_err(|e| e.to_string())?;
    if word.len() > CHILD_MESSAGE_BYTES_MAX {
        return Err("the paths that policies name below the object exceed the size of a message".to_owned());
    }
    // If no peer is left to read this, the child ends without a message.
    if send_with(start.control, &word, proxy.as_ref().map(OwnedFd::as_fd)) != Ok(true) {
        sys::exit_now(REFUSED);
    }
    Ok(())
}

fn close_all_but(keep: &[RawFd]) -> Result<(), String> {
    sys::close_all_but(keep).map_err(|e| format!("close_range: {e}"))
}

/// The mounts that this call sees, for a program that reads below its resource: it would not stay
/// on one mount.
fn mount_table(birth: &Birth<'_>) -> Result<Option<Vec<Mount>>, String> {
    if !birth.tool.looks_at_mounts() {
        return Ok(None);
    }
    mounts::table(&birth.machine.paths.proc).map(Some)
}

/// Refuses a program a folder with mounts below it: paths that policies name elsewhere may be among
/// them.
fn check_mounts(origins: &Origins, object: &Object, table: Option<&[Mount]>) -> Result<(), String> {
    match (object, table) {
        (Object::Path(path), Some(table)) if origins.is_crossed_below(table, &path.canonical) => {
            Err("something is mounted below the folder, and a program would read there too".to_owned())
        }
        _ => Ok(()),
    }
}

/// Takes over session, standard streams and identity. Returns the layers, and whether the call has
/// its own user namespace.
fn take_over(birth: &Birth<'_>) -> Result<(Vec<String>, bool), String> {
    let machine = birth.machine;
    // The first process of a PID namespace that inherited a session may already lead one.
    let _ = setsid();
    nix::unistd::dup2_stdout(&birth.stdout).map_err(|e| format!("stdout: {e}"))?;
    nix::unistd::dup2_stderr(&birth.stderr).map_err(|e| format!("stderr: {e}"))?;
    if birth.tool.program.is_some() {
        let null = inherit::own(machine, &machine.supplies.null).map_err(|e| format!("stdin: {e}"))?;
        nix::unistd::dup2_stdin(&null).map_err(|e| format!("stdin: {e}"))?;
    }

    let mut layers = machine.facts.inherited.clone();
    if birth.tool.manifest.is_proxied() {
        layers.push("proxy".to_owned());
    }
    if machine.per_call.contains(CloneFlags::CLONE_NEWPID) {
        if rustix::process::getpid().as_raw_nonzero().get() != 1 {
            return Err("pid namespace: this child is not its first process".to_owned());
        }
        layers.push("pid namespace".to_owned());
    }
    let mut own_user = machine.per_call.contains(CloneFlags::CLONE_NEWUSER);
    if let Some((uid, gid)) = birth.identity {
        become_user(uid, gid, &birth.tool.memberships.gids())?;
        layers.push(format!("uid {uid}"));
        // Optional: it makes the process limit this call's alone. A builtin starts no process.
        own_user = birth.tool.program.is_some() && sys::unshare(CloneFlags::CLONE_NEWUSER).is_ok();
    }
    if own_user {
        layers::lock_secure_bits()?;
        layers.push("user namespace".to_owned());
    }
    // A change of identity clears it, so it comes last.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| format!("death signal: {e}"))?;
    Ok((layers, own_user))
}

/// The descriptors that the child needs: none of another call, and not the front's socket. Only
/// tools that report on the host hold its `/proc` and its mount points, which are their subject.
fn kept(birth: &Birth<'_>, own_proc: Option<&OwnProc>) -> Vec<RawFd> {
    let machine = birth.machine;
    let mut keep = vec![0, 1, 2, birth.control.as_raw_fd(), machine.paths.proc.as_raw_fd()];
    keep.extend(own_proc.into_iter().flat_map(OwnProc::descriptors));
    if birth.tool.program.is_some() {
        let figures = [&machine.supplies.null, &machine.supplies.random, &machine.supplies.loadavg];
        keep.extend(birth.tool.descriptors().chain(figures).map(OwnedFd::as_raw_fd));
        keep.extend(machine.supplies.libraries.iter().map(|(fd, _)| fd.as_raw_fd()));
    }
    keep.extend(birth.tool.system_roots().iter().map(|root| root.fd.as_raw_fd()));
    let names = birth.tool.proc_names();
    if !names.is_empty() {
        keep.extend(machine.supplies.kept.descriptors(&names));
        keep.extend(machine.supplies.host.disks.iter().map(|disk| disk.folder.as_raw_fd()));
    }
    keep
}

fn limit(birth: &Birth<'_>, own_user: bool) -> Result<(), String> {
    let manifest = &birth.tool.manifest;
    // Reading the content takes time before the call's own limit begins.
    let reading_ms = if manifest.content.is_some() { manifest.prepare_ms_max() } else { 0 };
    let limits = Limits { wall_ms_max: manifest.limits.wall_ms_max + reading_ms, ..manifest.limits };
    let init = u64::from(birth.tool.program.is_some());
    let calls = if own_user { 1 } else { SHARED_UID_CALLS };
    let processes_max = (limits.processes_max + init).saturating_mul(calls);
    layers::limit_resources(&limits, birth.machine.mapped_bytes, processes_max)
}

/// Drops capabilities, forbids new privileges, and restricts to the tool's roots with Landlock.
fn confine(birth: &Birth<'_>, own_proc: Option<&OwnProc>) -> Result<Vec<String>, String> {
    layers::keep_capabilities(rustix::thread::CapabilitySet::empty())?;
    if layers::holds_capabilities()? {
        return Err("capabilities: some are left".to_owned());
    }
    rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
    // A change of identity may have made it dumpable again; its memory is a copy of the launcher's.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| format!("dumpable: {e}"))?;
    layers::restrict(birth.tool.ruleset_for(birth.machine, own_proc.map(OwnProc::grant))?)?;
    Ok(vec!["no capabilities".to_owned(), "no_new_privs".to_owned(), birth.machine.landlock.name()])
}

fn resolve(start: &Start<'_>, origins: &Origins, own_proc: Option<&OwnProc>) -> Result<Object, String> {
    start.tool.check_trees()?;
    match &start.tool.manifest.resource {
        _ if start.tool.manifest.content.is_some() => {
            let (folder, at) = write_folders(start, own_proc)?.next().ok_or("the tool has no folder")?;
            content::inspect(start, &workdirs::open(folder, at, id(start))?).map(Object::Content)
        }
        ResourceSpec::Fixed { .. } | ResourceSpec::Id { .. } | ResourceSpec::Host { .. } => Ok(Object::Fixed),
        ResourceSpec::Path { argument } => {
            let path = start.arguments.get(argument).and_then(Value::as_str).unwrap_or_default();
            let (machine, recursive) = (start.machine, start.tool.manifest.recursive);
            let place =
                ResolveContext { paths: &machine.paths, origins, roots: &start.tool.roots, recursive };
            let object = place.resolve(path, start.named)?;
            if names(&object) > PATH_NAMES_MAX {
                return Err(format!("the path leads to one of more than {PATH_NAMES_MAX} names"));
            }
            Ok(object)
        }
    }
}

/// The number of names in an object's canonical path.
fn names(object: &Object) -> usize {
    match object {
        Object::Path(path) => text::names(&path.canonical),
        Object::Absent { folder, rest } => text::names(folder) + text::names(rest),
        Object::Unreadable(unreadable) => {
            text::names(&unreadable.at.canonical) + text::names(&unreadable.rest)
        }
        Object::Fixed | Object::Content(_) | Object::Outside => 0,
    }
}

fn run_body(
    start: &Start<'_>,
    object: &Object,
    excluded: &[&Beneath],
    outward: Outward<'_>,
    own_proc: Option<&OwnProc>,
    layers: Vec<String>,
) -> Result<u8, String> {
    let decided = match object {
        Object::Fixed | Object::Content(_) => None,
        Object::Path(path) => Some((path, reopen(path)?)),
        Object::Absent { .. } => {
            return builtin::absent(start, layers);
        }
        Object::Unreadable(unreadable) => return Err(unreadable.reason()),
        Object::Outside => return Err("the object lies outside the tool's folders".to_owned()),
    };
    // From here on the kernel knows no other object: a name that is swapped now leads nowhere.
    let folder = |path: &PathObject| path.kind == FileKind::Folder;
    let grant =
        decided.iter().map(|(path, fd)| PathRule { at: fd.as_fd(), rights: start.tool.right(folder(path)) });
    let grants: Vec<PathRule<'_>> = grant.filter(|grant| !grant.rights.is_empty()).collect();
    match (&start.tool.manifest.runner, &start.tool.program) {
        (Runner::Builtin(which), _) => {
            // Before the last ruleset, which covers paths of sockets.
            let mut sockets = match unix::connect(outward.sockets, start.machine.paths.proc.as_fd()) {
                Err(_) if which.does_without_sockets() => Vec::new(),
                made => made?,
            };
            let connected = outward.connected.or(sockets.pop());
            let Outward { needs_reboot, units, .. } = outward;
            let given = builtin::BuiltinGiven { excluded, connected, needs_reboot, units };
            let system = start.tool.system_roots().iter().map(Root::grant);
            let kept = start.tool.kept_grants(start.machine);
            let all: Vec<PathRule<'_>> = grants.into_iter().chain(kept).chain(system).collect();
            layers::restrict(start.machine.landlock.ruleset(&all)?)?;
            builtin::run(start, *which, decided.as_ref(), given, layers)
        }
        (Runner::Program(_), _) if excluded.iter().any(|one| one.id.is_some()) => {
            Err("a program cannot leave out what lies below its folder".to_owned())
        }
        (Runner::Program(program), Some(open)) => {
            let connected = unix::connect(outward.sockets, start.machine.paths.proc.as_fd())?;
            let taken = take_folders(start, own_proc)?;
            let content = match (object, taken.first()) {
                (Object::Content(decided), Some(folder)) => content::take(start, folder, decided)?,
                _ => None,
            };
            let (tool, landlock) = (start.tool, start.machine.landlock);
            let about = decided.as_ref().map(|(path, _)| path.canonical.as_str());
            let roots = tool.root_grants().filter(|_| about.is_none());
            let all = grants.into_iter().chain(roots).chain(workdirs::grants(&taken, landlock));
            let all = all.chain(tool.program_grants(start.machine)).chain(own_proc.map(OwnProc::grant));
            let all: Vec<PathRule<'_>> = all.collect();
            layers::restrict(landlock.ruleset_of(&all, Connects { port: tool.port(), unix: false })?)?;
            if tool.manifest.output == Output::Journal {
                say_journal_files(&tool.roots)?;
            }
            let inherited = Inherited { locks: &taken, connected, content };
            match init::run(start, program, open, about, inherited, layers)? {}
        }
        (Runner::Program(_), None) => Err("the program was not opened".to_owned()),
        (Runner::Front(_), _) => Err("the tool runs in the front".to_owned()),
    }
}

/// Writes which files the journal has to standard error, before anything else does.
fn say_journal_files(roots: &[Root]) -> Result<(), String> {
    let line = journal_files::count(roots).line();
    let written = rustix::io::write(std::io::stderr(), line.as_bytes());
    written.map(drop).map_err(|e| format!("standard error: {e}"))
}

/// Locks the folders that this call may change; the first becomes the working folder.
fn take_folders(start: &Start<'_>, own_proc: Option<&OwnProc>) -> Result<Vec<OwnedFd>, String> {
    let taken = workdirs::take(write_folders(start, own_proc)?, id(start))?;
    if let Some(first) = taken.first() {
        rustix::process::fchdir(first).map_err(|e| format!("working folder: {e}"))?;
    }
    Ok(taken)
}

/// The folders that the tool may change, each with the descriptor by which this call has it.
fn write_folders<'a>(
    start: &Start<'a>,
    own_proc: Option<&'a OwnProc>,
) -> Result<impl Iterator<Item = (&'a WriteFolder, &'a OwnedFd)>, String> {
    let tool = start.tool;
    if tool.writes.len() != tool.manifest.write.len() {
        return Err("a folder that the tool writes to was missing when the launcher started".to_owned());
    }
    let at: Vec<&OwnedFd> = match own_proc {
        Some(own) => own.writes.iter().collect(),
        None => tool.writes.iter().map(|folder| &folder.fd).collect(),
    };
    Ok(tool.writes.iter().zip(at))
}

/// The id that the call is about.
fn id<'a>(start: &Start<'a>) -> Option<&'a str> {
    match &start.tool.manifest.resource {
        ResourceSpec::Id { argument, .. } => start.arguments.get(argument).and_then(Value::as_str),
        ResourceSpec::Path { .. } | ResourceSpec::Fixed { .. } | ResourceSpec::Host { .. } => None,
    }
}
