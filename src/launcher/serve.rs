//! The launcher: one thread and one loop over the front's socket and every call's child.
//!
//! It never blocks on a peer: a front that does not read stops the reading of tools' output, never
//! the clock. It knows only the manifests, and verifies again what the front says about a call.
//!
//! A supervisor forks it, or a service manager starts it for one connection of the front
//! ([`attend`]).

use super::call::{Call, Drained, Notice, Stream};
use super::cgroup::{CallGroups, GroupLimits};
use super::confine::protection::Runs;
use super::fork::Child;
use super::host::machine::Machine;
use super::journal::Journal;
use super::protocol::{
    self, Arrival, Ask, Assembler, Ended, Go, PACKET_BYTES_MAX, Received, Reply, Report, Request, ToolDigest,
    receive_with,
};
use super::secrets::Vault;
use super::spec::CALLS_MAX;
use super::tool::{CHANGED, OpenTool, open_all};
use super::uids::Slots;
use crate::call::{End, Given, Unprepared};
use crate::tools::{Catalog, Manifest, ProposedCall};
use crate::types::clock::mono_us;
use crate::types::limits::LINK_WAITING_PACKETS_MAX;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How the kernel ends the processes of a group that runs out of memory.
const KILLED: End = End::Signal { signal: 9 };

/// Packets that are taken from the front before the children are polled again.
const PACKETS_PER_TURN_MAX: usize = 64;

pub(crate) struct EventLoop<'a> {
    front: &'a OwnedFd,
    machine: Machine,
    catalog: Catalog,
    tools: Vec<OpenTool>,
    report: Report,
    journal: Option<Journal>,
    groups: Option<CallGroups>,
    slots: Option<Slots>,
    calls: BTreeMap<u64, Call>,
    /// Packets that the front has not taken yet; while there are any, no output is read.
    queue: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    assembler: Assembler,
}

/// What poll woke up for.
#[derive(Clone, Copy)]
enum Wakeup {
    Front,
    Control(u64),
    Child(u64),
    Stdout(u64),
    Stderr(u64),
}

impl<'a> EventLoop<'a> {
    pub(crate) fn open(
        catalog: Catalog,
        machine: Machine,
        groups: Option<CallGroups>,
        front: &'a OwnedFd,
        journal: Option<Journal>,
        vault: Vault,
        slots: Option<Slots>,
    ) -> Result<Self, String> {
        let (missing, mounted) = (machine.facts.missing.clone(), machine.facts.mounted.clone());
        let mut report = Report { pid: machine.facts.pid, missing, mounted, ..Report::default() };
        report.level = machine.level();
        report.protections = machine.held.table(Runs::Builtin);
        report.program_protections = machine.held.table(Runs::Program);
        report.lacking = machine.shortfalls();
        report.groups_missing = machine.groups_missing.clone();
        let digest = |m: &Arc<Manifest>| ToolDigest { tool: m.name.clone(), sha256: m.digest.hex() };
        report.tools = catalog.manifests().map(digest).collect();
        report.salt = vault.salt;
        let tools = open_all(catalog.manifests().cloned(), &machine, &vault, &mut report);
        machine.confine()?;
        report.layers = layers_of(&machine, slots.as_ref());
        rustix::io::ioctl_fionbio(front, true).map_err(|e| format!("socket: {e}"))?;
        Ok(Self {
            front,
            machine,
            catalog,
            tools,
            report,
            journal,
            groups,
            slots,
            calls: BTreeMap::new(),
            queue: VecDeque::new(),
            assembler: Assembler::default(),
        })
    }

    /// Serves until the front is gone. The children die with this process.
    pub(crate) fn serve(mut self) -> Result<(), String> {
        let hello = Reply::Hello(Ok(self.report.clone()));
        self.reply(0, &hello);
        loop {
            if self.flush().is_err() {
                break;
            }
            self.finish_calls();
            let ready = self.wait();
            self.expire();
            for source in ready {
                if !self.handle(source) {
                    self.kill_all();
                    return Ok(());
                }
            }
        }
        self.kill_all();
        Ok(())
    }

    /// Sends what waits for the front, as much as the socket takes.
    fn flush(&mut self) -> Result<(), rustix::io::Errno> {
        while let Some((packet, fd)) = self.queue.front() {
            if !protocol::send_with(self.front, packet, fd.as_ref().map(OwnedFd::as_fd))? {
                break;
            }
            self.queue.pop_front();
        }
        Ok(())
    }

    /// For each ended child: sends the rest of its output, then its end.
    fn finish_calls(&mut self) {
        let ended: Vec<u64> =
            self.calls.iter().filter(|(_, call)| call.is_reaped()).map(|(id, _)| *id).collect();
        for id in ended {
            if self.calls.get(&id).is_some_and(Call::is_over) {
                continue;
            }
            while self.queue.is_empty() && self.drain(id, |call| &mut call.stdout) {}
            while self.queue.is_empty() && self.drain(id, |call| &mut call.stderr) {}
            if !self.queue.is_empty() {
                return;
            }
            self.notify(id, Call::finish);
        }
        let over: Vec<u64> =
            self.calls.iter().filter(|(_, call)| call.is_over()).map(|(id, _)| *id).collect();
        for id in over {
            self.calls.remove(&id);
            self.give_back(id);
        }
    }

    /// Moves one piece of output to the front. Returns whether there may be more.
    fn drain(&mut self, id: u64, stream: impl Fn(&mut Call) -> &mut Stream) -> bool {
        let Some(call) = self.calls.get_mut(&id) else { return false };
        let kind = stream(call).kind;
        let bytes = match stream(call).read() {
            Drained::Nothing => return false,
            Drained::Bytes(bytes) => bytes,
            Drained::Over(bytes) => {
                call.end(End::OutputCap);
                bytes
            }
        };
        self.queue.push_back((protocol::packet(kind, id, false, &bytes), None));
        // A socket error comes up again, and is acted on, at the top of the loop.
        let _ = self.flush();
        true
    }

    /// Waits for the next event, or for the next deadline.
    fn wait(&self) -> Vec<Wakeup> {
        let watched = self.watched();
        let mut fds: Vec<PollFd<'_>> =
            watched.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let deadline = self.calls.values().map(|call| call.deadline_us).min().filter(|at| *at != u64::MAX);
        let timeout = deadline.map(|at| {
            let us = at.saturating_sub(mono_us());
            let seconds = i64::try_from(us / 1_000_000).unwrap_or(i64::MAX);
            Timespec { tv_sec: seconds, tv_nsec: i64::try_from(us % 1_000_000 * 1_000).unwrap_or(0) }
        });
        // An interrupted wait is a round of the loop with nothing ready.
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = fds.iter().zip(&watched).filter(|(fd, _)| !fd.revents().is_empty());
        ready.map(|(_, (source, ..))| *source).collect()
    }

    fn watched(&self) -> Vec<(Wakeup, BorrowedFd<'_>, PollFlags)> {
        let mut out = Vec::with_capacity(1 + 4 * self.calls.len());
        let full = !self.queue.is_empty();
        let mut front = if full { PollFlags::OUT } else { PollFlags::empty() };
        front.set(PollFlags::IN, self.accepts_requests());
        out.push((Wakeup::Front, self.front.as_fd(), front));
        for (id, call) in self.calls.iter().filter(|(_, call)| !call.is_reaped()) {
            if let Some(control) = call.control.as_ref().filter(|_| call.reads_messages()) {
                out.push((Wakeup::Control(*id), control.as_fd(), PollFlags::IN));
            }
            for (source, stream) in [(Wakeup::Stdout(*id), &call.stdout), (Wakeup::Stderr(*id), &call.stderr)]
            {
                if let Some(pipe) = stream.pipe.as_ref().filter(|_| !full && call.is_running()) {
                    out.push((source, pipe.as_fd(), PollFlags::IN));
                }
            }
            out.push((Wakeup::Child(*id), call.pidfd.as_fd(), PollFlags::IN));
        }
        out
    }

    fn expire(&mut self) {
        let now = mono_us();
        let late: Vec<u64> =
            self.calls.iter().filter(|(_, call)| call.deadline_us <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.notify(id, Call::expire);
        }
    }

    /// Returns whether the front is still there.
    fn handle(&mut self, source: Wakeup) -> bool {
        match source {
            Wakeup::Front => return self.read_front(),
            Wakeup::Control(id) => self.notify(id, Call::take_message),
            Wakeup::Child(id) => self.notify(id, Call::reap),
            Wakeup::Stdout(id) if self.queue.is_empty() => {
                self.drain(id, |call| &mut call.stdout);
            }
            Wakeup::Stderr(id) if self.queue.is_empty() => {
                self.drain(id, |call| &mut call.stderr);
            }
            Wakeup::Stdout(_) | Wakeup::Stderr(_) => {}
        }
        true
    }

    /// A front that does not take its answers is not read from: each request would add another
    /// answer.
    fn accepts_requests(&self) -> bool {
        self.queue.len() < LINK_WAITING_PACKETS_MAX
    }

    fn read_front(&mut self) -> bool {
        for _ in 0..PACKETS_PER_TURN_MAX {
            if !self.accepts_requests() {
                return true;
            }
            let (packet, fd) = match receive_with(self.front, PACKET_BYTES_MAX) {
                (Received::Packet(packet), fd) => (packet, fd),
                (Received::Nothing, _) => return true,
                (Received::End, _) => return false,
            };
            match self.assembler.take(&packet) {
                Ok(Arrival::Message(id, request)) => self.handle_request(id, request, fd.as_ref()),
                Ok(Arrival::Piece) => {}
                // A peer that speaks another protocol is not a front.
                Ok(Arrival::Output(..)) | Err(_) => return false,
            }
        }
        true
    }

    /// Handles a request; `fd` came with its last packet.
    fn handle_request(&mut self, id: u64, request: Request, fd: Option<&OwnedFd>) {
        match request {
            Request::Prepare(ask) => {
                if let Err(reason) = self.prepare(id, ask) {
                    self.reply(id, &Reply::NotPrepared(reason));
                }
            }
            Request::Go(go) => self.go(id, &go, fd),
            Request::Ping => self.reply(id, &Reply::Pong),
            Request::Release => {
                self.notify(id, |call| {
                    call.release();
                    Notice::Nothing
                });
            }
        }
    }

    /// Verifies the call again and starts its child.
    fn prepare(&mut self, id: u64, ask: Ask) -> Result<(), Unprepared> {
        if self.calls.len() >= CALLS_MAX {
            let full = format!("{CALLS_MAX} calls are running, which is the maximum");
            return Err(Unprepared::at_capacity(full));
        }
        if self.calls.contains_key(&id) {
            return Err("a call with this id already exists".into());
        }
        self.check(&ask)?;
        let refused = self.report.refused.iter().find(|refused| refused.tool == ask.tool);
        if let Some(refused) = refused {
            return Err(refused.reason.clone().into());
        }
        let tool = self.tools.iter().position(|tool| tool.manifest.name == ask.tool);
        let tool = tool.ok_or("the tool was not opened")?;
        if !self.tools.get(tool).is_some_and(OpenTool::is_unchanged) {
            return Err(CHANGED.into());
        }
        let child = self.start_child(id, tool, &ask)?;
        let tool = &self.tools.get(tool).ok_or("the tool was not opened")?.manifest;
        // The child has its own copy of these, and they may take megabytes.
        let ask = Ask { named: Vec::new(), ..ask };
        self.calls.insert(id, Call::new(ask, tool, child));
        Ok(())
    }

    /// Starts the child of the call `id`.
    fn start_child(&mut self, id: u64, tool: usize, call: &Ask) -> Result<Child, Unprepared> {
        let tool = self.tools.get(tool).ok_or("the tool was not opened")?;
        let group = self.groups.as_mut().map(|groups| groups.for_call(id, bounds(tool))).transpose();
        let slot =
            self.slots.as_mut().filter(|_| tool.writes_nothing()).map(|slots| slots.take(id)).transpose();
        let start =
            |(group, slot): (Option<OwnedFd>, _)| Child::start(&self.machine, tool, call, group, slot);
        let given = group.map(Option::flatten).and_then(|group| slot.map(|slot| (group, slot)));
        let child = given.map_err(Unprepared::from).and_then(start);
        if child.is_err() {
            self.give_back(id);
        }
        child
    }

    /// Releases what the launcher holds for a call, once no process of it is left.
    fn give_back(&mut self, id: u64) {
        if let Some(groups) = &mut self.groups {
            groups.close(id);
        }
        if let Some(slots) = &mut self.slots {
            slots.give_back(id);
        }
    }

    /// Verifies name, digest, schema and canonical form against this launcher's own catalog.
    fn check(&self, ask: &Ask) -> Result<(), String> {
        let manifest = self.catalog.find(&ask.tool).ok_or_else(|| format!("unknown tool `{}`", ask.tool))?;
        if manifest.digest.hex() != ask.manifest {
            return Err(format!("the manifest of `{}` is not the one that this launcher loaded", ask.tool));
        }
        let proposed =
            ProposedCall { id: String::new(), tool: ask.tool.clone(), arguments: ask.arguments.clone() };
        let valid = self.catalog.validate(proposed, |_| true).map_err(|invalid| invalid.reason)?;
        if valid.canonical() != ask.arguments {
            return Err("the arguments are not in canonical form".to_owned());
        }
        Ok(())
    }

    fn go(&mut self, id: u64, go: &Go, connected: Option<&OwnedFd>) {
        if self.calls.contains_key(&id) {
            let agreed = self.agree(go);
            let journaled = agreed.and_then(|()| match &mut self.journal {
                Some(journal) => journal.order(id, go),
                None => Ok(()),
            });
            self.notify(id, |call| call.go(go, connected, journaled));
        } else {
            let reason = "the prepared child is gone".to_owned();
            let (level, protections, given) = (None, BTreeMap::new(), Given::default());
            let ended = Ended {
                end: End::Refused { reason },
                layers: Vec::new(),
                level,
                protections,
                given,
                wall_us: 0,
            };
            self.reply(id, &Reply::Ended(ended));
        }
    }

    /// Compares what the tool is given with what the front searches its output for; both must be
    /// the same secrets.
    fn agree(&self, go: &Go) -> Result<(), String> {
        let proof = self.tools.iter().find(|tool| tool.manifest.name == go.tool).and_then(|tool| tool.proof);
        if proof.map(|proof| proof.hex()) == go.secrets {
            return Ok(());
        }
        Err("the tool's secrets are not those that the front replaces in its output: run `par reload`"
            .to_owned())
    }

    fn notify(&mut self, id: u64, step: impl FnOnce(&mut Call) -> Notice) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        match step(call) {
            Notice::Nothing => {}
            Notice::Prepared(object, listener) => self.reply_with(id, &Reply::Prepared(object), listener),
            Notice::NotPrepared(reason) => self.reply(id, &Reply::NotPrepared(reason)),
            Notice::Ended(mut ended) => {
                if ended.end == KILLED && self.groups.as_ref().is_some_and(|groups| groups.ran_out(id)) {
                    ended.end = End::Oom;
                }
                // A call that was never confined had no layers, and ran nothing.
                let name = call.tool();
                if !ended.layers.is_empty() {
                    let is_it = |tool: &&OpenTool| tool.manifest.name == name;
                    let tool = self.tools.iter().find(is_it);
                    ended.given = tool.map(OpenTool::given).unwrap_or_default();
                    let runs = tool.map_or(Runs::Builtin, OpenTool::runs);
                    ended.level = self.machine.held.level(runs);
                    ended.protections = self.machine.held.table(runs);
                }
                if let Some(Err(e)) = self.journal.as_mut().map(|journal| journal.end(id, &ended.end)) {
                    eprintln!("par launcher: {e}");
                }
                self.reply(id, &Reply::Ended(ended));
            }
        }
    }

    fn reply(&mut self, id: u64, reply: &Reply) {
        self.reply_with(id, reply, None);
    }

    /// `fd` goes with the last packet.
    fn reply_with(&mut self, id: u64, reply: &Reply, fd: Option<OwnedFd>) {
        // Replies are bounded by what a child may send, far below the limit of a message.
        let packets = protocol::packets(id, reply).unwrap_or_default();
        self.queue.extend(packets.into_iter().map(|packet| (packet, None)));
        if let Some((_, last)) = self.queue.back_mut().filter(|_| fd.is_some()) {
            *last = fd;
        }
        // A socket error comes up again, and is acted on, at the top of the loop.
        let _ = self.flush();
    }

    fn kill_all(&mut self) {
        for call in self.calls.values_mut() {
            call.end(End::Killed);
        }
    }
}

/// Limits for all processes of a call together: the tool's own, plus a program's init.
fn bounds(tool: &OpenTool) -> GroupLimits {
    let limits = &tool.manifest.limits;
    let init = u64::from(tool.program.is_some());
    GroupLimits { memory_bytes_max: limits.memory_bytes_max, processes_max: limits.processes_max + init }
}

/// The layers that every call gets.
fn layers_of(machine: &Machine, slots: Option<&Slots>) -> Vec<String> {
    let mut out = machine.facts.inherited.clone();
    if machine.has_namespaces() {
        out.push("pid namespace".to_owned());
    }
    match (machine.identity, slots) {
        (Some(_), Some(slots)) => out.push(slots.layer.clone()),
        (Some((uid, _)), None) => out.push(format!("uid {uid}")),
        (None, _) if machine.has_namespaces() => out.push("user namespace".to_owned()),
        (None, _) => {}
    }
    out.extend(["rlimits", "no capabilities", "no_new_privs"].map(str::to_owned));
    out.push(machine.landlock.name());
    out.push("seccomp".to_owned());
    out
}
