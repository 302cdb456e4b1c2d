//! What came of a call that was let go.

use super::connection::Connections;
use super::end::End;
use crate::types::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a program had beside its arguments, by the names of its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Named secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Connections, such as `unix:/run/dbus/system_bus_socket`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect: Vec<String>,
}

/// How a call ended, and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The end.
    pub end: End,
    /// Standard output up to the manifest's cap. Of a builtin, and where the manifest says so: one JSON
    /// object.
    pub stdout: Vec<u8>,
    /// Standard error up to the manifest's cap.
    pub stderr: Vec<u8>,
    /// The layers that were enforced on the child, such as `landlock abi 7`.
    pub layers: Vec<String>,
    /// The level that these come to; `None` of a call that was not confined.
    pub level: Option<Level>,
    /// Each protection that the call had, with the layers that gave it.
    pub protections: BTreeMap<String, Vec<String>>,
    /// What it was connected to, and was not, in the order in which it asked.
    pub connections: Connections,
    /// What its program was given.
    pub given: Given,
    /// From go to reaped, in microseconds, by the launcher's clock.
    pub wall_us: u64,
}

impl Execution {
    /// A call that never ran, or whose run nobody saw end.
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
            wall_us: 0,
        }
    }
}
