//! What a message means, over the tools that are on.

use super::form::{SaidWord, Slots, literals, read};
use super::host_table::HOST_SENTENCES;
use super::meaning::Meaning::{Command, Either, Help, Missing, Say, Steps};
use super::meaning::Word::{AnyCase, Number, Slot, Text, True};
use super::meaning::{Meaning, Sentence, SentenceStep, Word};
use super::table::SENTENCES;
use crate::llm::provider::ToolOffer;
use crate::runbooks::WrittenCall;
use crate::types::nearest;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The folders that a sentence may mean without naming their paths.
#[derive(Clone, Debug, Default)]
pub(in crate::llm) struct NamedFolders {
    pub(in crate::llm) logs: PathBuf,
    pub(in crate::llm) workspace: PathBuf,
}

/// What a message means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Understood {
    Calls(Vec<WrittenCall>),
    /// An answer without a call.
    Answer(String),
    /// A question for what is understood.
    Help,
}

/// What `said` means, over the tools in `offered`.
pub(super) fn understand(
    said: &[SaidWord],
    folders: &NamedFolders,
    offered: &[ToolOffer],
) -> Option<Understood> {
    let fits = |sentence: &'static Sentence| {
        sentence.forms.iter().find_map(|form| read(form, said)).map(|slots| (sentence, slots))
    };
    let (sentence, slots) = sentences().find_map(fits)?;
    let steps = match sentence.means.over(offered) {
        Command(command) => {
            return Some(Understood::Answer(format!(
                "This is read at a terminal of the server, with:\n  {}",
                filled(command, &slots, folders)
            )));
        }
        Say(words) => return Some(Understood::Answer((*words).to_owned())),
        Missing(what, near) => return Some(Understood::Answer(missing(what, near, offered))),
        Help => return Some(Understood::Help),
        Steps(steps) | Either(steps, _) => steps,
    };
    let is_on = |step: &&SentenceStep| offered.iter().any(|tool| tool.name == step.tool);
    let calls: Vec<WrittenCall> = steps.iter().filter(is_on).map(|step| step.call(&slots, folders)).collect();
    if !calls.is_empty() {
        return Some(Understood::Calls(calls));
    }
    let names: Vec<String> = steps.iter().map(|step| format!("`{}`", step.tool)).collect();
    let first = steps.first().map_or("", |step| step.tool);
    Some(Understood::Answer(format!(
        "This is understood as a call of {}, which is not on, or which no policy permits you to call. On the server:\n  \
         par tool enable {first} && par reload    # if it is off\n  \
         par policy explain {first} '{{…}}'    # if it is on: which rule is missing",
        names.join(" and ")
    )))
}

/// Says that no tool does it, and what those that come nearest to it do.
fn missing(what: &str, near: &[&str], offered: &[ToolOffer]) -> String {
    let near: Vec<String> = offered
        .iter()
        .filter(|tool| near.contains(&tool.name.as_str()))
        .map(|tool| format!("\n  {}: {}", tool.name, tool.summary))
        .collect();
    let near = match near.is_empty() {
        true => " `help` lists the tools that there are.".to_owned(),
        false => format!(" What comes nearest:{}", near.concat()),
    };
    format!("No tool here does that ({what}).{near}")
}

/// The message with one misspelled word corrected, if it is understood then.
pub(super) fn meant(said: &[SaidWord]) -> Option<String> {
    let known = || sentences().flat_map(|sentence| sentence.forms).flat_map(|form| literals(form));
    (0..said.len()).find_map(|at| {
        let word = said.get(at).filter(|word| !word.is_quoted())?;
        let close = nearest(word.text(), known().filter(|literal| literal.len() > 3))?;
        let mut corrected = said.to_vec();
        *corrected.get_mut(at)? = SaidWord::plain(close);
        let is_understood =
            sentences().any(|one| one.forms.iter().any(|form| read(form, &corrected).is_some()));
        is_understood.then(|| corrected.iter().map(SaidWord::as_typed).collect::<Vec<_>>().join(" "))
    })
}

/// Examples that a message comes nearest to, by the words that it shares with their forms: at most
/// `most`, and the first ones of the table if it shares none.
pub(super) fn near(said: &[SaidWord], offered: &[ToolOffer], most: usize) -> Vec<&'static str> {
    let weight = |literal: &str| {
        let of = |(at, word): (usize, &SaidWord)| match word.text() {
            _ if word.is_quoted() || COMMON.contains(&literal) => 0,
            // What is asked for is mostly the first word.
            text if text.eq_ignore_ascii_case(literal) => 4 + usize::from(at == 0),
            text if text.len() > 3 && nearest(text, [literal]).is_some() => 2,
            _ => 0,
        };
        said.iter().enumerate().map(of).max().unwrap_or(0)
    };
    let shared = |sentence: &Sentence| {
        let sum = |form: &&'static str| {
            let all: BTreeSet<&str> = literals(form).collect();
            all.into_iter().map(weight).sum::<usize>()
        };
        sentence.forms.iter().map(sum).max().unwrap_or(0)
    };
    let mut all: Vec<(usize, &str)> = sentences()
        .filter(|sentence| sentence.is_on(offered))
        .map(|sentence| (shared(sentence), sentence.example))
        .collect();
    // A stable sort: of those that share as many words, the first of the table.
    all.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
    all.into_iter().take(most).map(|(_, example)| example).collect()
}

/// Words that say nothing about what a message asks.
const COMMON: [&str; 27] = [
    "a", "all", "any", "are", "by", "did", "do", "does", "from", "i", "in", "is", "me", "my", "of", "on",
    "or", "show", "the", "there", "this", "to", "up", "what", "which", "who", "with",
];

impl Sentence {
    /// Whether something here answers it: the tools that it needs are on.
    pub(super) fn is_on(&self, offered: &[ToolOffer]) -> bool {
        match self.means.over(offered) {
            Command(_) | Say(_) | Help => true,
            // Understood, to say that no tool does it.
            Missing(..) => false,
            Steps(steps) | Either(steps, _) => are_on(steps, offered),
        }
    }
}

impl Meaning {
    /// The meaning over these tools.
    fn over(&self, offered: &[ToolOffer]) -> &Self {
        match self {
            Either(steps, other) if !are_on(steps, offered) => other.over(offered),
            one => one,
        }
    }
}

fn are_on(steps: &[SentenceStep], offered: &[ToolOffer]) -> bool {
    steps.iter().all(|step| offered.iter().any(|tool| tool.name == step.tool))
}

/// Every sentence. The first form that fits decides.
pub(super) fn sentences() -> impl Iterator<Item = &'static Sentence> {
    HOST_SENTENCES.iter().chain(&SENTENCES)
}

impl SentenceStep {
    fn call(&self, slots: &Slots, folders: &NamedFolders) -> WrittenCall {
        let member = |(name, word): &(&str, Word)| {
            let value = match word {
                Text(text) => Value::from(filled(text, slots, folders)),
                AnyCase(text) => Value::from(format!("(?i){}", regex::escape(&filled(text, slots, folders)))),
                Number(number) => Value::from(*number),
                Slot(slot) => {
                    slots.get(slot).and_then(|n| n.parse::<u32>().ok()).map_or(Value::Null, Value::from)
                }
                True => Value::from(true),
            };
            format!("\"{name}\":{value}")
        };
        let members: Vec<String> = self.arguments.iter().map(member).collect();
        WrittenCall { tool: self.tool.to_owned(), arguments: format!("{{{}}}", members.join(",")) }
    }
}

fn filled(text: &str, slots: &Slots, folders: &NamedFolders) -> String {
    let mut out = text.to_owned();
    // A template holds at most one slot, and a value is not searched for others.
    if let Some((slot, value)) = slots.iter().find(|(slot, _)| text.contains(&format!("{{{slot}}}"))) {
        out = text.replace(&format!("{{{slot}}}"), value);
        // Only a path stands for a folder: a text that begins with `@logs` is that text.
        if !text.starts_with('@') && *slot != "path" {
            return out;
        }
    }
    for (name, folder) in [("@logs", &folders.logs), ("@workspace", &folders.workspace)] {
        match out.strip_prefix(name) {
            Some("") => return folder.to_string_lossy().into_owned(),
            Some(below) if below.starts_with('/') => return format!("{}{below}", folder.display()),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
