//! Parses policy files: every policy under its own id, with its place.

use super::error::{PolicyError, SourceFile, first_offset, help, located};
use super::links::{LINKS, Templates, add_links};
use super::origin::{Origin, line_of};
use cedar_policy::{Policy, PolicyId, PolicySet, Template};
use std::collections::BTreeMap;
use std::str::FromStr as _;

/// Policies under their own ids, and the place of each.
pub(in crate::policy) fn parse(
    sources: &[SourceFile],
) -> Result<(PolicySet, BTreeMap<String, Origin>), Vec<PolicyError>> {
    let (mut set, mut origins, mut errors) = (PolicySet::new(), BTreeMap::new(), Vec::new());
    let mut templates = Templates::new();
    let (links, policies): (Vec<_>, Vec<_>) = sources.iter().partition(|source| source.name == LINKS);
    for source in policies {
        if let Err(found) = add_source(source, &mut set, &mut origins, &mut templates) {
            errors.extend(found);
        }
    }
    if errors.is_empty() {
        errors.extend(
            add_links(links.first().copied(), &templates, &mut set, &mut origins).err().unwrap_or_default(),
        );
    }
    if errors.is_empty() { Ok((set, origins)) } else { Err(errors) }
}

fn add_source(
    source: &SourceFile,
    set: &mut PolicySet,
    origins: &mut BTreeMap<String, Origin>,
    templates: &mut Templates,
) -> Result<(), Vec<PolicyError>> {
    check_depth(source).map_err(|error| vec![error])?;
    let parsed = PolicySet::from_str(&source.text).map_err(|errors| {
        let found = errors
            .iter()
            .map(|e| PolicyError { mend: help(e), ..located(source, first_offset(e), e.to_string()) });
        found.collect::<Vec<_>>()
    })?;
    let starts = statements(&source.text);
    let start = |id: &PolicyId| {
        // Cedar names the statements of a text `policy0`, `policy1`, … in their order.
        let place = id.to_string().strip_prefix("policy").and_then(|place| place.parse::<usize>().ok());
        place.and_then(|place| starts.get(place).copied())
    };
    let mut all: Vec<(Option<usize>, Statement<'_>)> = parsed
        .policies()
        .map(|policy| (start(policy.id()), Statement::Policy(policy)))
        .chain(parsed.templates().map(|template| (start(template.id()), Statement::Template(template))))
        .collect();
    all.sort_by_key(|(offset, _)| *offset);
    let mut errors = Vec::new();
    for (offset, statement) in all {
        let at = |reason: String| located(source, offset, reason);
        let Some(id) = statement.id().filter(|id| !id.is_empty()).map(str::to_owned) else {
            let error = at("the policy has no `@id(\"…\")`".to_owned());
            errors.push(error.mended("write one above it: decisions name the policy by its id"));
            continue;
        };
        let other = origins.get(&id).or_else(|| templates.get(&id).map(|(_, origin)| origin));
        if id.starts_with("par.") {
            errors.push(at(format!("`{id}`: names that start with `par.` are PAR's own")));
        } else if let Some(other) = other {
            let error = at(format!("the policy id `{id}` is already taken"));
            errors.push(error.mended(format!("the other policy is at {}:{}", other.file, other.line)));
        } else {
            let line = offset.map_or(1, |offset| line_of(&source.text, offset));
            let origin = Origin { file: source.name.clone(), line, linked: None };
            match statement {
                Statement::Policy(policy) => {
                    set.add(policy.new_id(PolicyId::new(&id))).map_err(|e| vec![at(e.to_string())])?;
                    origins.insert(id, origin);
                }
                Statement::Template(template) => {
                    templates.insert(id, (template.clone(), origin));
                }
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Refuses text that Cedar cannot safely handle: it parses, prints and evaluates by recursion.
pub(in crate::policy) fn check_depth(source: &SourceFile) -> Result<(), PolicyError> {
    let Some(offset) = too_deep(&source.text) else { return Ok(()) };
    let reason = format!(
        "a policy has brackets {BRACKETS_MAX} deep, or more than {MARKS_MAX} words and operators: evaluating it \
         would exhaust the stack"
    );
    Err(located(source, Some(offset), reason).mended("split it into several policies"))
}

/// A policy or a template: whatever ends in a `;`.
enum Statement<'a> {
    Policy(&'a Policy),
    Template(&'a Template),
}

impl Statement<'_> {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Policy(policy) => policy.annotation("id"),
            Self::Template(template) => template.annotation("id"),
        }
    }
}

/// Nested brackets that a policy may have. Cedar parses and evaluates by recursion: about 150
/// levels overflow a thread's stack.
const BRACKETS_MAX: usize = 32;

/// Words and operators that a policy may have: a chain of them nests as deep as it is long.
const MARKS_MAX: usize = 1_024;

/// The offset of each statement in a policy file. A statement ends at a `;` outside strings and
/// comments.
fn statements(text: &str) -> Vec<usize> {
    let (mut starts, mut is_open) = (Vec::new(), false);
    each_mark(text, |at, c| {
        if c == ';' {
            is_open = false;
        } else if !is_open {
            is_open = true;
            starts.push(at);
        }
    });
    starts
}

/// The offset at which a policy nests deeper than Cedar can safely process.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut marks, mut found, mut word_end) = (0_usize, 0_usize, None, 0);
    each_mark(text, |at, c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ';' => (depth, marks) = (0, 0),
            '&' | '|' | '!' | '+' | '-' | '*' | '.' | '<' | '>' | '=' => marks += 1,
            // A word counts once: `if`, `else`, `in`, `has`, `like`, `when` and all others.
            c if c.is_alphanumeric() || c == '_' => {
                marks += usize::from(word_end != at);
                word_end = at + c.len_utf8();
            }
            _ => {}
        }
        if found.is_none() && (depth > BRACKETS_MAX || marks > MARKS_MAX) {
            found = Some(at);
        }
    });
    found
}

/// Calls `mark` for each character that is neither white space nor inside a string or a comment.
fn each_mark(text: &str, mut mark: impl FnMut(usize, char)) {
    let (mut in_string, mut in_comment) = (false, false);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        match c {
            '\n' if in_comment => in_comment = false,
            _ if in_comment => {}
            '\\' if in_string => {
                chars.next();
            }
            '"' => {
                if !in_string {
                    mark(at, c);
                }
                in_string = !in_string;
            }
            _ if in_string => {}
            '/' if next == Some('/') => in_comment = true,
            c if !c.is_whitespace() => mark(at, c),
            _ => {}
        }
    }
}
