//! Queries with the index. Entries that it covers are looked up; later entries, and blocks that
//! cannot be trusted, are read from the ledger. Each result is a header of the ledger that matches
//! the query; the index only says where to look.

use super::filter::Filter;
use super::index::{Coverage, Index};
use super::index_file::{IndexError, IndexFile};
use super::index_row::BLOCK_ENTRIES;
use super::scan::Order;
use super::term::{Criterion, Want};
use crate::ledger::entry::Header;
use crate::ledger::read::{ReadError, number};
use crate::types::limits;
use rusqlite::params_from_iter;
use rusqlite::types::Value as Cell;
use std::collections::BTreeSet;
use std::ops::Range;

/// Maximum number of blocks for one statement.
const STRETCH_BLOCKS: u64 = 64;

/// One page of a search, as headers of entries.
#[derive(Debug, Default)]
pub struct HeaderPage {
    /// The headers that match, in order.
    pub headers: Vec<Header>,
    /// Where to continue; `None` at the end.
    pub next: Option<u64>,
    /// The coverage of the index; `None` if it was not used.
    pub index: Option<Coverage>,
}

impl Index {
    /// As `Reader::headers`, using the index. Returns the same results for every ledger; if the
    /// index cannot be read, searches the ledger. Blocking.
    pub fn headers(
        &self,
        filter: &Filter,
        from: u64,
        order: Order,
        limit: usize,
        scan_max: usize,
    ) -> Result<HeaderPage, ReadError> {
        let mut search = IndexSearch {
            index: self,
            filter,
            order,
            limit,
            left: scan_max,
            bytes: 0,
            found: HeaderPage::default(),
        };
        if !uses_index(filter) {
            search.scan(from, None)?;
            return Ok(search.found);
        }
        match self.inner().still(|inner| search.run(inner, from)) {
            Ok(()) => Ok(search.found),
            Err(IndexError::Read(error)) => Err(error),
            Err(error) => {
                tracing::error!(%error, "the index cannot be read: the ledger is searched instead");
                search.found = HeaderPage::default();
                search.left = scan_max;
                search.scan(from, None)?;
                Ok(search.found)
            }
        }
    }
}

/// Whether a query has a condition that the index can look up. Numbers are found without it.
fn uses_index(filter: &Filter) -> bool {
    let leads = |ask: &Criterion| matches!(ask, Criterion::Field { .. } | Criterion::Text { .. });
    filter.terms.iter().any(|term| !term.is_negated && leads(&term.ask))
}

struct IndexSearch<'a> {
    index: &'a Index,
    filter: &'a Filter,
    order: Order,
    limit: usize,
    /// Number of headers that may still be read.
    left: usize,
    /// Bytes of payloads that were read.
    bytes: usize,
    found: HeaderPage,
}

impl IndexSearch<'_> {
    fn run(&mut self, inner: &mut IndexFile, from: u64) -> Result<(), IndexError> {
        let covered = inner.covered(self.index.ledger())?;
        self.found.index = Some(Coverage { covered, unsound: Vec::new() });
        // No other number can match.
        let asked = self.filter.seqs();
        let mut at = Some(from.max(asked.start));
        if self.order == Order::Descending {
            let last = self.index.ledger().size()?.min(asked.end).checked_sub(1);
            at = last.map(|last| last.min(from));
            if at.is_some_and(|at| at >= covered) {
                // Entries that the index does not cover yet come first.
                self.scan(at.unwrap_or(0), Some(covered))?;
                let Some(next) = self.found.next.take() else { return Ok(()) };
                if next >= covered {
                    self.found.next = Some(next);
                    return Ok(());
                }
                at = Some(next);
            }
        }
        let (mut passed, mut checked) = (0, 0);
        while let Some(seq) = at.filter(|seq| asked.contains(seq)) {
            if seq >= covered {
                return Ok(self.scan(seq, None)?);
            }
            if self.is_full()
                || passed >= limits::PAGE_BLOCKS_MAX
                || checked >= limits::PAGE_BLOCKS_CHECKED_MAX
            {
                self.found.next = Some(seq);
                return Ok(());
            }
            let stretch = self.stretch(inner, seq, covered, &mut checked)?;
            passed += stretch.end.saturating_sub(stretch.start).div_ceil(BLOCK_ENTRIES);
            at = self.find_in(inner, stretch)?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.found.headers.len() >= self.limit || self.left == 0 || self.bytes >= limits::PAGE_TEXT_BYTES_MAX
    }

    /// The numbers from `seq` on, in the order of the search, that one statement covers: blocks
    /// that are sound. An unsound block is scanned, so the range is empty if the first one is
    /// unsound.
    fn stretch(
        &mut self,
        inner: &mut IndexFile,
        seq: u64,
        covered: u64,
        checked: &mut u64,
    ) -> Result<Range<u64>, IndexError> {
        let first = seq / BLOCK_ENTRIES;
        let mut blocks = 0;
        while blocks < STRETCH_BLOCKS && *checked < limits::PAGE_BLOCKS_CHECKED_MAX {
            let id = match self.order {
                Order::Ascending => Some(first + blocks).filter(|id| id * BLOCK_ENTRIES < covered),
                Order::Descending => first.checked_sub(blocks),
            };
            let Some(id) = id else { break };
            let knew = inner.knows(id, self.filter.has_text());
            *checked += u64::from(!knew);
            if !inner.is_sound(self.index.ledger(), id, covered, self.filter.has_text())? {
                if blocks == 0 {
                    if let Some(coverage) = &mut self.found.index {
                        coverage.unsound.push(id);
                    }
                    return Ok(Range { start: seq, end: seq });
                }
                break;
            }
            blocks += 1;
        }
        let blocks = blocks.max(1);
        Ok(match self.order {
            Order::Ascending => seq..covered.min((first + blocks) * BLOCK_ENTRIES),
            Order::Descending => (first + 1).saturating_sub(blocks) * BLOCK_ENTRIES..seq + 1,
        })
    }

    /// Finds the matches in a range; if it is empty, in the unsound block. Returns where to
    /// continue.
    fn find_in(&mut self, inner: &mut IndexFile, stretch: Range<u64>) -> Result<Option<u64>, IndexError> {
        if stretch.is_empty() {
            let block = stretch.start / BLOCK_ENTRIES;
            return Ok(match self.order {
                Order::Ascending => {
                    let end = (block + 1) * BLOCK_ENTRIES;
                    self.scan(stretch.start, Some(end))?;
                    self.found.next.take()
                }
                Order::Descending => {
                    self.scan(stretch.start, Some(block * BLOCK_ENTRIES))?;
                    self.found.next.take()
                }
            });
        }
        let end = match self.order {
            Order::Ascending => Some(stretch.end),
            Order::Descending => stretch.start.checked_sub(1),
        };
        for seq in candidates(inner, self.filter, self.order, &stretch)? {
            if self.is_full() {
                return Ok(Some(seq));
            }
            self.left -= 1;
            let ledger = self.index.ledger();
            let (header, bytes) = ledger.matching(self.filter, seq)?;
            self.bytes += bytes;
            self.found.headers.extend(header);
        }
        Ok(end)
    }

    /// Reads the ledger itself from `from` on, up to `until`, which is excluded in ascending and
    /// included in descending order. Sets where to continue.
    fn scan(&mut self, from: u64, until: Option<u64>) -> Result<(), ReadError> {
        let span = until.map(|until| match self.order {
            Order::Ascending => until.saturating_sub(from),
            Order::Descending => (from + 1).saturating_sub(until),
        });
        let span = span.and_then(|span| usize::try_from(span).ok()).unwrap_or(usize::MAX);
        let limit = self.limit - self.found.headers.len();
        let scan_max = self.left.min(span);
        let (headers, next) = self.index.ledger().listed(self.filter, from, self.order, limit, scan_max)?;
        self.left -=
            scan_max.min(next.map_or(0, |next| usize::try_from(next.abs_diff(from)).unwrap_or(usize::MAX)));
        self.found.headers.extend(headers);
        self.found.next = next;
        Ok(())
    }
}

/// The numbers within `stretch` that may match. Every match is among them.
fn candidates(
    inner: &IndexFile,
    filter: &Filter,
    order: Order,
    stretch: &Range<u64>,
) -> Result<Vec<u64>, rusqlite::Error> {
    let mut sql = "SELECT seq FROM line WHERE seq >= ?1 AND seq < ?2".to_owned();
    let mut cells = vec![Cell::Integer(number(stretch.start)), Cell::Integer(number(stretch.end))];
    let positive: Vec<&Criterion> =
        filter.terms.iter().filter(|term| !term.is_negated).map(|term| &term.ask).collect();
    let mut done = BTreeSet::new();
    for ask in &positive {
        match ask {
            Criterion::Text { want, words } => {
                let end = if want.is_start { "*" } else { "" };
                cells.push(Cell::Text(format!("\"{}\"{end}", words.join(" "))));
                let at = cells.len();
                sql.push_str(&format!(
                    " AND seq IN (SELECT rowid FROM words WHERE words MATCH ?{at} AND rowid >= ?1 AND rowid < ?2)"
                ));
            }
            Criterion::Field { name, .. } if done.insert(*name) => {
                let same = positive.iter().filter_map(|other| match other {
                    Criterion::Field { name: other, want } if other == name => {
                        Some(condition(name, want, &mut cells))
                    }
                    _ => None,
                });
                let any = same.collect::<Vec<_>>().join(" OR ");
                sql.push_str(&format!(" AND ({any})"));
            }
            // Numbers and times are compared in the header.
            _ => {}
        }
    }
    sql.push_str(if order == Order::Ascending { " ORDER BY seq" } else { " ORDER BY seq DESC" });
    let mut statement = inner.db.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(cells), |row| row.get::<_, i64>(0))?;
    rows.map(|seq| Ok(u64::try_from(seq?).unwrap_or(u64::MAX))).collect()
}

fn condition(name: &str, want: &Want, cells: &mut Vec<Cell>) -> String {
    let (column, value) = match name {
        "key" => ("principal", format!("key:{}", want.value)),
        name => (name, want.value.clone()),
    };
    cells.push(Cell::Text(value));
    let at = cells.len();
    if want.is_start { format!("instr({column}, ?{at}) = 1") } else { format!("{column} = ?{at}") }
}
