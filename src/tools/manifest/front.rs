//! Checks of a tool that runs in the front.

use super::error::Fault;
use super::hosts::Reach;
use super::raw::RawManifest;
use super::words::{Class, FrontTool, Limits, Modes, Output, ProcView, ResourceSpec, Runner, Stdin};

/// The front keeps its own rights: what a manifest gave it would be given to every tool.
const NOTHING_GIVEN: &str = "a tool that runs in the front is given nothing of the host";

impl RawManifest {
    /// The runner, if the front's function alone runs and is given nothing.
    pub(super) fn front_runner(&self, which: FrontTool) -> Result<Runner, Fault> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        let sandbox = &self.sandbox;
        for (key, is_there) in [
            ("builtin", self.builtin.is_some()),
            ("command", self.command.is_some()),
            ("interpreter", self.interpreter.is_some()),
            ("script", self.script.is_some()),
        ] {
            if is_there {
                return say(key, &format!("has both `front` and `{key}`"));
            }
        }
        for (key, is_there) in [
            ("read =", !sandbox.read.is_empty()),
            ("write =", !sandbox.write.is_empty()),
            ("exec =", !sandbox.exec.is_empty()),
            ("code =", !sandbox.code.is_empty()),
            ("secrets =", !sandbox.secrets.is_empty()),
            ("groups =", !sandbox.groups.is_empty()),
            ("modes", sandbox.modes != Modes::Refuse),
        ] {
            if is_there {
                return say(key, NOTHING_GIVEN);
            }
        }
        if self.output != Output::Text {
            return say("output", "the output of a tool that runs in the front is always one JSON object");
        }
        if self.stdin != Stdin::None {
            return say("stdin", "a tool that runs in the front gets its arguments without standard input");
        }
        let class = if which.sink().is_some() { Class::Net } else { Class::Read };
        match self.class {
            Some(other) if other != class => {
                say("class", &format!("this tool is of class `{}`", class.as_str()))
            }
            _ => Ok(Runner::Front(which)),
        }
    }

    /// The front has no view of its own for a call.
    pub(super) fn front_proc(&self) -> Result<ProcView, Fault> {
        match self.sandbox.proc {
            ProcView::None => Ok(ProcView::None),
            ProcView::Own | ProcView::Host => Err(("proc", NOTHING_GIVEN.to_owned())),
        }
    }

    /// A tool that sends nothing is about this host; any other is about the one host that it asks.
    pub(super) fn check_front_reach(
        which: FrontTool,
        reach: &Reach,
        resource: &ResourceSpec,
        limits: &Limits,
    ) -> Result<(), Fault> {
        let say = |key, reason: &str| Err((key, reason.to_owned()));
        if limits.memory_bytes_max != 0 || limits.processes_max != 0 || limits.network_bytes_max != 0 {
            let reason = "a tool that runs in the front has only `wall_ms_max` and `output_bytes_max`";
            return say("[limits]", reason);
        }
        match (which.sink(), resource) {
            (Some(form), ResourceSpec::Host { form: given, .. }) if form == *given => {
                match reach.is_empty() {
                    true => say("[resource]", "a tool about a host needs `connect`"),
                    false => Ok(()),
                }
            }
            (Some(form), _) => {
                let form = form.as_str();
                let reason = format!("this tool needs `type = \"Host\"` with `canonical = \"{form}\"`");
                say("[resource]", &reason)
            }
            (None, ResourceSpec::Fixed { .. }) if reach.is_empty() => Ok(()),
            (None, ResourceSpec::Fixed { .. }) => say("connect =", "this tool makes no connections"),
            (None, _) => say("[resource]", "this tool needs `type = \"Host\"` with `is = \"localhost\"`"),
        }
    }
}
