//! What a call wrote, taken apart for its secrets.

use super::clean::{Hold, Pass};
use super::sealed::Sealed;
use crate::call::{Connection, Connections, End, Execution};
use serde::Deserialize;

impl Sealed for Execution {}

impl Hold for Execution {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        let Self { end, stdout, stderr, layers, level, protections, connections, given, wall_us } = self;
        let told = |one: Connection| Connection { to: one.to.passed(pass), ..one };
        let connections =
            Connections { told: connections.told.into_iter().map(told).collect(), ..connections };
        // Whatever ended it early may have cut a secret in two, and a builtin says so itself where it cut.
        let is_cut = !matches!(end, End::Exit { .. }) || says_cut(&stdout);
        let mut output = |bytes| if is_cut { pass.cut_bytes(bytes) } else { pass.bytes(bytes) };
        let (stdout, stderr) = (output(stdout), output(stderr));
        Self {
            end: end.passed(pass),
            stdout,
            stderr,
            layers,
            level,
            protections,
            connections,
            given,
            wall_us,
        }
    }
}

impl Sealed for End {}

impl Hold for End {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        match self {
            Self::Refused { reason } => Self::Refused { reason: reason.passed(pass) },
            plain => plain,
        }
    }
}

fn says_cut(stdout: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Says {
        truncated: bool,
    }
    serde_json::from_slice(stdout).is_ok_and(|says: Says| says.truncated)
}
