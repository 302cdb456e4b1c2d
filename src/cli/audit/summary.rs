//! The result of a verification, for people and for programs.

use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::ledger::Verification;
use crate::types::text;

/// Formats the report: what was checked and how much of it, or what does not verify.
pub(in crate::cli) fn summary(report: &Verification) -> Vec<String> {
    let mut lines = Vec::new();
    if report.verdict.holds() {
        let state = report
            .state_rows
            .map_or_else(String::new, |rows| format!(", {} of state.db", show::counted(rows, "row")));
        let gone = [(report.redacted, "redacted"), (report.dropped, "dropped by age")];
        let gone: Vec<String> = gone
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, how)| format!("{count} {how}"))
            .collect();
        let gone = if gone.is_empty() { String::new() } else { format!(" ({})", gone.join(", ")) };
        let segments =
            if report.segments > 1 { format!(" in {} segments", report.segments) } else { String::new() };
        let later = if report.from > 0 { format!(" from entry {} on", report.from) } else { String::new() };
        lines.push(format!(
            "{} {}{later}{segments}: chain, tree, {}, {}{gone}{state}; root {}",
            show::paint("32", "✓"),
            show::counted(report.entries, "entry"),
            show::counted(report.tiles, "tile"),
            show::counted(report.payloads, "payload"),
            text::prefix(&report.root, 16),
        ));
        lines.push(format!(
            "  signed: the first {}; checked {} and {}",
            show::counted(report.signed, "entry"),
            show::counted(report.checkpoints, "checkpoint"),
            show::counted(report.epochs, "epoch key"),
        ));
        if report.anchors > 0 {
            let anchors = show::counted(report.anchors, "anchor");
            lines.push(format!("  {anchors}, with roots that match the tree"));
        }
        lines.push(match report.anchored {
            Some(size) => {
                format!("  extends the kept checkpoint of {}", show::counted(size, "entry"))
            }
            None => {
                "  not compared with a checkpoint kept elsewhere, so a rollback or a rewrite with the keys \
                     would not show: pass `--checkpoint FILE`"
                    .to_owned()
            }
        });
    }
    for finding in &report.findings {
        let at = finding.seq.map_or_else(String::new, |seq| format!("seq {seq}: "));
        lines.push(format!("{} {at}{}", show::paint("31", "✗"), text::visible_line(&finding.what)));
    }
    if !report.verdict.holds() {
        lines.push(format!("  chain and tree were checked for {}", show::counted(report.entries, "entry")));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("  warning: {}", text::visible_line(warning))));
    lines
}

/// What a person does about a ledger that does not verify, at this entry.
pub(in crate::cli) fn way_out(seq: Option<u64>) -> Vec<String> {
    let shown = seq.map(|seq| format!("  what is stored there: `par audit show {seq}`"));
    let renew = "  the way out: stop the server, if one runs, and run `par audit renew --reason …`: it sets this log aside \
                 unchanged and begins the next one"
        .to_owned();
    shown.into_iter().chain([renew]).collect()
}

pub(in crate::cli) fn print(report: &Verification, is_json: bool) -> Result<u8, Fail> {
    if is_json {
        show::json(report)?;
    } else {
        summary(report).iter().try_for_each(|line| show::line(line))?;
    }
    Ok(if report.verdict.holds() { exit::OK } else { exit::UNVERIFIED })
}
