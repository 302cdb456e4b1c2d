//! One call as the launcher sees it: what it waits for, until when, and how it ended.

use crate::call::{End, Exclusion, Given, Object, Unprepared};
use crate::launcher::child::go_packet;
use crate::launcher::fork::Child;
use crate::launcher::protocol::{
    self, Ask, CHILD_MESSAGE_BYTES_MAX, ChildMessage, Ended, Go, PacketKind, Received, receive_with,
};
use crate::tools::is_unit_name;
use crate::tools::{Limits, Manifest};
use crate::types::Digest;
use crate::types::clock::mono_us;
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};

/// How long a prepared child waits for go, in milliseconds: longer than a permit lives.
const HELD_MS_MAX: u64 = if cfg!(test) { 3_000 } else { 30_000 };
/// Time from the kill to the reaping, in milliseconds: after that, a child that hangs in the kernel
/// is reported as ended.
const LEAVE_MS_MAX: u64 = 2_000;

/// Messages that a child sends in its life, plus the end of its channel.
const MESSAGES_MAX: usize = 5;

/// The phase that a call is in.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// The child confines itself and resolves.
    Preparing,
    /// It waits for go.
    Held(Object),
    /// It runs, since this time ([`mono_us`]).
    Running(u64),
    /// The front knows its end, or has released it: the child only needs to be reaped.
    Leaving,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    ask: Ask,
    limits: Limits,
    prepare_ms_max: u64,
    reads_units: bool,
    phase: Phase,
    /// When the phase times out, by [`mono_us`].
    pub(crate) deadline_us: u64,
    pub(crate) pidfd: OwnedFd,
    /// `None` once the child closed it.
    pub(crate) control: Option<OwnedFd>,
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
    layers: Vec<String>,
    /// Locks on the folders that it changes, released with this call once all its processes are
    /// gone.
    locks: Vec<OwnedFd>,
    /// Number of locks that it needs.
    locks_wanted: usize,
    /// The program's end, as its init reported it.
    reported: Option<End>,
    /// The launcher's own reason for the end.
    verdict: Option<End>,
    /// How the child ended and when, by [`mono_us`], once reaped.
    reaped: Option<(End, u64)>,
    /// Whether the kill was sent.
    killed: bool,
}

/// One output pipe, and how many bytes may still pass.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) kind: PacketKind,
    /// `None` at its end.
    pub(crate) pipe: Option<OwnedFd>,
    left: usize,
}

/// What the front must be notified of.
#[derive(Debug)]
pub(crate) enum Notice {
    Nothing,
    /// With the listener of a call's own network, if it has one.
    Prepared(Object, Option<OwnedFd>),
    NotPrepared(Unprepared),
    Ended(Ended),
}

/// What one read of a pipe brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    Bytes(Vec<u8>),
    Nothing,
    /// There was more than the limit allows; holds what the limit allows.
    Over(Vec<u8>),
}

impl Call {
    /// A call of the tool `manifest`, for which `child` was just started. It needs as many locks as
    /// the tool has folders to change.
    pub(crate) fn new(ask: Ask, manifest: &Manifest, child: Child) -> Self {
        let (limits, prepare_ms_max) = (manifest.limits, manifest.prepare_ms_max());
        let Child { pidfd, control, stdout, stderr } = child;
        let stream = |kind, pipe| Stream { kind, pipe: Some(pipe), left: limits.output_bytes_max };
        Self {
            ask,
            limits,
            prepare_ms_max,
            reads_units: manifest.reads_units,
            phase: Phase::Preparing,
            deadline_us: after_ms(prepare_ms_max),
            pidfd,
            control: Some(control),
            stdout: stream(PacketKind::Stdout, stdout),
            stderr: stream(PacketKind::Stderr, stderr),
            layers: Vec::new(),
            locks: Vec::new(),
            locks_wanted: manifest.write.len(),
            reported: None,
            verdict: None,
            reaped: None,
            killed: false,
        }
    }

    /// The tool's name.
    pub(crate) fn tool(&self) -> &str {
        &self.ask.tool
    }

    /// Whether to read its output: before go a child produces none.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// Whether to read its messages. Apart from its locks, what a running child sends is about its
    /// end, and is read then: reading it at once would cost the loop a round per message.
    pub(crate) fn reads_messages(&self) -> bool {
        match self.phase {
            Phase::Preparing | Phase::Held(_) => true,
            Phase::Running(_) => self.locks.len() < self.locks_wanted,
            Phase::Leaving => false,
        }
    }

    /// Whether the child has been reaped.
    pub(crate) fn is_reaped(&self) -> bool {
        self.reaped.is_some()
    }

    /// Whether nothing is left to report or to read.
    pub(crate) fn is_over(&self) -> bool {
        self.is_reaped() && self.phase == Phase::Leaving
    }

    /// Takes the child's next message.
    pub(crate) fn take_message(&mut self) -> Notice {
        let Some(control) = &self.control else { return Notice::Nothing };
        let (bytes, given) = match receive_with(control, CHILD_MESSAGE_BYTES_MAX) {
            (Received::Packet(bytes), fd) => (bytes, fd),
            (Received::Nothing, _) => return Notice::Nothing,
            (Received::End, _) => {
                self.control = None;
                return Notice::Nothing;
            }
        };
        match (serde_json::from_slice(&bytes), &self.phase) {
            (Ok(ChildMessage::Ready(object)), Phase::Preparing) => {
                self.enter(Phase::Held(object.clone()), HELD_MS_MAX);
                Notice::Prepared(object, given)
            }
            (Ok(ChildMessage::Refused(reason)), Phase::Preparing) => {
                self.leave();
                Notice::NotPrepared(reason.into())
            }
            (Ok(ChildMessage::Refused(reason)), Phase::Running(_)) => {
                self.end(End::Refused { reason });
                Notice::Nothing
            }
            (Ok(ChildMessage::Holds), Phase::Running(_)) => {
                self.locks.extend(given);
                Notice::Nothing
            }
            (Ok(ChildMessage::Confined(layers)), Phase::Running(_)) => {
                self.layers = layers;
                Notice::Nothing
            }
            (Ok(ChildMessage::Ended(end)), Phase::Running(_)) => {
                self.reported = Some(end);
                Notice::Nothing
            }
            // An unexpected message comes from a child that is not what it should be.
            _ => self.fail("the child sent a message out of turn"),
        }
    }

    /// Starts the prepared child, if `go` is about the very call and object that were prepared and
    /// `journaled` says that the order is in the journal. The child gets `connected`, the
    /// connection that the front made for it.
    pub(crate) fn go(
        &mut self,
        go: &Go,
        connected: Option<&OwnedFd>,
        journaled: Result<(), String>,
    ) -> Notice {
        let Phase::Held(object) = &self.phase else { return self.fail("the call is not waiting for go") };
        let same = go.tool == self.ask.tool
            && go.manifest == self.ask.manifest
            && go.arguments == Digest::sha256(self.ask.arguments.as_bytes());
        let refused = match () {
            () if !same => Some("the permitted call is not the one that was prepared"),
            () if go.object != *object => Some("the permitted object is not the one that was prepared"),
            () => None,
        };
        let left_out = left_out(&go.exclusions, object, self.reads_units);
        let refused = refused
            .or(left_out.is_none().then_some("the permitted exclusions are not those that were prepared"));
        let refused = refused.map(str::to_owned).or(journaled.err());
        let packet = left_out.unwrap_or_default();
        self.enter(Phase::Running(mono_us()), self.limits.wall_ms_max);
        match (refused, &self.control) {
            (Some(reason), _) => self.end(End::Refused { reason }),
            (None, Some(control))
                if protocol::send_with(control, &packet, connected.map(OwnedFd::as_fd)) == Ok(true) => {}
            (None, _) => self.end(End::Refused { reason: "the child is gone".to_owned() }),
        }
        Notice::Nothing
    }

    /// The front no longer wants the child.
    pub(crate) fn release(&mut self) {
        match self.phase {
            Phase::Preparing | Phase::Held(_) => self.leave(),
            Phase::Running(_) => self.end(End::Killed),
            Phase::Leaving => {}
        }
    }

    /// Handles the timeout of the current phase.
    pub(crate) fn expire(&mut self) -> Notice {
        match self.phase {
            Phase::Preparing => {
                self.leave();
                let late = format!("the object was not resolved within {} ms", self.prepare_ms_max);
                Notice::NotPrepared(Unprepared::at_capacity(late))
            }
            Phase::Held(_) => {
                self.leave();
                Notice::Nothing
            }
            Phase::Running(_) if !self.killed => {
                self.end(End::Timeout);
                Notice::Nothing
            }
            Phase::Running(since) => {
                self.take_last_messages();
                self.ended(End::Killed, since, mono_us())
            }
            Phase::Leaving => {
                self.deadline_us = u64::MAX;
                Notice::Nothing
            }
        }
    }

    /// Takes the child's end, if it has ended.
    pub(crate) fn reap(&mut self) -> Notice {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let Ok(Some(status)) = waitid(WaitId::PidFd(self.pidfd.as_fd()), options) else {
            return Notice::Nothing;
        };
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => End::Exit { code },
            (None, Some(signal)) => End::Signal { signal },
            (None, None) => End::Killed,
        };
        let mut notice = self.take_last_messages();
        self.reaped = Some((end.clone(), mono_us()));
        if matches!(notice, Notice::Nothing) && self.phase == Phase::Preparing {
            notice = Notice::NotPrepared(format!("the child ended before it resolved: {end:?}").into());
        }
        if !matches!(self.phase, Phase::Running(_)) {
            self.phase = Phase::Leaving;
        }
        notice
    }

    /// Reads what the child sent before it ended.
    fn take_last_messages(&mut self) -> Notice {
        let mut notice = Notice::Nothing;
        for _ in 0..MESSAGES_MAX + self.locks_wanted {
            if matches!(notice, Notice::Nothing) {
                notice = self.take_message();
            }
        }
        notice
    }

    /// The end, once the child is reaped and its pipes are empty.
    pub(crate) fn finish(&mut self) -> Notice {
        match (&self.phase, &self.reaped) {
            (Phase::Running(since), Some((end, at))) => {
                let (since, end, at) = (*since, end.clone(), *at);
                self.ended(end, since, at)
            }
            _ => Notice::Nothing,
        }
    }

    /// Ends the child for the launcher's own reason; the first reason counts.
    pub(crate) fn end(&mut self, verdict: End) {
        self.verdict.get_or_insert(verdict);
        self.deadline_us = after_ms(LEAVE_MS_MAX);
        self.kill();
    }

    fn fail(&mut self, reason: &str) -> Notice {
        let reason = reason.to_owned();
        match self.phase {
            Phase::Preparing => {
                self.leave();
                Notice::NotPrepared(reason.into())
            }
            Phase::Running(_) => {
                self.end(End::Refused { reason });
                Notice::Nothing
            }
            Phase::Held(_) | Phase::Leaving => {
                self.leave();
                Notice::Nothing
            }
        }
    }

    fn leave(&mut self) {
        self.enter(Phase::Leaving, LEAVE_MS_MAX);
        self.kill();
    }

    fn kill(&mut self) {
        self.killed = true;
        // ESRCH: it has ended already.
        if let Err(e) = pidfd_send_signal(&self.pidfd, Signal::KILL)
            && e != Errno::SRCH
        {
            eprintln!("par launcher: cannot kill a child: {e}");
        }
    }

    fn enter(&mut self, phase: Phase, ms: u64) {
        self.phase = phase;
        self.deadline_us = after_ms(ms);
    }

    fn ended(&mut self, end: End, since: u64, at: u64) -> Notice {
        let confined = !self.layers.is_empty();
        let end = match (self.verdict.take(), self.reported.take()) {
            (Some(verdict), _) => verdict,
            (None, Some(reported)) => reported,
            // Whatever its end: unless the child reported every layer as enforced, nothing was run.
            (None, None) if !confined => {
                End::Refused { reason: format!("the child ended before it was confined: {end:?}") }
            }
            (None, None) => end,
        };
        self.enter(Phase::Leaving, LEAVE_MS_MAX);
        let layers = std::mem::take(&mut self.layers);
        let wall_us = at.saturating_sub(since);
        let (protections, given) = (BTreeMap::new(), Given::default());
        Notice::Ended(Ended { end, layers, level: None, protections, given, wall_us })
    }
}

impl Stream {
    /// Reads one piece, as much as the limit allows.
    pub(crate) fn read(&mut self) -> Drained {
        let Some(pipe) = &self.pipe else { return Drained::Nothing };
        // Not zeroed first: most output is far shorter than a piece.
        let mut buffer = Vec::with_capacity(protocol::PIECE_BYTES_MAX);
        match rustix::io::read(pipe, rustix::buffer::spare_capacity(&mut buffer)) {
            Ok(0) => self.close(),
            Ok(read) => {
                buffer.truncate(read.min(self.left));
                self.left -= buffer.len();
                if buffer.len() < read {
                    self.pipe = None;
                    return Drained::Over(buffer);
                }
                Drained::Bytes(buffer)
            }
            Err(Errno::AGAIN | Errno::INTR) => Drained::Nothing,
            Err(_) => self.close(),
        }
    }

    fn close(&mut self) -> Drained {
        self.pipe = None;
        Drained::Nothing
    }
}

/// What the child is told to leave out: units by name, or the positions of paths among what was
/// found below the object. `None` if one is not there, or is not a unit.
fn left_out(exclusions: &[Exclusion], object: &Object, reads_units: bool) -> Option<Vec<u8>> {
    if reads_units && matches!(object, Object::Fixed) {
        let is_unit = |out: &Exclusion| is_unit_name(&out.canonical) && out.id.is_none();
        let names = exclusions.iter().map(|out| out.canonical.as_str());
        return exclusions.iter().all(is_unit).then(|| go_packet(names));
    }
    let beneath = match object {
        Object::Path(path) => path.beneath.as_slice(),
        Object::Fixed
        | Object::Content(_)
        | Object::Absent { .. }
        | Object::Unreadable(_)
        | Object::Outside => &[],
    };
    let place =
        |out: &Exclusion| beneath.iter().position(|one| one.canonical == out.canonical && one.id == out.id);
    let places: Option<Vec<String>> = exclusions.iter().map(|out| Some(place(out)?.to_string())).collect();
    places.map(|places| go_packet(places.iter().map(String::as_str)))
}

fn after_ms(ms: u64) -> u64 {
    mono_us().saturating_add(ms.saturating_mul(1_000))
}
