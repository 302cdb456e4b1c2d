//! The front matter of a runbook: TOML between two lines `+++`.

use super::fault::{RunbookFault, line_at};
use crate::types::limits;
use serde::Deserialize;
use toml::Spanned;

/// The line before and after the front matter.
const FENCE: &str = "+++\n";

/// What a service in a phrase is written as.
pub(super) const SERVICE: &str = "{service}";

/// The front matter as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFront {
    when: Vec<Spanned<String>>,
    #[serde(default)]
    service: Vec<Spanned<String>>,
    #[serde(default)]
    alert: Vec<Spanned<String>>,
    tools: Vec<Spanned<String>>,
}

/// A word with its line.
pub(super) type PlacedWord = (String, usize);

/// The front matter of a runbook.
#[derive(Debug)]
pub(super) struct FrontMatter {
    /// The phrases that choose it.
    pub(super) when: Vec<PlacedWord>,
    /// The services that `{service}` in a phrase can be.
    pub(super) service: Vec<PlacedWord>,
    /// Names of alerts that it is about.
    pub(super) alert: Vec<PlacedWord>,
    /// The tools that its steps name.
    pub(super) tools: Vec<PlacedWord>,
}

/// Splits `text` into its front matter, the rest, and the line at which the rest starts.
pub(super) fn split<'a>(
    file: &str,
    text: &'a str,
) -> Result<(FrontMatter, &'a str, usize), Vec<RunbookFault>> {
    let one = |line: usize, reason: String| vec![RunbookFault::at(file, line, reason)];
    let missing = "a runbook starts with a line `+++`, its front matter and another line `+++`";
    let inner = text.strip_prefix(FENCE).ok_or_else(|| one(1, missing.to_owned()))?;
    let end = match inner.starts_with(FENCE) {
        true => 0,
        false => inner.find("\n+++\n").map(|at| at + 1).ok_or_else(|| one(1, missing.to_owned()))?,
    };
    let (front, rest) = inner.split_at(end);
    let line = |offset: usize| line_at(front, offset) + 1;
    let raw: RawFront = toml::from_str(front).map_err(|e| {
        let at = e.span().map_or(1, |span| line(span.start));
        one(at, crate::types::with_meant(e.message()))
    })?;
    let placed = |words: Vec<Spanned<String>>| -> Vec<PlacedWord> {
        let one = |word: Spanned<String>| {
            let at = line(word.span().start);
            (word.into_inner(), at)
        };
        words.into_iter().map(one).collect()
    };
    let front = FrontMatter {
        when: placed(raw.when),
        service: placed(raw.service),
        alert: placed(raw.alert),
        tools: placed(raw.tools),
    };
    front.check(file)?;
    let rest = rest.strip_prefix(FENCE).unwrap_or(rest);
    Ok((front, rest, line_at(text, text.len() - rest.len())))
}

impl FrontMatter {
    fn check(&self, file: &str) -> Result<(), Vec<RunbookFault>> {
        let mut faults = Vec::new();
        let mut fault = |line: usize, reason: String| faults.push(RunbookFault::at(file, line, reason));
        if self.when.is_empty() {
            fault(2, "`when` lists no phrase, so nothing would choose this runbook".to_owned());
        }
        for (list, words) in
            [("when", &self.when), ("service", &self.service), ("alert", &self.alert), ("tools", &self.tools)]
        {
            if words.len() > limits::RUNBOOK_WORDS_MAX {
                let max = limits::RUNBOOK_WORDS_MAX;
                fault(2, format!("`{list}` has {} items, at most {max} are allowed", words.len()));
            }
        }
        for (phrase, line) in &self.when {
            if let Err(reason) = self.check_phrase(phrase) {
                fault(*line, reason);
            }
        }
        for (service, line) in &self.service {
            if !is_name(service) {
                fault(*line, format!("`{service}` is not the name of a service: letters, digits and `._@-`"));
            }
        }
        for (alert, line) in &self.alert {
            if !is_name(alert) {
                fault(*line, format!("`{alert}` is not the name of an alert: letters, digits and `._@-`"));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn check_phrase(&self, phrase: &str) -> Result<(), String> {
        let max = limits::RUNBOOK_PHRASE_BYTES_MAX;
        if folded(phrase).is_empty() || phrase.len() > max {
            return Err(format!("a phrase has 1 to {max} bytes"));
        }
        if phrase.chars().any(char::is_control) {
            return Err("a phrase is one line".to_owned());
        }
        let rest = phrase.replacen(SERVICE, "", 1);
        if rest.contains(['{', '}']) {
            return Err("a phrase has at most one `{service}`, and no other brace".to_owned());
        }
        if rest.len() != phrase.len() && self.service.is_empty() {
            return Err(
                "`{service}` needs the list `service`: only names in it choose the runbook".to_owned()
            );
        }
        Ok(())
    }

    /// Each phrase as a person types it, folded, with the service that it names and its line.
    pub(super) fn phrases(&self) -> Vec<(String, Option<String>, usize)> {
        let mut phrases = Vec::new();
        for (phrase, line) in &self.when {
            if phrase.contains(SERVICE) {
                let one = |(service, _): &PlacedWord| {
                    (folded(&phrase.replace(SERVICE, service)), Some(service.clone()), *line)
                };
                phrases.extend(self.service.iter().map(one));
            } else {
                phrases.push((folded(phrase), None, *line));
            }
        }
        phrases
    }

    /// The phrases that `alert` chooses it by: `alert NAME`, or `alert NAME SERVICE` if each phrase
    /// names a service.
    pub(super) fn phrases_of_alert(&self, alert: &str) -> Vec<(String, Option<String>)> {
        if self.when.iter().any(|(phrase, _)| !phrase.contains(SERVICE)) {
            return vec![(folded(&format!("alert {alert}")), None)];
        }
        let one =
            |(service, _): &PlacedWord| (folded(&format!("alert {alert} {service}")), Some(service.clone()));
        self.service.iter().map(one).collect()
    }
}

/// `text` without regard to case and white space.
pub(super) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    word.len() <= limits::ID_BYTES_MAX
        && word.chars().all(plain)
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
}
