//! `par approval`: through the admin socket of the running server, or directly on the ledger if
//! none runs; with `--url`, at any server with the caller's own key.
//!
//! # Layout
//!
//! * `words`: single values
//! * `card`: what a person is shown
//! * `pages`: a card that is longer than the terminal
//! * `confirm`: what a person types
//! * `refusal`: why an answer was refused
//! * `source`: where approvals are kept
//! * `mend`: what would allow an answer
//! * `answer`: sends an answer

mod words;
mod card;
mod pages;
mod confirm;
mod refusal;
mod source;
mod mend;
mod answer;

use super::exit::{self, Fail};
use super::remote::Server;
use super::table::{Cell, Column, Screen, Sheet};
use super::{compose, show};
use crate::config::Home;
use crate::gate::State;
use answer::AnswerArgs;
use clap::{Args, Subcommand};
use mend::with_mend;
use serde_json::Value;
use source::ApprovalSource;
use words::{who, word};

#[derive(Debug, Args)]
pub(super) struct Approvals {
    /// Use the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or ~/.config/par/key;
    /// needs no home here [env: PAR_URL]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    #[command(subcommand)]
    command: ApprovalCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalCommand {
    /// List the calls that wait for approval
    List {
        /// Include answered and expired approvals
        #[arg(long)]
        all: bool,
    },
    /// Show one approval, with the exact call
    Show {
        /// Id of the approval, `apr_…`
        id: String,
        /// Leave nothing out on a terminal: the whole script, and the digest to answer with
        #[arg(long)]
        full: bool,
    },
    /// Approve exactly this call and resume its run
    Approve(Approve),
    /// Deny this call; its run resumes without it
    Deny(AnswerArgs),
}

#[derive(Debug, Args)]
struct Approve {
    #[command(flatten)]
    answer: AnswerArgs,
    /// Approve without a question on the terminal: the last four characters of the digest that
    /// `par approval show` prints last
    #[arg(long, value_name = "END")]
    card: Option<String>,
}

impl Approvals {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let source = match self.url.clone().or_else(|| home.server_url()) {
            Some(url) => ApprovalSource::Server(Box::new(Server::at(&url)?.checked()?)),
            None => ApprovalSource::Home(Box::new(compose::load(home)?)),
        };
        match &self.command {
            ApprovalCommand::List { all } => list(&source, *all, is_json),
            ApprovalCommand::Show { id, full } => {
                let approval = source.find(id)?;
                let screen = Screen::stdout();
                let lines = match screen.columns {
                    _ if is_json => return show::json(&approval).map(|()| exit::OK),
                    Some(_) if !full => card::short_lines(&approval, &screen),
                    _ => card::lines(&approval, &screen),
                };
                lines.iter().try_for_each(|line| show::line(line))?;
                Ok(exit::OK)
            }
            ApprovalCommand::Approve(approve) => approve.run(source, is_json),
            ApprovalCommand::Deny(args) => {
                let approval = source.find(&args.id)?;
                refuse_void(&source, &approval)?;
                args.send(source, &approval, false, is_json)
            }
        }
    }
}

impl Approve {
    fn run(&self, source: ApprovalSource, is_json: bool) -> Result<u8, Fail> {
        let approval = source.find(&self.answer.id)?;
        refuse_void(&source, &approval)?;
        // Whoever may not answer types nothing first.
        source.check_may(&approval).map_err(|fail| with_mend(fail, &source, &approval))?;
        // The whole card is shown, even if standard output is for a program.
        let screen = Screen::stdout();
        if !is_json && self.card.is_none() {
            pages::show(&card::lines(&approval, &screen), &card::head_lines(&approval, &screen))?;
        } else if !is_json {
            card::lines(&approval, &screen).iter().try_for_each(|line| show::line(line))?;
        } else if self.card.is_none() {
            card::lines(&approval, &screen).iter().for_each(|line| show::note(line));
        }
        match &self.card {
            Some(given) => confirm::check(given, &approval)?,
            None => confirm::ask(&approval)?,
        }
        self.answer.send(source, &approval, true, is_json)
    }
}

/// Refuses to answer an approval that is void, before its card is shown, and names the one that was
/// asked instead.
fn refuse_void(source: &ApprovalSource, approval: &Value) -> Result<(), Fail> {
    if word(approval, "/state") != State::Void.as_str() {
        return Ok(());
    }
    let (id, call) = (word(approval, "/id"), word(approval, "/call"));
    let mut next = Some(0);
    let mut open = None;
    while let Some(after) = next.filter(|_| open.is_none()) {
        let page = source.page(false, after)?;
        open = page.items.iter().find(|one| word(one, "/call") == call).map(|one| word(one, "/id"));
        next = page.next;
    }
    let instead = match open {
        Some(open) => format!("it was asked again as {open}: `par approval show {open}`"),
        None => "it was not asked again".to_owned(),
    };
    Err(Fail::failed(format!("{id} is void: the call, its rules or its run have changed since; {instead}")))
}

fn list(source: &ApprovalSource, all: bool, is_json: bool) -> Result<u8, Fail> {
    let mut items: Vec<Value> = Vec::new();
    let (mut next, mut damage) = (Some(0), None);
    while let Some(after) = next {
        let page = source.page(all, after)?;
        items.extend(page.items);
        (next, damage) = (page.next, page.damage);
    }
    show::damage(damage.as_deref());
    if is_json {
        items.iter().try_for_each(show::json)?;
        return Ok(exit::OK);
    }
    let screen = Screen::stdout();
    let mut table = Sheet::new(&[
        Column::Whole("id"),
        Column::Whole("state"),
        Column::Cut("tool"),
        Column::Words("arguments"),
        Column::Cut("asked by"),
        Column::Whole("expires"),
    ]);
    for item in &items {
        table.push(vec![
            word(item, "/id").into(),
            Cell::outcome(&word(item, "/state")),
            word(item, "/tool").into(),
            word(item, "/arguments").into(),
            who(item, "/requester").into(),
            // Only an open question expires.
            match word(item, "/state") == State::Pending.as_str() {
                true => Cell::written_time(&word(item, "/expires"), &screen),
                false => Cell::default(),
            },
        ]);
    }
    let nothing = if all { "par: no approval was ever asked for" } else { "par: no call waits for approval" };
    table.print_or(&screen, nothing)?;
    Ok(exit::OK)
}
