//! Runs in index.db: one line per run, made from the lines of its entries in the transaction that
//! indexes them, and the search over them.
//!
//! No text of a person is stored here: words are found through the words of the run's request, so
//! that an erasure there takes them out of this search too.

use super::filter::Filter;
use super::term::{Criterion, Want};
use super::tokens::ASKED;
use super::told::KeyNames;
use crate::ledger::entry::{Header, Kind};
use crate::ledger::read::number;
use crate::types::{Decision, RefusalClass, RunStatus};
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Row as RowRef, params, params_from_iter};
use std::collections::{BTreeMap, BTreeSet};

/// A run, as the index knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLine {
    /// The id of the run.
    pub run: String,
    /// The number of its first entry.
    pub first: u64,
    /// The number of its newest entry that is indexed.
    pub last: u64,
    /// The principal that asked.
    pub owner: String,
    /// Its status: that of its newest reply, `running` without one.
    pub status: String,
    /// When it began, in microseconds since 1970.
    pub began_us: i64,
    /// Number of proposed calls.
    pub calls: u64,
    /// Number of calls whose newest decision is a denial, except those that a person refused or has
    /// yet to answer for.
    pub denied: u64,
    /// Number of calls that are not valid.
    pub invalid: u64,
    /// Number of calls that a person refused.
    pub refused: u64,
    /// The tools of its calls that exist, in order of their names.
    pub tools: Vec<String>,
    marks: String,
}

/// What the run's lines add up to.
#[derive(Default)]
struct Folded {
    /// The newest decision on each call, with what refused it.
    decisions: BTreeMap<String, (Option<Decision>, Option<RefusalClass>)>,
    refused: BTreeSet<String>,
    tools: BTreeSet<String>,
    marks: BTreeSet<String>,
}

/// Makes the line of a run again, from the lines of its entries.
pub(super) fn refresh(db: &Connection, run: &str) -> Result<(), rusqlite::Error> {
    let Some(line) = folded(db, run)? else { return Ok(()) };
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    db.prepare_cached("REPLACE INTO run_line VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?
        .execute(params![
            line.run,
            number(line.first),
            number(line.last),
            line.owner,
            line.status,
            line.began_us,
            count(line.calls),
            count(line.denied),
            count(line.refused),
            line.tools.join(" "),
            line.marks,
            count(line.invalid),
        ])
        .map(drop)
}

/// Makes the lines of all runs again.
pub(super) fn refresh_all(db: &Connection) -> Result<(), rusqlite::Error> {
    db.execute_batch("DELETE FROM run_line")?;
    runs(db)?.iter().try_for_each(|run| refresh(db, run))
}

/// Whether the lines of all runs are those that their entries lead to.
pub(super) fn is_right(db: &Connection) -> Result<bool, rusqlite::Error> {
    let runs = runs(db)?;
    let stored: i64 = db.query_row("SELECT count(*) FROM run_line", [], |row| row.get(0))?;
    let mut known = 0;
    for run in &runs {
        let made = folded(db, run)?;
        known += i64::from(made.is_some());
        if one(db, run)? != made {
            return Ok(false);
        }
    }
    Ok(stored == known)
}

fn runs(db: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    db.prepare("SELECT DISTINCT run FROM line WHERE run IS NOT NULL")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// The line of a run; `None` if its request is not indexed.
fn folded(db: &Connection, run: &str) -> Result<Option<RunLine>, rusqlite::Error> {
    let sql = "SELECT seq, wall_us, kind, call, principal, decision, status, tool FROM line \
               WHERE run = ?1 ORDER BY seq";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([run])?;
    let (mut line, mut folded) = (None, Folded::default());
    while let Some(row) = rows.next()? {
        let seq = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
        let kind: Option<String> = row.get(2)?;
        let kind = kind.and_then(|kind| Kind::parse(&kind));
        if kind == Some(Kind::RunRequest) && line.is_none() {
            line = Some(RunLine {
                run: run.to_owned(),
                first: seq,
                owner: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
                status: RunStatus::Running.as_str().to_owned(),
                began_us: row.get(1)?,
                ..RunLine::default()
            });
        }
        let Some(line) = &mut line else { continue };
        line.last = seq;
        if kind == Some(Kind::RunReply) {
            line.status = row.get::<_, Option<String>>(6)?.unwrap_or_default();
        }
        let text = |at| row.get::<_, Option<String>>(at);
        let (call, by, decision, status, tool) = (text(3)?, text(4)?, text(5)?, text(6)?, text(7)?);
        let [call, by, decision, status, tool] =
            [&call, &by, &decision, &status, &tool].map(|word| word.as_deref());
        folded.add(&RunEntry { kind, call, by, decision, status, tool });
    }
    Ok(line.map(|line| folded.into_line(line)))
}

impl RunLine {
    /// The line of a run from the headers of its entries, in their order; `None` without its
    /// request.
    #[must_use]
    pub fn of_headers(headers: &[Header]) -> Option<Self> {
        let asked = headers.iter().find(|header| header.is(Kind::RunRequest))?;
        let mut folded = Folded::default();
        for header in headers {
            let [call, by, decision, status, tool] =
                ["call", "principal", "decision", "status", "tool"].map(|name| header.str(name));
            folded.add(&RunEntry { kind: header.known_kind(), call, by, decision, status, tool });
        }
        let reply = headers.iter().rev().find(|header| header.is(Kind::RunReply));
        let status = reply.map_or(Some(RunStatus::Running.as_str()), |reply| reply.str("status"));
        Some(folded.into_line(Self {
            run: asked.str("run")?.to_owned(),
            first: asked.seq,
            last: headers.last()?.seq,
            owner: asked.str("principal").unwrap_or_default().to_owned(),
            status: status.unwrap_or_default().to_owned(),
            began_us: asked.u64("wall_us").and_then(|us| i64::try_from(us).ok()).unwrap_or_default(),
            ..Self::default()
        }))
    }
}

/// What the line of a run takes from one entry.
struct RunEntry<'a> {
    kind: Option<Kind>,
    call: Option<&'a str>,
    by: Option<&'a str>,
    decision: Option<&'a str>,
    status: Option<&'a str>,
    tool: Option<&'a str>,
}

impl Folded {
    fn add(&mut self, entry: &RunEntry<'_>) {
        let call = || entry.call.unwrap_or_default().to_owned();
        match entry.kind {
            Some(Kind::CallDecision) => {
                let made = entry.decision.and_then(Decision::parse);
                let class = made.and_then(|made| RefusalClass::of(made, entry.status));
                self.decisions.insert(call(), (made, class));
                if class == Some(RefusalClass::Person) {
                    self.refused.insert(call());
                }
                self.mark("decision", entry.decision);
                self.mark("status", entry.status);
                if let Some(tool) = entry.tool.filter(|_| made != Some(Decision::Invalid)) {
                    self.mark("tool", Some(tool));
                    self.tools.insert(tool.to_owned());
                }
            }
            Some(Kind::CallResult) => self.mark("status", entry.status),
            // An approval that expired has no principal.
            Some(Kind::ApprovalRefuse) if entry.by.is_some() => {
                self.mark("status", Some(RefusalClass::Person.as_str()));
                self.refused.insert(call());
            }
            _ => {}
        }
    }

    /// A word that a search finds; it cannot hold the space that separates words.
    fn mark(&mut self, field: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.contains(' ')) {
            self.marks.insert(format!("{field}:{value}"));
        }
    }

    fn into_line(self, line: RunLine) -> RunLine {
        let count = |is: fn(Decision, Option<RefusalClass>) -> bool| {
            let found =
                self.decisions.values().filter(|(made, class)| made.is_some_and(|made| is(made, *class)));
            found.count() as u64
        };
        let (denied, invalid) = (
            count(|made, class| {
                let is_of_person = matches!(class, Some(RefusalClass::Person | RefusalClass::Asked));
                made == Decision::Deny && !is_of_person
            }),
            count(|made, _| made == Decision::Invalid),
        );
        let words: Vec<&str> = self.marks.iter().map(String::as_str).collect();
        RunLine {
            calls: self.decisions.len() as u64,
            denied,
            invalid,
            refused: self.refused.len() as u64,
            tools: self.tools.into_iter().filter(|tool| !tool.contains(' ')).collect(),
            marks: format!(" {} ", words.join(" ")),
            ..line
        }
    }
}

const COLUMNS: &str = "run, first, last, owner, status, began_us, calls, denied, refused, tools, marks, \
                       invalid";

fn read(row: &RowRef<'_>) -> Result<RunLine, rusqlite::Error> {
    let count = |at| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(at)?).unwrap_or_default());
    let tools: String = row.get(9)?;
    Ok(RunLine {
        run: row.get(0)?,
        first: count(1)?,
        last: count(2)?,
        owner: row.get(3)?,
        status: row.get(4)?,
        began_us: row.get(5)?,
        calls: count(6)?,
        denied: count(7)?,
        refused: count(8)?,
        tools: tools.split(' ').filter(|tool| !tool.is_empty()).map(ToOwned::to_owned).collect(),
        marks: row.get(10)?,
        invalid: count(11)?,
    })
}

/// The line of a run, if it is indexed.
pub(super) fn one(db: &Connection, run: &str) -> Result<Option<RunLine>, rusqlite::Error> {
    let sql = format!("SELECT {COLUMNS} FROM run_line WHERE run = ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([run])?;
    rows.next()?.map(read).transpose()
}

/// Up to `limit` runs that match, newest first, older than the run `before`.
pub(super) fn matching(
    db: &Connection,
    filter: &Filter,
    names: &KeyNames,
    before: Option<&str>,
    limit: usize,
) -> Result<Vec<RunLine>, rusqlite::Error> {
    let mut cells = vec![
        before.map_or(Cell::Null, |before| Cell::Text(before.to_owned())),
        Cell::Integer(i64::try_from(limit).unwrap_or(i64::MAX)),
    ];
    let mut sql = format!("SELECT {COLUMNS} FROM run_line WHERE (?1 IS NULL OR run < ?1)");
    for condition in conditions(filter, names, &mut cells) {
        sql.push_str(" AND ");
        sql.push_str(&condition);
    }
    sql.push_str(" ORDER BY run DESC LIMIT ?2");
    let mut statement = db.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(cells), read)?;
    rows.collect()
}

/// One condition for each group of terms: terms of the same field are alternatives.
fn conditions(filter: &Filter, names: &KeyNames, cells: &mut Vec<Cell>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, term) in filter.terms.iter().enumerate() {
        if term.is_negated {
            found.push(format!("NOT {}", condition(&term.ask, names, cells)));
            continue;
        }
        let is_first =
            !filter.terms.iter().take(at).any(|other| !other.is_negated && other.ask.is_like(&term.ask));
        if is_first {
            let same = filter
                .terms
                .iter()
                .enumerate()
                .filter(|(other, same)| *other == at || !same.is_negated && same.ask.is_like(&term.ask));
            let any: Vec<String> = same.map(|(_, same)| condition(&same.ask, names, cells)).collect();
            found.push(format!("({})", any.join(" OR ")));
        }
    }
    found
}

/// The condition on a run, as SQL. Its values are in `cells`.
fn condition(ask: &Criterion, names: &KeyNames, cells: &mut Vec<Cell>) -> String {
    match ask {
        Criterion::Seq(first, last) => {
            format!("(first >= {} AND first <= {})", place(cells, seq(*first)), place(cells, seq(*last)))
        }
        Criterion::Since(us) => format!("began_us >= {}", place(cells, Cell::Integer(*us))),
        Criterion::Until(us) => format!("began_us < {}", place(cells, Cell::Integer(*us))),
        Criterion::Text { want, words } => {
            let end = if want.is_start { "*" } else { "" };
            let words: Vec<String> = words.iter().map(|word| format!("{ASKED}{word}")).collect();
            let phrase = place(cells, Cell::Text(format!("\"{}\"{end}", words.join(" "))));
            let asked = format!("first IN (SELECT rowid FROM words WHERE words MATCH {phrase})");
            // The name of a key or of a user is a word too.
            format!("({asked} OR {})", owned_by(&want.value, names, cells))
        }
        Criterion::Field { name: "key", want } => {
            let id = same("owner", &Want { value: format!("key:{}", want.value), ..want.clone() }, cells);
            format!("({id} OR {})", owned_by(&want.value, names, cells))
        }
        Criterion::Field { name: "principal", want } => {
            format!("({} OR {})", same("owner", want, cells), owned_by(&want.value, names, cells))
        }
        Criterion::Field { name: "user", want } => of_user(&want.value, names, cells),
        Criterion::Field { name: "run", want } => same("run", want, cells),
        Criterion::Field { name: "status", want } => {
            format!("({} OR {})", same("status", want, cells), marked("status", want, cells))
        }
        Criterion::Field { name: name @ ("tool" | "decision"), want } => marked(name, want, cells),
        Criterion::Field { name, want } => {
            let one = same(&format!("line.{name}"), want, cells);
            format!("EXISTS (SELECT 1 FROM line WHERE line.run = run_line.run AND {one})")
        }
    }
}

fn seq(seq: u64) -> Cell {
    Cell::Integer(number(seq))
}

fn place(cells: &mut Vec<Cell>, cell: Cell) -> String {
    cells.push(cell);
    format!("?{}", cells.len())
}

fn same(column: &str, want: &Want, cells: &mut Vec<Cell>) -> String {
    let at = place(cells, Cell::Text(want.value.clone()));
    if want.is_start { format!("instr({column}, {at}) = 1") } else { format!("{column} = {at}") }
}

fn marked(field: &str, want: &Want, cells: &mut Vec<Cell>) -> String {
    let end = if want.is_start { "" } else { " " };
    format!("instr(marks, {}) > 0", place(cells, Cell::Text(format!(" {field}:{}{end}", want.value))))
}

/// Whether the run belongs to a key or a user of this name.
fn owned_by(name: &str, names: &KeyNames, cells: &mut Vec<Cell>) -> String {
    one_of(names.ids(name), name, cells)
}

/// Whether the run belongs to the user `name`, with a key or on this host.
fn of_user(name: &str, names: &KeyNames, cells: &mut Vec<Cell>) -> String {
    one_of(names.ids_of_user(name), name, cells)
}

/// Whether the run belongs to one of the keys `ids`, or to the user `name` of this host.
fn one_of<'a>(ids: impl Iterator<Item = &'a str>, name: &str, cells: &mut Vec<Cell>) -> String {
    let mut owners: Vec<String> = ids.map(|id| format!("key:{id}")).collect();
    owners.push(format!("os:{name}"));
    let places: Vec<String> = owners.into_iter().map(|owner| place(cells, Cell::Text(owner))).collect();
    format!("owner IN ({})", places.join(", "))
}
