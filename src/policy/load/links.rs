//! Links of templates: `policies/links.toml` says for which principal and resource a template
//! applies.
//!
//! A link becomes a policy of its own, as if it were written in place of the template with the
//! names in the slots. Every check of a policy therefore applies to it.

use super::error::{PolicyError, SourceFile, located};
use super::origin::{Linked, Origin, line_of};
use crate::policy::request::cedar::Uid;
use cedar_policy::{EntityUid, PolicyId, PolicySet, SlotId, Template};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::str::FromStr as _;
use toml::Spanned;

/// The file's name in messages and in the digest.
pub(in crate::policy) const LINKS: &str = "policies/links.toml";

/// Templates by their ids.
pub(in crate::policy) type Templates = BTreeMap<String, (Template, Origin)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLinks {
    #[serde(default)]
    link: Vec<Spanned<RawLink>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    template: String,
    id: String,
    principal: Option<String>,
    resource: Option<String>,
}

/// Adds a policy to `set` for each link in `source`. A template without a link is an error: it
/// reads like a rule, but has no effect.
pub(in crate::policy) fn add_links(
    source: Option<&SourceFile>,
    templates: &Templates,
    set: &mut PolicySet,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), Vec<PolicyError>> {
    let mut errors = Vec::new();
    let mut linked: Vec<&str> = Vec::new();
    if let Some(source) = source {
        let file = toml::from_str::<RawLinks>(&source.text)
            .map_err(|e| vec![located(source, e.span().map(|span| span.start), e.message().to_owned())])?;
        for raw in &file.link {
            let at = |reason: String| located(source, Some(raw.span().start), reason);
            match link(raw.get_ref(), templates, set, origins) {
                Ok((template, mut origin)) => {
                    linked.push(template);
                    let line = line_of(&source.text, raw.span().start);
                    if let Some(linked) = &mut origin.linked {
                        linked.at = format!("{}:{line}", source.name);
                    }
                    origins.insert(raw.get_ref().id.clone(), origin);
                }
                Err(reason) => errors.push(at(reason)),
            }
        }
    }
    if errors.is_empty() {
        let unlinked = templates.iter().filter(|(id, _)| !linked.contains(&id.as_str()));
        errors.extend(unlinked.map(|(id, (template, origin))| PolicyError {
            file: origin.file.clone(),
            line: Some(origin.line),
            shown: template.to_cedar().lines().next().map(str::to_owned),
            reason: format!("no link uses the template `{id}`, so it has no effect"),
            mend: Some(format!("add a `[[link]]` to {LINKS}, or write a name in place of the slot")),
        }));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn link<'a>(
    raw: &RawLink,
    templates: &'a Templates,
    set: &mut PolicySet,
    origins: &BTreeMap<String, Origin>,
) -> Result<(&'a str, Origin), String> {
    let RawLink { template, id, .. } = raw;
    let (name, (template, origin)) = templates.get_key_value(template).ok_or_else(|| {
        format!("no template has the id `{template}`: a policy without slots needs no link")
    })?;
    if id.is_empty() || id.starts_with("par.") {
        return Err(format!("`{id}` is not a valid policy id: names that start with `par.` are PAR's own"));
    }
    if origins.contains_key(id) || templates.contains_key(id) {
        return Err(format!("the policy id `{id}` is already taken"));
    }
    let mut values = Vec::new();
    for (key, slot, given) in
        [("principal", SlotId::principal(), &raw.principal), ("resource", SlotId::resource(), &raw.resource)]
    {
        match (template.slots().any(|one| *one == slot), given) {
            (true, Some(words)) => values.push((slot.to_string(), entity(key, words)?)),
            (true, None) => {
                return Err(format!("`{name}` has the slot `{slot}`: `{key}` must fill it"));
            }
            (false, Some(_)) => return Err(format!("`{name}` has no slot for `{key}`")),
            (false, None) => {}
        }
    }
    // After as many newlines as precede it in the file, so that each part of the policy reports the
    // line of the template.
    let text = "\n".repeat(origin.line.saturating_sub(1)) + &filled(&template.to_cedar(), &values);
    let parsed = PolicySet::from_str(&text).map_err(|e| e.to_string())?;
    let policy = parsed.policies().next().ok_or("the template with its slots filled is not a policy")?;
    set.add(policy.new_id(PolicyId::new(id))).map_err(|e| e.to_string())?;
    Ok((name, Origin { linked: Some(Linked { at: String::new(), text }), ..origin.clone() }))
}

/// The value of a slot in Cedar's own spelling. The namespace may be left out.
fn entity(key: &str, words: &str) -> Result<String, String> {
    let whole = if words.starts_with("PAR::") { words.to_owned() } else { format!("PAR::{words}") };
    let uid = EntityUid::from_str(&whole)
        .map_err(|_| format!("`{key}`: `{words}` is not an entity, expected the form `User::\"ana\"`"))?;
    Uid::from_entity(&uid).ok_or_else(|| format!("`{key}`: unknown entity type `{}`", uid.type_name()))?;
    Ok(uid.to_string())
}

/// The text of the template with its slots filled. A slot's name inside a string or a comment is
/// left alone.
fn filled(text: &str, values: &[(String, String)]) -> String {
    let mut out = String::new();
    let (mut in_string, mut in_comment) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let slot = values.iter().find(|(slot, _)| !in_string && !in_comment && rest.starts_with(slot));
        if let Some((slot, value)) = slot {
            out.push_str(value);
            rest = rest.get(slot.len()..).unwrap_or_default();
            continue;
        }
        let mut length = c.len_utf8();
        match c {
            '\n' if in_comment => in_comment = false,
            _ if in_comment => {}
            '\\' if in_string => length += rest.chars().nth(1).map_or(0, char::len_utf8),
            '"' => in_string = !in_string,
            '/' if !in_string && rest.starts_with("//") => in_comment = true,
            _ => {}
        }
        out.push_str(rest.get(..length).unwrap_or_default());
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}
