//! Parses policy files: every policy under its own id, with its place.

use super::error::{PolicyError, SourceFile, first_offset, help, located};
use super::links::{LINKS, Templates, add_links};
use super::origin::{Origin, line_of};
use cedar_policy::{Policy, PolicyId, PolicySet, Template};
use std::collections::BTreeMap;
use std::str::FromStr as _;

/// Policies under their own ids with the place of each, as far as they could be parsed, and every
/// fault.
#[derive(Debug, Default)]
pub(in crate::policy) struct Parsed {
    /// A policy whose id is missing or taken is under its place: it is checked like the others.
    pub(in crate::policy) set: PolicySet,
    pub(in crate::policy) origins: BTreeMap<String, Origin>,
    pub(in crate::policy) errors: Vec<PolicyError>,
}

/// Policies under their own ids, and the place of each.
pub(in crate::policy) fn parse(
    sources: &[SourceFile],
) -> Result<(PolicySet, BTreeMap<String, Origin>), Vec<PolicyError>> {
    let Parsed { set, origins, errors } = parse_all(sources);
    if errors.is_empty() { Ok((set, origins)) } else { Err(errors) }
}

/// Parses what can be parsed: a fault in one policy hides none in another.
pub(in crate::policy) fn parse_all(sources: &[SourceFile]) -> Parsed {
    let (mut parsed, mut templates) = (Parsed::default(), Templates::new());
    let (links, policies): (Vec<_>, Vec<_>) = sources.iter().partition(|source| source.name == LINKS);
    for source in policies {
        parsed.add_source(source, &mut templates);
    }
    // A link of a template that could not be parsed would be refused too.
    if parsed.errors.is_empty() {
        let Parsed { set, origins, errors } = &mut parsed;
        let links = add_links(links.first().copied(), &templates, set, origins);
        errors.extend(links.err().unwrap_or_default());
    }
    parsed
}

/// A policy or a template, and the offset at which it starts.
type Placed = (Option<usize>, Statement);

impl Parsed {
    fn add_source(&mut self, source: &SourceFile, templates: &mut Templates) {
        if let Err(error) = check_depth(source) {
            self.errors.push(error);
            return;
        }
        let starts = statements(&source.text);
        let mut all = match PolicySet::from_str(&source.text) {
            Ok(set) => placed(&set, &starts),
            Err(_) => starts
                .iter()
                .enumerate()
                .flat_map(|(at, start)| {
                    let end = starts.get(at + 1).copied().unwrap_or(source.text.len());
                    self.alone(source, *start, end)
                })
                .collect(),
        };
        all.sort_by_key(|(offset, _)| *offset);
        for (offset, statement) in all {
            self.add(source, offset, statement, templates);
        }
    }

    /// The statement of a faulty file that lies between two offsets, if it has no fault itself.
    fn alone(&mut self, source: &SourceFile, start: usize, end: usize) -> Vec<Placed> {
        let before = source.text.get(..start).unwrap_or_default();
        // In its place, so that Cedar's offsets are those of the file.
        let blank: String = before.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }).collect();
        let text = blank + source.text.get(start..end).unwrap_or_default();
        match PolicySet::from_str(&text) {
            Ok(set) => placed(&set, &[start]),
            Err(errors) => {
                let found = errors.iter().map(|e| {
                    let offset = first_offset(e).or(Some(start));
                    PolicyError { mend: help(e), ..located(source, offset, e.to_string()) }
                });
                self.errors.extend(found);
                Vec::new()
            }
        }
    }

    fn add(
        &mut self,
        source: &SourceFile,
        offset: Option<usize>,
        statement: Statement,
        templates: &mut Templates,
    ) {
        let line = offset.map_or(1, |offset| line_of(&source.text, offset));
        let origin = Origin { file: source.name.clone(), line, linked: None };
        let at = |reason: String| located(source, offset, reason);
        let named = statement.id().filter(|id| !id.is_empty()).map(str::to_owned);
        let other = named
            .as_ref()
            .and_then(|id| self.origins.get(id).or_else(|| templates.get(id).map(|(_, origin)| origin)));
        let fault = match (&named, other) {
            (None, _) => Some(
                at("the policy has no `@id(\"…\")`".to_owned())
                    .mended("write one above it: decisions name the policy by its id"),
            ),
            (Some(id), _) if id.starts_with("par.") => {
                Some(at(format!("`{id}`: names that start with `par.` are PAR's own")))
            }
            (Some(id), Some(other)) => Some(
                at(format!("the policy id `{id}` is already taken"))
                    .mended(format!("the other policy is at {}:{}", other.file, other.line)),
            ),
            (Some(_), None) => None,
        };
        let id = named.filter(|_| fault.is_none()).unwrap_or_else(|| origin.place());
        self.errors.extend(fault);
        match statement {
            Statement::Policy(policy) => match self.set.add(policy.new_id(PolicyId::new(&id))) {
                Ok(()) => drop(self.origins.insert(id, origin)),
                Err(e) => self.errors.push(at(e.to_string())),
            },
            Statement::Template(template) => drop(templates.insert(id, (template, origin))),
        }
    }
}

/// The statements of a parsed text, whose statements start at these offsets.
fn placed(set: &PolicySet, starts: &[usize]) -> Vec<Placed> {
    let start = |id: &PolicyId| {
        // Cedar names the statements of a text `policy0`, `policy1`, … in their order.
        let place = id.to_string().strip_prefix("policy").and_then(|place| place.parse::<usize>().ok());
        place.and_then(|place| starts.get(place).copied())
    };
    let policies = set.policies().map(|policy| (start(policy.id()), Statement::Policy(policy.clone())));
    let templates =
        set.templates().map(|template| (start(template.id()), Statement::Template(template.clone())));
    policies.chain(templates).collect()
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
enum Statement {
    Policy(Policy),
    Template(Template),
}

impl Statement {
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
