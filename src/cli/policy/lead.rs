//! Where a denial leads: the command that would permit exactly this call, or what no rule lifts.

use crate::cli::new::in_shell;
use crate::policy::{Considered, Resource, Ruling};
use crate::tools::Manifest;
use crate::types::text;
use serde_json::Value;
use std::path::Path;

/// The built-in rule about paths that no manifest grants.
const OUTSIDE: &str = "par.outside";
/// The built-in rule about tools of the class `admin` in a run that has read untrusted text.
const TAINTED: &str = "par.tainted";

/// Whether only a permit is missing: no rule forbids the call that an approval could not lift.
/// `asks` says whether a rule asks a person.
pub(super) fn lacks_permit(answer: &Ruling, considered: &[Considered], asks: impl Fn(&str) -> bool) -> bool {
    let is_forbidden = considered.iter().any(|one| one.matched && !one.permits && !asks(&one.policy));
    matches!(answer, Ruling::Deny { .. }) && !is_forbidden
}

/// The command that writes a rule for this caller, this tool and this object.
pub(super) fn permitting(who: &str, tool: &str, on: &str) -> String {
    format!("par policy new --who {} --may {tool} --on {on}", in_shell(who))
}

/// A principal of the record, as `par policy new --who` takes it.
pub(super) fn holder(principal: &str) -> String {
    match principal.strip_prefix("os:") {
        Some(_) => format!("user:{principal}"),
        None => principal.to_owned(),
    }
}

/// What a call is about, as `par policy new --on` takes it. A rule can only name a path that is
/// there.
pub(super) fn object_of(resource: &Resource) -> Option<String> {
    match resource {
        Resource::Fixed { id, .. } if id == "localhost" => Some("host:localhost".to_owned()),
        Resource::Fixed { .. } => None,
        Resource::Id { kind, id } => Some(in_shell(&format!("{}:{id}", kind.as_str().to_lowercase()))),
        Resource::Path { canonical, .. } => there(canonical),
        // What other rules say about it is known only once a manifest grants it.
        Resource::Outside { .. } => None,
    }
}

/// The same, of a recorded request.
pub(super) fn recorded_object(request: &Value) -> Option<String> {
    let word = |name: &str| request.pointer(&format!("/resource/{name}")).and_then(Value::as_str);
    match (word("type")?.trim_start_matches("PAR::"), word("id")?) {
        ("Host", "localhost") => Some("host:localhost".to_owned()),
        ("Path", path) => there(path),
        (kind @ ("Project" | "Service" | "Job"), id) => {
            Some(in_shell(&format!("{}:{id}", kind.to_lowercase())))
        }
        _ => None,
    }
}

fn there(path: &str) -> Option<String> {
    Path::new(path).exists().then(|| in_shell(path))
}

/// What to look at if the manifest does not grant the path: no rule lifts that.
pub(super) fn outside(answer: &Ruling, manifest: Option<&Manifest>, path: &str) -> Option<String> {
    let Ruling::Deny { policies, .. } = answer else { return None };
    let manifest = manifest.filter(|_| policies.iter().any(|policy| policy == OUTSIDE))?;
    // As the manifest writes it: that line would have to change.
    let file: toml::Table = toml::from_str(&manifest.text).unwrap_or_default();
    let granted = file.get("sandbox").and_then(|sandbox| sandbox.get("read"));
    let granted = granted.map_or_else(|| "[]".to_owned(), ToString::to_string);
    Some(format!(
        "no rule lifts this: the manifest of {} has `read = {}`; `par doctor path {}` shows what refuses it",
        manifest.name,
        text::visible_line(&granted),
        text::visible_line(&in_shell(path))
    ))
}

/// What would let a person confirm a call that is denied only because of what the run has read.
pub(super) fn confirmable(answer: &Ruling, considered: &[Considered]) -> Option<String> {
    let Ruling::Deny { policies, .. } = answer else { return None };
    let permit = considered.iter().find(|one| one.permits && one.matched)?;
    let at = permit.origin.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
    (policies == &[TAINTED]).then(|| {
        format!(
            "{TAINTED} takes it from a run that has read untrusted text: `@tainted(\"confirm\")` on {}{at} would \
             let a person confirm this call",
            permit.policy
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{holder, lacks_permit, permitting, recorded_object};
    use crate::policy::Ruling;
    use serde_json::json;

    fn deny() -> Ruling {
        let (policies, advice, errors) = (Vec::new(), Vec::new(), Vec::new());
        Ruling::Deny { policies, reason: "no policy permits it".to_owned(), advice, errors }
    }

    /// The way from a recorded denial to the rule leads through the same command.
    #[test]
    fn a_recorded_denial_names_the_command_that_would_permit_it() {
        let request = json!({ "resource": { "type": "PAR::Project", "id": "shop" } });
        let on = recorded_object(&request).expect("an object");
        let command = permitting(&holder("os:ben"), "deploy", &on);
        assert_eq!(command, "par policy new --who user:os:ben --may deploy --on project:shop");
        assert_eq!(holder("key:ZcTr354w"), "key:ZcTr354w");
        let absent = json!({ "resource": { "type": "PAR::Path", "id": "/nonexistent/x" } });
        assert_eq!(recorded_object(&absent), None);
        assert!(lacks_permit(&deny(), &[], |_| false));
    }
}
