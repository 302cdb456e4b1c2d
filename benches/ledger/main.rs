//! The ledger compared with floors that are measured in the same run.
//!
//! `cargo bench --bench ledger` prints one table of ratios. Arguments after `--` select sections
//! (`single`, `producers`, `logs`, `index`, `size`, `verify`, `headers`, `open`, `proof`); without
//! them all are run. `--entries N` is the size of the big ledger (500,000), `--verify N` the number
//! of entries verified (200,000); the aims are for `--entries 5000000 --verify 1000000`. `--below
//! DIR` is the folder for the files, on the disk to be measured.
//!
//! Entries are those of runs with one call, of realistic sizes. Floors: `fdatasync` of a flat file
//! that was written before, by one thread that drains a queue as the ledger's writer does; SHA-256
//! of headers, payloads and tree in memory on one core; a plain SELECT over all rows.

#![expect(clippy::disallowed_methods, reason = "a bench reads rows with SQLite alone to compare with")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

mod appends;
mod entries;
mod floors;
mod reading;

use std::path::PathBuf;
use std::time::Duration;

/// The sections and sizes to measure.
struct Asked {
    sections: Vec<String>,
    entries: u64,
    verify: u64,
    below: PathBuf,
}

const SECTIONS: [&str; 9] =
    ["single", "producers", "logs", "index", "size", "verify", "headers", "open", "proof"];

fn main() {
    let asked = asked(std::env::args().skip(1));
    let mut table = Table::default();
    let wants = |section: &str| asked.sections.is_empty() || asked.sections.iter().any(|one| one == section);
    if wants("single") {
        appends::single(&asked.below, &mut table);
    }
    if wants("producers") {
        appends::producers(&asked.below, &mut table);
    }
    if wants("logs") {
        appends::logs(&asked.below, &mut table);
    }
    if wants("index") {
        appends::index(&asked.below, &mut table);
    }
    if wants("verify") {
        reading::verify(&asked.below, asked.verify, &mut table);
    }
    if wants("headers") {
        reading::headers(&asked.below, asked.verify, &mut table);
    }
    if wants("size") || wants("open") || wants("proof") {
        let big = entries::filled(&asked.below, asked.entries);
        if wants("open") {
            reading::open(&big, &mut table);
        }
        if wants("proof") {
            reading::proof(&big, &mut table);
        }
        if wants("size") {
            appends::at_size(&asked.below, &big, asked.entries, &mut table);
        }
    }
    table.print();
}

fn asked(mut words: impl Iterator<Item = String>) -> Asked {
    let below = std::env::temp_dir();
    let mut asked = Asked { sections: Vec::new(), entries: 500_000, verify: 200_000, below };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("`{word}` wants a value"));
        match word.as_str() {
            // Passed by cargo itself.
            "--bench" => {}
            "--entries" => asked.entries = value().parse().expect("a number"),
            "--verify" => asked.verify = value().parse().expect("a number"),
            "--below" => asked.below = value().into(),
            section if SECTIONS.contains(&section) => asked.sections.push(word),
            other => panic!(
                "unknown argument `{other}`, expected one of {}, --entries, --verify, --below",
                SECTIONS.join(", ")
            ),
        }
    }
    asked
}

/// The measurements, to be printed at the end.
#[derive(Default)]
struct Table {
    rows: Vec<[String; 5]>,
}

/// The target of a ratio.
#[derive(Clone, Copy)]
enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// A figure without a target.
    None,
}

impl Table {
    /// Adds a row: `is` and `floor` as text, and their ratio compared with its aim.
    fn row(&mut self, what: impl Into<String>, is: String, floor: String, ratio: f64, aim: Aim) {
        let verdict = match aim {
            Aim::AtMost(most) if ratio <= most => format!("≤ {most}  met"),
            Aim::AtMost(most) => format!("≤ {most}  missed"),
            Aim::AtLeast(least) if ratio >= least => format!("≥ {least}  met"),
            Aim::AtLeast(least) => format!("≥ {least}  missed"),
            Aim::None => String::new(),
        };
        let row = [what.into(), is, floor, format!("{ratio:.2}"), verdict];
        eprintln!("  {}", row.join("  "));
        self.rows.push(row);
    }

    fn print(&self) {
        println!("{:<44} {:>16} {:>16} {:>7}  aim", "", "ledger", "floor", "ratio");
        for [what, is, floor, ratio, aim] in &self.rows {
            println!("{what:<44} {is:>16} {floor:>16} {ratio:>7}  {aim}");
        }
    }
}

/// The median of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The `percent`th of sorted times, in microseconds.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6
}
