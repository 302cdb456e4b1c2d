//! A case of the policies' own tests, as it is written.

use crate::auth::Role;
use serde_json::{Map, Value};

/// One case: who calls what on what, and what must be decided.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct NewCase {
    /// What it shows, for messages.
    pub(in crate::cli) name: String,
    /// Lines that name the caller, such as `role = ["operator", "admin"]`.
    pub(in crate::cli) caller: String,
    pub(in crate::cli) tools: Vec<String>,
    /// The model of a case about a language model, which has no tools.
    pub(in crate::cli) sink: Option<String>,
    pub(in crate::cli) arguments: Map<String, Value>,
    /// Empty for a tool whose resource is fixed.
    pub(in crate::cli) resources: Vec<String>,
    /// Further lines, such as `approved = "approved"`.
    pub(in crate::cli) more: String,
    pub(in crate::cli) expect: &'static str,
    /// Whether the rule is wrong if this case fails. Otherwise another rule may permit the same
    /// call, and the case is left out.
    pub(in crate::cli) is_needed: bool,
}

impl NewCase {
    /// The case as TOML.
    pub(super) fn toml(&self) -> String {
        let Self { name, caller, tools, sink, arguments, resources, more, expect, .. } = self;
        if let Some(sink) = sink {
            return format!(
                "\n[[ask]]\nname = {}\n{caller}\nsink = {}\n{more}expect = \"{expect}\"\n",
                text(name),
                text(sink)
            );
        }
        let mut out = format!("\n[[case]]\nname = {}\n{caller}\ntool = {}\n", text(name), words(tools));
        if !arguments.is_empty() {
            let members =
                arguments.iter().map(|(name, value)| format!("{} = {}", text(name), literal(value)));
            out += &format!("arguments = {{ {} }}\n", members.collect::<Vec<_>>().join(", "));
        }
        if !resources.is_empty() {
            out += &format!("resource = {}\n", words(resources));
        }
        out + &format!("{more}expect = \"{expect}\"\n")
    }
}

/// A string as TOML.
pub(in crate::cli) fn text(word: &str) -> String {
    toml::Value::from(word).to_string()
}

/// One string, or a list of them, as TOML.
pub(in crate::cli) fn words(words: &[String]) -> String {
    match words {
        [one] => text(one),
        several => format!("[{}]", several.iter().map(|word| text(word)).collect::<Vec<_>>().join(", ")),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(word) => text(word),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// The roles that a rule for `role` covers, and the other roles. An administrator is also an
/// operator and a viewer.
pub(in crate::cli) fn covered(role: Role) -> (Vec<String>, Vec<String>) {
    let is_covered = |one: &Role| *one == role || (*one == Role::Admin && role != Role::Approver);
    let (covered, others): (Vec<Role>, Vec<Role>) = Role::ALL.into_iter().partition(is_covered);
    let names = |roles: Vec<Role>| roles.into_iter().map(|role| role.as_str().to_owned()).collect();
    (names(covered), names(others))
}

/// `words` as one word of a shell.
pub(in crate::cli) fn in_shell(words: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,:".contains(c);
    match !words.is_empty() && words.chars().all(is_plain) {
        true => words.to_owned(),
        false => format!("'{}'", words.replace('\'', r"'\''")),
    }
}
