//! What the launcher learned about this machine, and what it keeps open for every call.

use crate::launcher::cgroup::{CallGroups, NO_GROUPS};
use crate::launcher::confine::identity::drop_bounding_set;
use crate::launcher::confine::layers;
use crate::launcher::confine::protection::{Layer, ProtectionTable, Runs};
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::confine::seccomp::filters;
use crate::launcher::confine::selftest;
use crate::launcher::host::entered::Entered;
use crate::launcher::host::ground::Ground;
use crate::launcher::sys::{self, SingleThread};
use crate::launcher::view::namespaces::SecondStage;
use crate::tools::Manifest;
use crate::types::Level;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::CapabilitySet;
use std::ops::Deref;
use std::os::fd::AsFd as _;

/// The machine as one launcher sees it: what it entered, and what was seen to hold there. Built
/// once, inherited by each child.
#[derive(Debug)]
pub(crate) struct Machine {
    entered: Entered,
    /// What each layer was seen to refuse.
    pub(crate) held: ProtectionTable,
    /// The cgroup features that this process does not have, and what that means.
    pub(crate) groups_missing: Vec<String>,
}

impl Deref for Machine {
    type Target = Entered;

    fn deref(&self) -> &Entered {
        &self.entered
    }
}

impl Machine {
    /// Enters the view and tries the layers, in the launcher's second stage. Nothing is confined
    /// yet. Returns the groups for calls too, if the launcher has its own.
    ///
    /// What this kernel refuses is reported as missing. An error is a machine whose state cannot be
    /// reasoned about.
    pub(crate) fn settle<'m>(
        mut ground: Ground,
        manifests: impl Iterator<Item = &'m Manifest>,
        second: SecondStage,
        one: SingleThread,
    ) -> Result<(Self, Option<CallGroups>), String> {
        let (outside, groups) = (ground.outside.take(), ground.groups.take());
        let (mut entered, playground) = Entered::enter(ground, manifests, second, one)?;
        let canary_context = entered.canary_context();
        let mut held = selftest::probe(&canary_context, playground.as_ref(), outside.as_ref());
        let missing = selftest::no_user_namespace(&canary_context);
        entered.facts.missing.extend(missing);
        let (groups, groups_missing) = match groups {
            Some(Ok(mut groups)) => {
                groups.prove(&entered.one);
                held.add(&[Runs::Builtin, Runs::Program], Layer::Cgroup, groups.protections());
                entered.facts.inherited.extend(groups.layers());
                let missing = groups.missing();
                (Some(groups), missing)
            }
            Some(Err(reason)) => (None, vec![format!("{reason}: {NO_GROUPS}")]),
            None => (None, Vec::new()),
        };
        Ok((Self { entered, held, groups_missing }, groups))
    }

    /// The level that this machine reaches: that of its weakest kind of call, among those that it
    /// accepts at all. `None` if a protection that every call needs has no layer: then no call is
    /// accepted.
    pub(crate) fn level(&self) -> Option<Level> {
        let builtins = self.held.level(Runs::Builtin)?;
        let programs = [Runs::Program, Runs::Proxied].into_iter().filter(|runs| self.takes(*runs));
        Some(programs.filter_map(|runs| self.held.level(runs)).fold(builtins, Level::min))
    }

    /// Fails below `minimum`, and below every level, naming what is missing.
    pub(crate) fn require_level(&self, minimum: Option<Level>) -> Result<(), String> {
        // The causes come first.
        let shortfalls =
            || self.facts.missing.iter().cloned().chain(self.shortfalls()).collect::<Vec<_>>().join("; ");
        match (self.level(), minimum) {
            (None, _) => Err(format!("something is not protected at all: {}", shortfalls())),
            (Some(level), Some(minimum)) if level < minimum => Err(format!(
                "`sandbox.minimum` is `{}`, and this machine reaches `{}`: {}",
                minimum.as_str(),
                level.as_str(),
                shortfalls()
            )),
            _ => Ok(()),
        }
    }

    /// What keeps it below `strict`.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        let mut all = self.held.shortfalls(Runs::Builtin);
        for (runs, name) in [(Runs::Program, "programs"), (Runs::Proxied, "programs that are connected")] {
            let missing = self.held.shortfalls(runs).into_iter().filter(|_| self.takes(runs));
            all.extend(missing.map(|row| format!("{name}: {row}")));
        }
        all
    }

    /// Whether calls of that kind are accepted at all.
    fn takes(&self, runs: Runs) -> bool {
        match runs {
            Runs::Builtin => true,
            Runs::Program => self.has_namespaces(),
            Runs::Proxied => self.has_namespaces() && self.sockets.tcp,
        }
    }

    /// The launcher's own last steps: reduces capabilities to those that starting calls needs, sets
    /// no_new_privs, makes the process not dumpable, loads the base filter; then runs a canary that
    /// must be refused.
    pub(crate) fn confine(&self) -> Result<(), String> {
        if self.identity.is_some() {
            drop_bounding_set();
            layers::lock_secure_bits()?;
            let mut needed = CapabilitySet::SETUID
                | CapabilitySet::SETGID
                | CapabilitySet::SETPCAP
                | CapabilitySet::SYS_ADMIN
                | CapabilitySet::KILL;
            // For the loopback of a call's own network.
            needed.set(CapabilitySet::NET_ADMIN, self.sockets.tcp);
            let held = rustix::thread::capabilities(None).map_err(|e| format!("capabilities: {e}"))?;
            layers::keep_capabilities(needed & held.permitted)?;
        } else {
            layers::keep_capabilities(CapabilitySet::empty())?;
        }
        rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(|e| format!("dumpable: {e}"))?;
        load(&filters::base(self.sockets, matches!(self.own_proc, Some(Ok(())))))?;
        self.test()
    }

    /// Starts a child that confines itself and tries what must be refused.
    fn test(&self) -> Result<(), String> {
        let Some(pidfd) = sys::clone_call(&self.one, self.per_call).map_err(|e| format!("clone: {e}"))?
        else {
            sys::exit_now(self.canary());
        };
        let end =
            waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).map_err(|e| format!("wait: {e}"))?;
        match end.and_then(|end| end.exit_status()) {
            Some(0) => Ok(()),
            Some(1) => Err("landlock: cannot be enforced".to_owned()),
            Some(2) => Err("landlock: a folder that was not granted could be read".to_owned()),
            Some(3) => Err("seccomp: cannot be enforced".to_owned()),
            Some(4) => Err("seccomp: a socket was not refused".to_owned()),
            _ => Err("the self-test did not complete".to_owned()),
        }
    }

    fn canary(&self) -> u8 {
        if self.landlock.ruleset(&[]).and_then(layers::restrict).is_err() {
            return 1;
        }
        let read = openat(CWD, "/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        if read.err() != Some(rustix::io::Errno::ACCESS) {
            return 2;
        }
        if load(&self.filters.builtin).is_err() {
            return 3;
        }
        if sys::try_socket() != Err(rustix::io::Errno::PERM) {
            return 4;
        }
        0
    }
}
