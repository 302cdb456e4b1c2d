//! The result of a verification, for people and for programs.

use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::ledger::Verification;
use crate::types::text;

/// Formats the report: what was checked and how much of it, or what does not verify.
pub(in crate::cli) fn summary(report: &Verification) -> Vec<String> {
    let mut lines = Vec::new();
    if report.verdict.holds() {
        let state = report.state_rows.map_or_else(String::new, |rows| format!(", {rows} rows of state.db"));
        let gone = [(report.redacted, "redacted"), (report.dropped, "dropped by age")];
        let gone: Vec<String> = gone
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, how)| format!("{count} {how}"))
            .collect();
        let gone = if gone.is_empty() { String::new() } else { format!(" ({})", gone.join(", ")) };
        let segments =
            if report.segments > 1 { format!(" in {} segments", report.segments) } else { String::new() };
        let behind = if report.from > 0 { format!(" from {} on", report.from) } else { String::new() };
        lines.push(format!(
            "{} {} entries{behind}{segments}: chain, tree, {} tiles, {} payloads{gone}{state}; root {}",
            show::paint("32", "✓"),
            report.entries,
            report.tiles,
            report.payloads,
            text::prefix(&report.root, 16),
        ));
        let epochs =
            if report.epochs == 1 { "one epoch".to_owned() } else { format!("{} epochs", report.epochs) };
        let of = if report.from > 0 { "all" } else { "them" };
        lines.push(format!(
            "  signed: {} of {of}, by {} checkpoints and the keys of {epochs}",
            report.signed, report.checkpoints
        ));
        if report.anchors > 0 {
            lines.push(format!("  anchored: {} times, with roots that match the tree", report.anchors));
        }
        lines.push(match report.anchored {
            Some(size) => {
                format!("  it extends the checkpoint of {size} entries that was kept elsewhere.")
            }
            None => {
                "  no outside checkpoint was given: a rollback by a writer of the files, or a rewrite with the \
                     keys as well, cannot be ruled out."
                    .to_owned()
            }
        });
    }
    for finding in &report.findings {
        let at = finding.seq.map_or_else(String::new, |seq| format!("seq {seq}: "));
        lines.push(format!("{} {at}{}", show::paint("31", "✗"), text::visible_line(&finding.what)));
    }
    if !report.verdict.holds() {
        lines.push(format!("  chain and tree were checked for {} entries.", report.entries));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("  warning: {}", text::visible_line(warning))));
    lines
}

pub(in crate::cli) fn print(report: &Verification, is_json: bool) -> Result<u8, Fail> {
    if is_json {
        show::json(report)?;
    } else {
        summary(report).iter().try_for_each(|line| show::line(line))?;
    }
    Ok(if report.verdict.holds() { exit::OK } else { exit::UNVERIFIED })
}
