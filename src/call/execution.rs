//! The outcome of a call that was started.

use super::connection::Connections;
use super::end::End;
use crate::types::{DataLabels, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a call was given in addition to its arguments, by the names in its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Named secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Connections, such as `unix:/run/dbus/system_bus_socket`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect: Vec<String>,
    /// Groups of the host that its process was in, in addition to its own: a name, or the number of
    /// a group without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whether all calls of that launcher share those groups, which it could not give up, whatever
    /// their manifests say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub groups_shared: bool,
}

/// How a call ended, and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// How it ended.
    pub end: End,
    /// Standard output up to the manifest's cap. For a builtin, and if the manifest says so, one
    /// JSON object.
    pub stdout: Vec<u8>,
    /// Standard error up to the manifest's cap.
    pub stderr: Vec<u8>,
    /// The layers that were enforced on the child, such as `landlock abi 7`.
    pub layers: Vec<String>,
    /// The level that these layers add up to; `None` for a call that was not confined.
    pub level: Option<Level>,
    /// Each protection that the call had, with the layers that provided it.
    pub protections: BTreeMap<String, Vec<String>>,
    /// Its connections, made and refused, in the order of the requests.
    pub connections: Connections,
    /// What it was given.
    pub given: Given,
    /// The labels of recorded entries that the output repeats; they are added to its own.
    pub repeats: DataLabels,
    /// Time from go to the child's reaping, in microseconds, by the launcher's clock.
    pub wall_us: u64,
}

impl Execution {
    /// A call that never ran, or whose end was not observed.
    #[must_use]
    pub fn without_output(end: End) -> Self {
        Self {
            end,
            stdout: Vec::new(),
            stderr: Vec::new(),
            layers: Vec::new(),
            level: None,
            protections: BTreeMap::new(),
            given: Given::default(),
            connections: Connections::default(),
            repeats: DataLabels::default(),
            wall_us: 0,
        }
    }
}
