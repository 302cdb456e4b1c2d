//! Tables.

use super::fit::{GAP, fit};
use super::screen::Screen;
use super::tone::Tone;
use super::when;
use super::width::{cut, width, wrap};
use crate::cli::exit::Fail;
use crate::cli::show;
use crate::types::clock::Wall;

/// What becomes of a value that is too long for a terminal, and the name of its column.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum Column {
    /// It stays whole: people copy it.
    Whole(&'static str),
    /// It is cut: a path loses its middle, other text its end.
    Cut(&'static str),
    /// It continues on the next line.
    Words(&'static str),
}

/// A value of a table.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Cell {
    /// For a pipe.
    plain: String,
    /// For a terminal, if that is something else: the long form and the short one.
    shown: Option<(String, String)>,
    tone: Tone,
}

/// The widest column of a pipe: one long value does not make each row as long.
const PIPE_COLUMN_MAX: usize = 60;

/// Rows below the names of their columns.
#[derive(Debug)]
pub(in crate::cli) struct Sheet {
    columns: Vec<Column>,
    has_head: bool,
    rows: Vec<Vec<Cell>>,
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Self::Whole(name) | Self::Cut(name) | Self::Words(name) => name,
        }
    }

    /// The width below which the column is not readable.
    fn min(self, content: usize) -> usize {
        let min = match self {
            Self::Whole(_) => content,
            Self::Cut(_) => 14,
            Self::Words(_) => 16,
        };
        min.max(width(self.name())).min(content)
    }

    fn lines(self, text: &str, columns: usize) -> Vec<String> {
        match self {
            Self::Whole(_) => vec![text.to_owned()],
            Self::Cut(_) => vec![cut(text, columns)],
            Self::Words(_) => wrap(text, columns),
        }
    }
}

impl Cell {
    /// A decision, a state or a status, in its colour.
    pub(in crate::cli) fn outcome(word: &str) -> Self {
        Self { tone: Tone::of(word), ..Self::from(word) }
    }

    /// A time: UTC for a pipe; for a terminal `14:03, 2 min ago`, or `14:03:07` if that is
    /// too long.
    pub(in crate::cli) fn time(at: Wall, screen: &Screen) -> Self {
        let shown = Some((when::told(at, screen.now), when::clock(at, screen.now)));
        Self { plain: at.rfc3339(), shown, tone: Tone::Plain }
    }

    /// A time that is written as RFC 3339; other text stays as it is.
    pub(in crate::cli) fn written_time(text: &str, screen: &Screen) -> Self {
        Wall::parse(text)
            .map_or_else(|| Self::from(text), |at| Self { plain: text.to_owned(), ..Self::time(at, screen) })
    }

    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    pub(in crate::cli) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    fn text(&self, screen: &Screen, is_short: bool) -> &str {
        match &self.shown {
            Some((long, short)) if screen.columns.is_some() => {
                if is_short {
                    short
                } else {
                    long
                }
            }
            _ => &self.plain,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { plain: text.to_owned(), shown: None, tone: Tone::Plain }
    }
}

impl From<String> for Cell {
    fn from(plain: String) -> Self {
        Self { plain, shown: None, tone: Tone::Plain }
    }
}

/// Prints a line. On a terminal, what does not fit continues below it, further in.
pub(in crate::cli) fn words(screen: &Screen, text: &str) -> Result<(), Fail> {
    let Some(columns) = screen.columns.filter(|columns| width(text) > *columns) else {
        return show::line(text);
    };
    let indent = text.chars().take_while(|c| *c == ' ').count() + GAP;
    let mut lines = wrap(text, columns.saturating_sub(GAP).max(10)).into_iter();
    show::line(&lines.next().unwrap_or_default())?;
    let rest = lines.map(|line| line.trim_start().to_owned()).collect::<Vec<_>>().join(" ");
    let rest = wrap(&rest, columns.saturating_sub(indent).max(10));
    rest.iter().try_for_each(|line| show::line(&format!("{}{line}", " ".repeat(indent))))
}

impl Sheet {
    pub(in crate::cli) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), has_head: true, rows: Vec::new() }
    }

    /// A table that does not show the names of its columns.
    pub(in crate::cli) fn bare(columns: &[Column]) -> Self {
        Self { has_head: false, ..Self::new(columns) }
    }

    /// Adds a row with a cell for each column.
    pub(in crate::cli) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Prints the table, or without rows a line on standard error that says so.
    pub(in crate::cli) fn print_or(&self, screen: &Screen, nothing: &str) -> Result<(), Fail> {
        if self.rows.is_empty() {
            show::note(nothing);
            return Ok(());
        }
        self.print(screen)
    }

    pub(in crate::cli) fn print(&self, screen: &Screen) -> Result<(), Fail> {
        self.lines(screen).iter().try_for_each(|line| show::line(line))
    }

    pub(in crate::cli) fn lines(&self, screen: &Screen) -> Vec<String> {
        let Some(columns) = screen.columns else {
            let wanted = self.wanted(screen, false);
            let width = |(_, content): &(usize, usize)| (*content).min(PIPE_COLUMN_MAX);
            return self.drawn(screen, false, &wanted.iter().map(width).collect::<Vec<_>>());
        };
        for is_short in [false, true] {
            let wanted = self.wanted(screen, is_short);
            let content: Vec<(usize, usize)> =
                wanted.iter().map(|(_, content)| (*content, *content)).collect();
            // Times become short before anything is cut.
            let widths = fit(if is_short { &wanted } else { &content }, columns);
            if let Some(widths) = widths {
                return self.drawn(screen, is_short, &widths);
            }
        }
        self.stacked(screen, columns)
    }

    /// The lines of one row of a table that is written row by row. `usual` are the widths that its
    /// columns need as a rule.
    pub(in crate::cli) fn one(&self, screen: &Screen, usual: &[usize], row: &[Cell]) -> Vec<String> {
        let Some(columns) = screen.columns else { return self.row(row, screen, true, usual) };
        let wanted: Vec<(usize, usize)> =
            self.columns.iter().zip(usual).map(|(column, usual)| (column.min(*usual), *usual)).collect();
        match fit(&wanted, columns) {
            Some(widths) => self.row(row, screen, true, &widths),
            None => Self { rows: vec![row.to_vec()], columns: self.columns.clone(), ..*self }
                .stacked(screen, columns),
        }
    }

    /// For each column its minimum and the width of its content.
    fn wanted(&self, screen: &Screen, is_short: bool) -> Vec<(usize, usize)> {
        let content = |at: usize, column: &Column| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let lines = cells.flat_map(|cell| cell.text(screen, is_short).split('\n'));
            let widest = lines.map(width).max().unwrap_or(0);
            if self.has_head { widest.max(width(column.name())) } else { widest }
        };
        let columns = self.columns.iter().enumerate();
        columns.map(|(at, column)| (content(at, column), column)).map(|(c, of)| (of.min(c), c)).collect()
    }

    fn drawn(&self, screen: &Screen, is_short: bool, widths: &[usize]) -> Vec<String> {
        let head: Vec<Cell> =
            self.columns.iter().map(|column| Cell::from(column.name()).toned(Tone::Faint)).collect();
        let rows = self.has_head.then_some(&head).into_iter().chain(&self.rows);
        rows.flat_map(|row| self.row(row, screen, is_short, widths)).collect()
    }

    /// A row, on as many lines as its longest cell needs. The last column is not padded.
    fn row(&self, row: &[Cell], screen: &Screen, is_short: bool, widths: &[usize]) -> Vec<String> {
        let cells: Vec<(Vec<String>, Tone, usize)> = row
            .iter()
            .zip(&self.columns)
            .zip(widths)
            .map(|((cell, column), width)| {
                let text = cell.text(screen, is_short);
                let lines = match screen.columns {
                    Some(_) => column.lines(text, *width),
                    // A pipe gets every value whole: a longer one moves the rest of its row.
                    None => text.split('\n').map(str::to_owned).collect(),
                };
                (lines, cell.tone, *width)
            })
            .collect();
        let height = cells.iter().map(|(lines, ..)| lines.len()).max().unwrap_or(0);
        let line = |at: usize| {
            let mut line = String::new();
            for (lines, tone, columns) in &cells {
                let text = lines.get(at).map_or("", String::as_str);
                line.push_str(&screen.paint(*tone, text));
                line.push_str(&" ".repeat(columns.saturating_sub(width(text)) + GAP));
            }
            line.trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }

    /// Each row as a block of lines, for a terminal that is too narrow for columns. Empty cells are
    /// left out.
    fn stacked(&self, screen: &Screen, columns: usize) -> Vec<String> {
        let names = self.columns.iter().map(|column| width(column.name())).max().unwrap_or(0);
        let room = columns.saturating_sub(names + GAP).max(10);
        let mut lines: Vec<String> = Vec::new();
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).map(|(cell, column)| (cell, *column));
            let cells = cells.filter(|(cell, _)| !matches!(cell.text(screen, false), "" | "-"));
            if !self.has_head {
                lines.extend(joined(cells.map(|(cell, _)| cell.text(screen, false)), columns));
                continue;
            }
            if !lines.is_empty() {
                lines.push(String::new());
            }
            cells.for_each(|(cell, column)| lines.extend(block(cell, column, screen, names, room)));
        }
        lines
    }
}

/// The cells of a row as one sentence, which continues further in.
fn joined<'c>(cells: impl Iterator<Item = &'c str>, columns: usize) -> Vec<String> {
    let mut lines = wrap(&cells.collect::<Vec<_>>().join("  "), columns.saturating_sub(GAP).max(10));
    lines.iter_mut().for_each(|line| *line = line.trim_end().to_owned());
    lines.iter_mut().skip(1).for_each(|line| *line = format!("  {}", line.trim_start()));
    lines
}

/// A value after the name of its column. One that stays whole and does not fit is on a line of its
/// own.
fn block(cell: &Cell, column: Column, screen: &Screen, names: usize, room: usize) -> Vec<String> {
    let (text, name) = (cell.text(screen, false), column.name());
    let faint = |name: &str| screen.paint(Tone::Faint, &format!("{name:<names$}"));
    if matches!(column, Column::Whole(_)) && width(text) > room {
        return vec![screen.paint(Tone::Faint, name), format!("  {}", screen.paint(cell.tone, text))];
    }
    let pieces = wrap(text, room).into_iter().enumerate();
    let line = |(at, piece): (usize, String)| {
        let name = faint(if at == 0 { name } else { "" });
        format!("{name}  {}", screen.paint(cell.tone, &piece)).trim_end().to_owned()
    };
    pieces.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cell, Column, Screen, Sheet};
    use crate::cli::table::{Tone, width};
    use crate::types::clock::Wall;

    /// 2026-11-24T13:03:07Z.
    const NOW: Wall = Wall(1_795_525_387_000_000);

    fn calls() -> Sheet {
        let columns = [Column::Whole("seq"), Column::Cut("what"), Column::Words("why")];
        let mut table = Sheet::new(&columns);
        let path = "read_file /var/log/nginx/sites/example.org/access.log";
        table.push(vec!["7".into(), path.into(), "the resource is not in the folder of logs".into()]);
        table.push(vec!["12".into(), "list_dir /srv".into(), "".into()]);
        table
    }

    fn drawn(columns: Option<usize>) -> Vec<String> {
        calls().lines(&Screen { columns, is_colored: false, now: NOW })
    }

    #[test]
    fn a_pipe_gets_every_value_whole() {
        assert_eq!(
            drawn(None),
            [
                "seq  what                                                   why",
                "7    read_file /var/log/nginx/sites/example.org/access.log  the resource is not in the folder of logs",
                "12   list_dir /srv",
            ]
        );
        assert_eq!(drawn(Some(200)), drawn(None));
    }

    /// The stranger's stumble 29: one long value made each row 230 columns wide.
    #[test]
    fn a_long_value_moves_only_its_own_row_in_a_pipe() {
        let mut table = Sheet::new(&[Column::Cut("what"), Column::Words("why")]);
        let long = "x".repeat(200);
        table.push(vec!["short".into(), "one".into()]);
        table.push(vec![long.clone().into(), "two".into()]);
        let lines = table.lines(&Screen { columns: None, is_colored: false, now: NOW });
        let short = format!("short{}one", " ".repeat(57));
        assert_eq!(lines.get(1..), Some([short, format!("{long}  two")].as_slice()));
    }

    /// C5.
    #[test]
    fn a_terminal_gets_what_fits() {
        assert_eq!(
            drawn(Some(80)),
            [
                "seq  what                                   why",
                "7    read_file /var/log…ple.org/access.log  the resource is not in the folder of",
                "                                            logs",
                "12   list_dir /srv",
            ]
        );
        assert_eq!(
            drawn(Some(24)),
            [
                "seq   7",
                "what  read_file",
                "      /var/log/nginx/sit",
                "      es/example.org/acc",
                "      ess.log",
                "why   the resource is",
                "      not in the folder",
                "      of logs",
                "",
                "seq   12",
                "what  list_dir /srv",
            ]
        );
        for columns in [24, 40, 60, 80, 120] {
            assert!(drawn(Some(columns)).iter().all(|line| width(line) <= columns), "{columns}");
        }
    }

    #[test]
    fn colour_is_for_the_word_and_not_for_the_space_after_it() {
        let mut table = Sheet::new(&[Column::Whole("decision"), Column::Whole("tool")]);
        table.push(vec![Cell::outcome("deny"), Cell::from("rm").toned(Tone::Plain)]);
        let lines = table.lines(&Screen { columns: Some(80), is_colored: true, now: NOW });
        assert_eq!(lines.last().map(String::as_str), Some("\u{1b}[31mdeny\u{1b}[0m      rm"));
    }
}
