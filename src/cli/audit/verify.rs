//! `par audit verify`: verifies the ledger's files, also against what was seen of them before.

use super::{given, journal, summary};
use crate::cli::exit::{self, Fail};
use crate::cli::progress::Progress;
use crate::cli::remote::known;
use crate::cli::{compose, show};
use crate::config::Config;
use crate::ledger::{self, Checkpoint, Files, Note, Outside, Reader, Verdict, Verification, VerifierKey};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct Verify {
    /// Checkpoint that was kept elsewhere, or a reply that contains one: the ledger must extend it
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Expected verifier key of the log: the checkpoint or the export must be signed with it
    #[arg(long, value_name = "VKEY")]
    pub(super) key: Option<String>,
    /// Check this file, which `par audit export` wrote, instead of a ledger; needs no home
    #[arg(long, value_name = "FILE", conflicts_with_all = ["checkpoint", "from"])]
    pub(super) export: Option<PathBuf>,
    /// Read only the entries from this number on; a checkpoint that you kept must cover the earlier
    /// ones
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Read only the entries added since your last verification; the tree must still begin with the
    /// earlier ones
    #[arg(long, conflicts_with = "from")]
    since_last: bool,
    /// Also compare with the launcher's journal, a folder or one of its files
    #[arg(long, value_name = "PATH", conflicts_with_all = ["before", "export"])]
    launcher: Option<PathBuf>,
    /// Verify the log that was set aside in data/before/LOG instead
    #[arg(long, value_name = "LOG", conflicts_with_all = ["from", "since_last"])]
    before: Option<String>,
}

impl Verify {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        if let Some(log) = &self.before {
            return self.run_before(config, log, is_json);
        }
        let key = self.key.as_deref().map(given::verifier).transpose()?;
        let mut outside = Vec::new();
        if let Some(path) = &self.checkpoint {
            let from = path.display().to_string();
            outside.push(Outside { from, note: given::note(path)?, key: key.clone() });
        }
        let address = known::address(&config.home);
        let known = known::find(&address)?;
        let known_key = known.as_ref().map(|(key, _)| key.clone());
        if let Some((key, Some(note))) = known {
            outside.push(Outside { from: "known-logs".to_owned(), note, key: Some(key) });
        }
        let last = if self.since_last { Some(last_verified(&address)?) } else { None };
        if let Some((_, note)) = &last {
            let from = "the last verification".to_owned();
            outside.push(Outside { from, note: note.clone(), key: known_key.clone() });
        }
        let files = compose::files(config);
        compose::check_readable(&config.home.data)?;
        // Without any trace of an earlier ledger. It is not verified either: nothing was checked.
        if compose::is_new(&files) && outside.is_empty() && known_key.is_none() {
            return Err(Fail::failed(format!("{}, so nothing can be verified", compose::NOTHING)));
        }
        let from = last.as_ref().map(|(size, _)| *size).or(self.from).filter(|from| *from > 0);
        if let Some(from) = from {
            may_begin(from, &files, &outside)?;
        }
        let progress = Progress::new();
        let update = |done, all| progress.update(done, all);
        let report = match from {
            None => ledger::audit_with_progress(&files, &compose::PROJECTIONS, &outside, &update),
            Some(from) => ledger::audit_from(&files, from, &outside, &update),
        };
        drop(progress);
        let mut report = same_key(report, config, key.as_ref().into_iter().chain(&known_key));
        report.warnings.extend(other_log(config, &address, known_key.as_ref()));
        report.warnings.extend(recorded(&files).filter(|_| report.verdict.holds()));
        if let Some(path) = self.launcher.as_ref().filter(|_| report.verdict.holds()) {
            let reader = Reader::open(&files.ledger()).map_err(Fail::failed)?;
            let compared = journal::compare(&mut report, &reader, path)?;
            if !is_json {
                show::line(&compared)?;
            }
        }
        // Together with the entries before the last verification, every entry has been verified.
        let verified = report.newest.clone().filter(|_| from.is_none() || self.since_last);
        if report.verdict.holds()
            && let Err(fail) = remember(config, &address, verified.as_ref())
        {
            report.warnings.push(format!("the result is not remembered: {fail}"));
        }
        let code = summary::print(&report, is_json)?;
        if code != exit::OK {
            let seq = report.findings.iter().find_map(|finding| finding.seq);
            // If the log is another one than a kept checkpoint names, it is not damaged.
            if !is_json && report.verdict != Verdict::Diverged {
                summary::way_out(seq).iter().try_for_each(|line| show::line(line))?;
            }
            if let Some(seq) = seq {
                compose::pass_on(&config.home.data, seq);
            }
        }
        Ok(code)
    }

    /// Verifies a log that a newer one has replaced.
    fn run_before(&self, config: &Config, log: &str, is_json: bool) -> Result<u8, Fail> {
        let files = given::log_before(config, log)?;
        let key = self.key.as_deref().map(given::verifier).transpose()?;
        let mut outside = Vec::new();
        if let Some(path) = &self.checkpoint {
            outside.push(Outside { from: path.display().to_string(), note: given::note(path)?, key });
        }
        summary::print(&ledger::audit(&files, &compose::PROJECTIONS, &outside), is_json)
    }
}

/// Checks that a checkpoint vouches for the entries before `from`, and that the ledger has as many.
fn may_begin(from: u64, files: &Files, outside: &[Outside]) -> Result<(), Fail> {
    let sizes = outside.iter().filter_map(|one| Checkpoint::parse(one.note.text()).ok());
    let newest = sizes.map(|checkpoint| checkpoint.head.size).max().unwrap_or(0);
    if newest < from {
        let mend = "pass a later one with `--checkpoint`, or verify every entry";
        let what = format!("`--from {from}`: the newest known checkpoint covers {newest} entries: {mend}");
        return Err(Fail::usage(what));
    }
    let there = Reader::open(&files.ledger()).map_err(Fail::failed)?.size().map_err(Fail::failed)?;
    if there < from {
        let what =
            format!("`--from {from}`: the ledger has {there} entries, but the checkpoint covers {newest}");
        return Err(Fail::new(exit::UNVERIFIED, what));
    }
    Ok(())
}

/// The ledger's log key must equal every key that is known for it.
fn same_key<'a>(
    mut report: Verification,
    config: &Config,
    keys: impl Iterator<Item = &'a VerifierKey>,
) -> Verification {
    for key in keys.filter(|_| report.verdict.holds()).collect::<Vec<_>>() {
        let there =
            Reader::open(&compose::files(config).ledger()).ok().and_then(|reader| reader.log_key().ok());
        if there.as_ref() != Some(key) {
            report.find(None, Verdict::Diverged, format!("the log key is not that of `{}`", key.name()));
        }
    }
    report
}

/// What to do if `known-logs` remembers another log at this address, as for a home that was made
/// again.
fn other_log(config: &Config, address: &str, known: Option<&VerifierKey>) -> Option<String> {
    let here = Reader::open(&compose::files(config).ledger()).ok()?.log_key().ok()?;
    let known = known.filter(|known| **known != here)?;
    Some(format!(
        "known-logs remembers another log here, `{}`. If this home was made again, accept its log with `par audit \
         trust {address} --key {here}`",
        known.name()
    ))
}

/// What the ledger records of damage that was found before, although everything verifies now.
fn recorded(files: &Files) -> Option<String> {
    let reader = Reader::open(&files.ledger()).ok()?;
    let damage = ledger::recorded_damage(&reader).ok()??;
    let entry = damage.entry.map_or_else(String::new, |seq| format!(" at entry {seq}"));
    Some(format!(
        "the ledger records that damage was found{entry}: {}. Everything verifies now, so it was put back. Nothing runs \
         on this log any more: look into the finding, then begin the next log with `par audit renew --reason …`",
        damage.found
    ))
}

/// The checkpoint of the last verification that covered every entry, alone or with earlier ones,
/// and its size.
fn last_verified(address: &str) -> Result<(u64, Note), Fail> {
    let note = known::verified(address)?;
    let size = |note: &Note| Checkpoint::parse(note.text()).map(|checkpoint| checkpoint.head.size);
    let last = note.and_then(|note| Some((size(&note).ok().filter(|size| *size > 0)?, note)));
    last.ok_or_else(|| {
        Fail::usage("`--since-last`: no verification of this ledger is remembered: verify every entry first")
    })
}

/// Remembers the verified state, which the ledger must extend next time, and up to which checkpoint
/// every entry was verified, if so.
fn remember(config: &Config, address: &str, verified: Option<&Note>) -> Result<(), Fail> {
    let reader = Reader::open(&compose::files(config).ledger()).map_err(Fail::failed)?;
    let key = reader.log_key().map_err(Fail::failed)?;
    let note = reader.newest_checkpoint().map_err(Fail::failed)?;
    let note = note.and_then(|note| Note::parse(&note).ok());
    match verified {
        Some(verified) => known::remember_verified(address, &key, note.as_ref(), verified),
        None => known::remember(address, &key, note.as_ref()),
    }
}
