//! `par runbook`: lists runbooks, and shows what the rules would decide on their steps.

use super::exit::{self, Fail};
use super::policy::{ruling_on, why};
use super::table::{Cell, Column, Screen, Sheet, words};
use super::{compose, reply, show};
use crate::config::Config;
use crate::gate::Rules;
use crate::policy::Ruling;
use crate::runbooks::{Runbook, RunbookStep};
use crate::types::{nearest, text};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(super) enum RunbookCommand {
    /// List the runbooks and the phrases that choose them
    List,
    /// Check the runbooks, and show whether the rules would permit each step, ask a person or deny
    /// it; exits with 3 if a step would be denied
    Check {
        /// Only this runbook [default: all]
        name: Option<String>,
        /// Decide as for this key (its id or name) or for this role [default: operator]
        #[arg(long = "as", value_name = "KEY")]
        who: Option<String>,
    },
}

/// A step with what the rules would decide; `None` if its tool is off.
struct CheckedStep<'a> {
    step: &'a RunbookStep,
    arguments: Value,
    answer: Option<Ruling>,
}

impl RunbookCommand {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let rules = compose::load_rules(config)?;
        match self {
            Self::List => list(&rules, is_json)?,
            Self::Check { name, who } => {
                let mut is_denied = false;
                for book in books(&rules, name.as_deref())? {
                    let steps = checked(config, &rules, book, who.as_deref())?;
                    is_denied |= steps.iter().any(CheckedStep::is_denied);
                    print(book, &steps, is_json)?;
                }
                if is_denied {
                    return Ok(exit::DENIED);
                }
            }
        }
        Ok(exit::OK)
    }
}

fn books<'a>(rules: &'a Rules, name: Option<&str>) -> Result<Vec<&'a Runbook>, Fail> {
    let all = rules.bundle.runbooks();
    let Some(name) = name else { return Ok(all.iter().collect()) };
    let unknown = || {
        let meant = nearest(name, all.iter().map(|book| book.name.as_str()));
        let meant = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
        Fail::usage(format!("no runbook is named `{}`{meant}", text::visible_line(name)))
    };
    all.find(name).map(|book| vec![book]).ok_or_else(unknown)
}

fn list(rules: &Rules, is_json: bool) -> Result<(), Fail> {
    let columns = [Column::Whole("name"), Column::Words("chosen by"), Column::Words("tools")];
    let mut table = Sheet::new(&columns);
    for book in rules.bundle.runbooks().iter() {
        if is_json {
            show::json(&json!({
                "name": book.name, "title": book.title, "when": book.when, "service": book.service,
                "alert": book.alert, "tools": book.tools, "steps": book.steps().count(), "sha256": book.sha256.hex(),
            }))?;
        }
        let alerts = book.alert.iter().map(|alert| format!("alert {alert}"));
        let chosen: Vec<String> = book.when.iter().cloned().chain(alerts).collect();
        table.push(vec![book.name.clone().into(), chosen.join("; ").into(), book.tools.join(", ").into()]);
    }
    if is_json { Ok(()) } else { table.print(&Screen::stdout()) }
}

/// Decides on each step as a run would: after a step whose tool reads what others wrote, the run is
/// tainted.
fn checked<'a>(
    config: &Config,
    rules: &Rules,
    book: &'a Runbook,
    who: Option<&str>,
) -> Result<Vec<CheckedStep<'a>>, Fail> {
    let service = book.service.first().map(String::as_str);
    let (mut is_tainted, mut steps) = (false, Vec::new());
    for step in book.steps() {
        let call = step.call(service);
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
        let manifest = rules.catalog.find(step.tool());
        let answer = manifest.map(|_| ruling_on(config, rules, who, &call, is_tainted)).transpose()?;
        is_tainted |= manifest.is_some_and(|manifest| manifest.untrusted_output);
        steps.push(CheckedStep { step, arguments, answer });
    }
    Ok(steps)
}

impl CheckedStep<'_> {
    fn word(&self) -> &'static str {
        self.answer.as_ref().map_or("off", Ruling::word)
    }

    fn is_denied(&self) -> bool {
        matches!(self.answer, Some(Ruling::Deny { .. }))
    }

    fn why(&self) -> String {
        match &self.answer {
            Some(Ruling::Deny { policies, reason, .. }) if policies.is_empty() => reason.clone(),
            Some(Ruling::Deny { policies, .. } | Ruling::Allow { policies }) => policies.join(", "),
            Some(asks @ Ruling::NeedsApproval { .. }) => why(asks, 0),
            None => format!("the tool is off: `par tool enable {}`", self.step.tool()),
        }
    }
}

fn print(book: &Runbook, steps: &[CheckedStep<'_>], is_json: bool) -> Result<(), Fail> {
    if is_json {
        let steps: Vec<Value> = steps
            .iter()
            .map(|one| {
                json!({ "number": one.step.number, "line": one.step.line, "tool": one.step.tool(),
                        "arguments": one.arguments, "decision": one.word(), "why": one.why() })
            })
            .collect();
        return show::json(&json!({ "name": book.name, "title": book.title, "steps": steps }));
    }
    let screen = Screen::stdout();
    words(&screen, &format!("{}: {}", book.name, book.title))?;
    let columns = [Column::Whole(""), Column::Whole("decision"), Column::Words("step"), Column::Words("why")];
    let mut table = Sheet::bare(&columns);
    for one in steps {
        let what = format!("{} {}", one.step.tool(), reply::arguments(&one.arguments));
        table.push(vec![
            format!("  {}.", one.step.number).into(),
            Cell::outcome(one.word()),
            what.trim_end().to_owned().into(),
            one.why().into(),
        ]);
    }
    table.print(&screen)?;
    if steps.is_empty() { show::line("  it has no steps") } else { Ok(()) }
}
