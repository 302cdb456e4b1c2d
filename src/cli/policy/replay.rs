//! `par policy replay`: makes every decision of the ledger again. It reads the files itself, needs
//! no server and writes nothing.

use crate::cli::exit::{self, Fail};
use crate::cli::progress::Progress;
use crate::cli::{compose, show};
use crate::config::{Config, Home};
use crate::gate::Rules;
use crate::ledger::{self, AppendError, Reader};
use crate::rules::{self, Example, Flips, Replayed, RulesError};
use crate::types::clock::Wall;
use crate::types::text;
use clap::Args;
use std::path::{Path, PathBuf};

/// Number of threads that share the ledger.
const THREADS: usize = 2;

#[derive(Debug, Args)]
pub(in crate::cli) struct Replay {
    /// Compare with other rules: a folder laid out like etc/, or a folder of policies
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Skip decisions before this time: a span such as `24h` or `7d`, a date, or a time (RFC 3339)
    /// [default: skip none]
    #[arg(long, value_name = "TIME", default_value = "", hide_default_value = true)]
    since: String,
}

impl Replay {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let since_us = since(&self.since, Wall::now()).map_err(Fail::usage)?;
        let rules = self.against.as_deref().map(|folder| against(config, folder)).transpose()?;
        let ledger = compose::files(config).ledger();
        let open = || Reader::open(&ledger).map_err(Fail::failed);
        let readers = (0..THREADS).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let replay = rules::Replay {
            data: &config.home.data,
            against: rules.as_ref().map(|rules| &*rules.bundle),
            since_us,
        };
        let progress = Progress::new();
        let replayed = replay.run(&readers, &|done, all| progress.update(done, all));
        drop(progress);
        if let Some(seq) = readers.iter().find_map(Reader::met_damage) {
            compose::pass_on(&config.home.data, seq);
        }
        let damage = readers.first().and_then(|reader| ledger::recorded_damage(reader).ok().flatten());
        show::damage(damage.map(|of| AppendError::Damaged(Box::new(of)).to_string()).as_deref());
        let replayed = replayed
            .map_err(|e| Fail::new(exit::UNVERIFIED, format!("{e}: `par audit verify` shows every fault")))?;
        if is_json {
            show::json(&replayed)?;
        } else {
            self.lines(&replayed).iter().try_for_each(|line| show::line(line))?;
        }
        Ok(match &replayed {
            replayed if !replayed.is_as_recorded() => exit::UNVERIFIED,
            replayed if !replayed.flips.is_empty() => exit::FAILED,
            // A decision that could not be made again proves nothing.
            replayed if self.against.is_none() && !replayed.not_kept.is_empty() => exit::FAILED,
            _ => exit::OK,
        })
    }

    fn lines(&self, replayed: &Replayed) -> Vec<String> {
        let mut lines = own(replayed);
        if self.against.is_some() {
            let flipped: u64 = replayed.flips.iter().map(|flips| flips.count).sum();
            lines.push(format!(
                "under the other rules: {}, of which {flipped} flip",
                show::counted(replayed.compared, "decision")
            ));
            if replayed.filled > 0 {
                lines.push(format!(
                    "  {} recorded under an earlier schema: filled in what it did not have, such as \
                 `context.channel`",
                    show::counted(replayed.filled, "decision")
                ));
            }
            lines.extend(replayed.flips.iter().flat_map(group));
        }
        if !replayed.shadow_flips.is_empty() {
            lines.push("with the policies in shadow mode, which only report:".to_owned());
            lines.extend(replayed.shadow_flips.iter().flat_map(group));
        }
        lines
    }
}

/// The outcome of each decision under its own rules.
fn own(replayed: &Replayed) -> Vec<String> {
    let mut lines: Vec<String> = replayed
        .differences
        .iter()
        .map(|one| format!("{} seq {}: {}", show::paint("31", "✗"), one.seq, text::visible_line(&one.what)))
        .collect();
    let bundles = show::counted(replayed.bundles.len() as u64, "bundle");
    let (decisions, same) = (show::counted(replayed.decisions, "decision"), replayed.as_recorded);
    let again = format!("{same} of {decisions} repeated as recorded, under {bundles}");
    match replayed {
        _ if replayed.decisions == 0 => lines.push("  the ledger holds no decision to repeat".to_owned()),
        _ if replayed.is_as_recorded() && replayed.not_kept.is_empty() && same > 0 => {
            lines.push(format!("{} {again}", show::paint("32", "✓")));
        }
        _ => lines.push(format!("  {again}")),
    }
    if !replayed.is_as_recorded() {
        let different = show::counted(replayed.different, "difference");
        lines
            .push(format!("  {different}: the ledger was changed, or another version of the engine decided"));
    }
    if replayed.powers > 0 && replayed.is_as_recorded() {
        lines.push(format!("  {} of the API granted again", show::counted(replayed.powers, "use")));
    }
    let apart = [
        (replayed.invalid, "invalid"),
        (replayed.without_request, "denied before any policy was asked"),
        (replayed.without_payload, "erased or cut"),
    ];
    let apart: Vec<String> =
        apart.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !apart.is_empty() {
        lines.push(format!("  not repeated: {}", apart.join(", ")));
    }
    for (digest, count) in &replayed.not_kept {
        let decisions = show::counted(*count, "decision");
        lines.push(format!(
            "  not repeatable: {decisions} under the bundle {digest}, which is no longer stored"
        ));
    }
    for (engine, count) in &replayed.other_engines {
        lines.push(format!(
            "  {} by Cedar {}, not the version in use here",
            show::counted(*count, "decision"),
            text::visible_line(engine)
        ));
    }
    lines
}

/// One kind of flip: the count, the deciding policies and some examples.
fn group(flips: &Flips) -> Vec<String> {
    let Flips { from, to, by, count, examples } = flips;
    let mut lines = vec![format!(
        "  {} → {}  {count}  {}",
        text::visible_line(from),
        text::visible_line(to),
        text::visible_line(by)
    )];
    lines.extend(examples.iter().map(example));
    let rest = count.saturating_sub(examples.len() as u64);
    if rest > 0 {
        lines.push(format!("    and {rest} more"));
    }
    lines
}

fn example(one: &Example) -> String {
    let words = [&one.principal, &one.tool, &one.resource].map(|word| text::visible_line(word));
    format!("    #{}  {}", one.seq, words.join("  "))
}

/// Loads the rules of a folder like `etc/`. What is missing there, configuration or tools, comes
/// from the home. A folder without `policies/` holds the policies themselves.
fn against(config: &Config, folder: &Path) -> Result<Rules, Fail> {
    let refuse = |e: &RulesError| Fail::usage(e.0.join("\npar: "));
    let folder = std::path::absolute(folder).map_err(Fail::usage)?;
    let below = folder.join("policies");
    let policies = if below.is_dir() { &below } else { &folder };
    let has_own = |name: &str| below.is_dir() && folder.join(name).exists();
    let home = |is_own: bool| {
        let etc = if is_own { folder.clone() } else { config.home.etc.clone() };
        Home { etc, ..config.home.clone() }
    };
    let mut other = Config::load(home(has_own("par.toml"))).map_err(Fail::usage)?;
    other.home = home(has_own("tools.d"));
    let rules = rules::load_rules_of(&other, policies).map_err(|e| refuse(&e))?;
    if rules.bundle.policies().next().is_none() {
        return Err(Fail::usage(format!("`{}` contains no policy", policies.display())));
    }
    Ok(rules)
}

/// Text that does not name a time.
#[derive(Debug, thiserror::Error)]
#[error("`--since {0}` is not a time: give a span such as `24h` or `7d`, a date or a time (RFC 3339)")]
struct InvalidTime(String);

/// Parses a span before now, a date or a time, and returns microseconds since 1970.
fn since(words: &str, now: Wall) -> Result<u64, InvalidTime> {
    let refuse = || InvalidTime(words.to_owned());
    if words.is_empty() {
        return Ok(0);
    }
    let unit_s = match words.chars().last() {
        Some('m') => Some(60),
        Some('h') => Some(3_600),
        Some('d') => Some(86_400),
        _ => None,
    };
    let number = words.strip_suffix(['m', 'h', 'd']).and_then(|number| number.parse::<u64>().ok());
    if let Some((number, unit_s)) = number.zip(unit_s) {
        return Ok(now.0.saturating_sub(number.saturating_mul(unit_s * 1_000_000)));
    }
    let whole =
        if words.len() == "2026-11-22".len() { format!("{words}T00:00:00Z") } else { words.to_owned() };
    let at: jiff::Timestamp = whole.parse().map_err(|_| refuse())?;
    u64::try_from(at.as_microsecond()).map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
    use super::since;
    use crate::types::clock::Wall;

    #[test]
    fn since_accepts_spans_dates_and_times() {
        let now = Wall(1_800_000_000_000_000);
        let check = |words: &str, expect: Option<u64>| assert_eq!(since(words, now).ok(), expect, "{words}");
        check("", Some(0));
        check("24h", Some(now.0 - 86_400_000_000));
        check("7d", Some(now.0 - 7 * 86_400_000_000));
        check("90m", Some(now.0 - 5_400_000_000));
        check("99999999999999d", Some(0));
        check("2026-11-22", Some(1_795_305_600_000_000));
        check("2026-11-22T01:00:00Z", Some(1_795_309_200_000_000));
        check("2026-11-22T02:00:00+01:00", Some(1_795_309_200_000_000));
        for bad in ["h", "-1h", "1.5h", "yesterday", "7w", "2026-13-01", "2026-11-22T01:00:00", "1960-01-01"]
        {
            check(bad, None);
        }
    }
}
