//! Names that no tool may have, because policies use them for something else.

use super::words::Class;

/// The actions of the schema that are powers of the API. The room `policy` defines them, and a test
/// there compares the two lists; the launcher, which reads no policy, refuses the same names.
pub const POWERS: [&str; 13] = [
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
    "run_cancel",
    "halt",
];

/// What `name` means in policies, if it is reserved.
pub(super) fn taken(name: &str) -> Option<&'static str> {
    match name {
        "call_tool" | "api" => Some("a group of actions"),
        _ if Class::ALL.iter().any(|class| class.as_str() == name) => Some("a class of tools"),
        _ if POWERS.contains(&name) => Some("a power of the API"),
        _ => None,
    }
}
