//! One runbook, and what a run gets of it.

use super::calls::WrittenCall;
use super::fault::RunbookFault;
use super::front::{self, FrontMatter};
use super::source::{RunbookFile, RunbookTools};
use super::step::{RunbookStep, hides_a_call, is_step};
use crate::secrets::Parted;
use crate::tools::check_id;
use crate::types::{Digest, limits, text};
use std::collections::BTreeSet;

/// The words before a runbook.
const WORDS: &str = "\
The operator of this server wrote the following runbook for exactly this message. Follow its steps in their \
order, as far as they help, and read each result. It permits nothing: each call is checked as ever.";

/// One runbook.
#[derive(Clone, Debug)]
pub struct Runbook {
    /// The name: its file's, without the ending.
    pub name: String,
    /// The first heading.
    pub title: String,
    /// The phrases that choose it, as written.
    pub when: Vec<String>,
    /// The services that `{service}` in a phrase can be.
    pub service: Vec<String>,
    /// Names of alerts that it is about.
    pub alert: Vec<String>,
    /// The tools that its steps name.
    pub tools: Vec<String>,
    /// SHA-256 of its file.
    pub sha256: Digest,
    lines: Vec<BookLine>,
}

/// A line of the text after the front matter.
#[derive(Clone, Debug)]
enum BookLine {
    Words(String),
    Step(RunbookStep),
}

/// A runbook as a run gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRunbook {
    /// Its name.
    pub name: String,
    /// SHA-256 of its file.
    pub sha256: Digest,
    /// The service that the phrase names.
    pub service: Option<String>,
    /// PAR's own words before it, for the model.
    pub words: String,
    /// Its text, in which folders have their paths and the service its name.
    pub text: String,
    /// Its steps. Empty for a run that was rebuilt from its entries: the replies that they led to
    /// are among those.
    pub steps: Vec<WrittenCall>,
}

impl Runbook {
    pub(super) fn parse(
        file: &RunbookFile,
        tools: &RunbookTools<'_>,
    ) -> Result<(Self, FrontMatter), Vec<RunbookFault>> {
        let whole = |reason: String| vec![RunbookFault::whole(&file.name, reason)];
        let name = file.name.rsplit('/').next().and_then(|name| name.strip_suffix(".md")).unwrap_or_default();
        check_id(name).map_err(|reason| whole(format!("the name `{name}` {reason}")))?;
        if file.text.len() > limits::RUNBOOK_BYTES_MAX {
            let (is, max) = (file.text.len(), limits::RUNBOOK_BYTES_MAX);
            return Err(whole(format!("has {is} bytes, at most {max} are allowed")));
        }
        let hidden = file.text.lines().position(|line| text::visible(line) != line);
        if let Some(at) = hidden {
            let reason = "has a character that is invisible or moves the cursor";
            return Err(vec![RunbookFault::at(&file.name, at + 1, reason)]);
        }
        let (front, rest, first) = front::split(&file.name, &file.text)?;
        let (title, lines) = body(file, &front, rest, first, tools)?;
        let words = |list: &[(String, usize)]| list.iter().map(|(word, _)| word.clone()).collect();
        let runbook = Self {
            name: name.to_owned(),
            title,
            when: words(&front.when),
            service: words(&front.service),
            alert: words(&front.alert),
            tools: words(&front.tools),
            sha256: file.digest(),
            lines,
        };
        Ok((runbook, front))
    }

    /// Its steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &RunbookStep> {
        self.lines.iter().filter_map(|line| match line {
            BookLine::Step(step) => Some(step),
            BookLine::Words(_) => None,
        })
    }

    /// The runbook as a run gets it, for `service` if the phrase names one.
    #[must_use]
    pub fn given(&self, service: Option<&str>) -> GivenRunbook {
        let line = |line: &BookLine| match (line, service) {
            (BookLine::Words(words), Some(service)) => words.replace(front::SERVICE, service),
            (BookLine::Words(words), None) => words.clone(),
            (BookLine::Step(step), _) => step.given(service),
        };
        let text: Vec<String> = self.lines.iter().map(line).collect();
        GivenRunbook {
            name: self.name.clone(),
            sha256: self.sha256,
            service: service.map(str::to_owned),
            words: WORDS.to_owned(),
            text: text.join("\n").trim().to_owned(),
            steps: self.steps().map(|step| step.call(service)).collect(),
        }
    }
}

impl GivenRunbook {
    /// The text after the last step: after the lines that go on with its words, up to an empty one.
    #[must_use]
    pub fn after_steps(&self) -> &str {
        let (mut end, mut is_in_step, mut last) = (0, false, 0);
        for line in self.text.split_inclusive('\n') {
            end += line.len();
            is_in_step = is_step(line) || is_in_step && !line.trim().is_empty();
            if is_in_step {
                last = end;
            }
        }
        self.text.get(last..).unwrap_or_default().trim()
    }
}

impl Parted for GivenRunbook {
    type Parts = ((String, Option<String>, (String, String)), (Digest, Vec<(String, String)>));

    fn apart(self) -> (Self::Parts, fn(Self::Parts) -> Self) {
        let Self { name, sha256, service, words, text, steps } = self;
        let steps = steps.into_iter().map(|WrittenCall { tool, arguments }| (tool, arguments)).collect();
        (
            ((name, service, (words, text)), (sha256, steps)),
            |((name, service, (words, text)), (sha256, steps))| {
                let call = |(tool, arguments)| WrittenCall { tool, arguments };
                Self { name, sha256, service, words, text, steps: steps.into_iter().map(call).collect() }
            },
        )
    }
}

/// The title and the lines of a runbook.
fn body(
    file: &RunbookFile,
    front: &FrontMatter,
    text: &str,
    first: usize,
    tools: &RunbookTools<'_>,
) -> Result<(String, Vec<BookLine>), Vec<RunbookFault>> {
    let mut faults = Vec::new();
    let mut lines = Vec::new();
    let service = front.service.first().map(|(service, _)| service.as_str());
    let mut listed: BTreeSet<&str> = front.tools.iter().map(|(name, _)| name.as_str()).collect();
    for (name, line) in &front.tools {
        if let Some(why) = tools.mistyped(name) {
            faults.push(RunbookFault::at(&file.name, *line, why));
            listed.remove(name.as_str());
        }
    }
    let names_none = front.when.iter().any(|(phrase, _)| !phrase.contains(front::SERVICE));
    for (at, words) in text.lines().enumerate() {
        let line = first + at;
        let mut fault = |reason: String| faults.push(RunbookFault::at(&file.name, line, reason));
        match RunbookStep::read(words, line, tools, service) {
            Some(Ok(step)) => {
                if !listed.contains(step.tool()) {
                    fault(format!("`{}` is not in `tools` of the front matter", step.tool()));
                }
                if step.needs_service() && names_none {
                    fault("`{service}` in a step needs `{service}` in every phrase of `when`".to_owned());
                }
                lines.push(BookLine::Step(step));
            }
            Some(Err(reason)) => fault(reason),
            None => {
                if let Some(tool) = hides_a_call(words, tools) {
                    fault(format!(
                        "this line calls `{tool}` and is not a step: begin it with a number, as in ``1. `{tool}()` ``"
                    ));
                }
                lines.push(BookLine::Words(words.to_owned()));
            }
        }
    }
    let steps = lines.iter().filter(|line| matches!(line, BookLine::Step(_))).count();
    if steps > limits::RUNBOOK_STEPS_MAX {
        let max = limits::RUNBOOK_STEPS_MAX;
        faults.push(RunbookFault::whole(&file.name, format!("has {steps} steps, at most {max} are allowed")));
    }
    let title = text.lines().find(|line| !line.trim().is_empty()).and_then(|line| line.strip_prefix("# "));
    let title = title.map(str::trim).filter(|title| !title.is_empty());
    if title.is_none() {
        faults.push(RunbookFault::at(&file.name, first, "the text starts with a title, as in `# Disk full`"));
    }
    match title {
        Some(title) if faults.is_empty() => Ok((title.to_owned(), lines)),
        _ => Err(faults),
    }
}
