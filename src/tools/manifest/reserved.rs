//! Names that no tool may have: policies know something else by them.

use super::words::Class;

/// The actions of the schema that stand for powers of the API. Which they are is for the room `policy` to say, and
/// a test there holds the two lists together; the launcher, which reads no policy, refuses the same names.
pub const POWERS: [&str; 11] = [
    "run",
    "run_read",
    "audit_read",
    "approval_read",
    "approve",
    "key_manage",
    "tools_read",
    "health_read",
    "reload",
    "redact",
    "export",
];

/// What `name` stands for in policies, where it is no name for a tool.
pub(super) fn taken(name: &str) -> Option<&'static str> {
    match name {
        "call_tool" | "api" => Some("a group of actions"),
        _ if Class::ALL.iter().any(|class| class.as_str() == name) => Some("a class of tools"),
        _ if POWERS.contains(&name) => Some("a power of the API"),
        _ => None,
    }
}
