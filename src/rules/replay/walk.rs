//! Walks a ledger, each thread over its share.

use super::kept::KeptBundles;
use super::share::WalkShare;
use super::told::Replayed;
use super::{ask, decision, power};
use crate::ledger::{Header, Kind, ReadError, Reader};
use crate::policy::Bundle;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to repeat, and from what.
#[derive(Debug)]
pub struct Replay<'a> {
    /// The data folder that contains the stored bundles.
    pub data: &'a Path,
    /// Rules to compare with.
    pub against: Option<&'a Bundle>,
    /// Earlier decisions are left out: wall time in microseconds.
    pub since_us: u64,
}

impl Replay<'_> {
    /// Walks the ledger in `readers` threads, each over its share. Calls `progress` now and then
    /// with the number of entries read and of all entries. Blocking.
    pub fn run(
        &self,
        readers: &[Reader],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Replayed, ReadError> {
        let size = readers.first().map_or(Ok(0), Reader::size)?;
        let kept = KeptBundles::below(self.data);
        let done = AtomicU64::new(0);
        let step = |entries: u64| {
            let before = done.fetch_add(entries, Ordering::Relaxed);
            progress(before.saturating_add(entries), size);
        };
        let part = size.div_ceil(readers.len().max(1) as u64).max(1);
        let shares = std::thread::scope(|scope| {
            let (kept, step) = (&kept, &step);
            let starts = (0_u64..).map(|at| at.saturating_mul(part).min(size));
            let threads: Vec<_> = readers
                .iter()
                .zip(starts)
                .map(|(reader, from)| {
                    let range = from..from.saturating_add(part).min(size);
                    scope.spawn(move || self.walk(reader, range, kept, step))
                })
                .collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(share) => share,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect::<Result<Vec<WalkShare>, ReadError>>()
        })?;
        let mut whole = WalkShare::default();
        shares.into_iter().for_each(|share| whole.add(share));
        whole.report.entries = size;
        Ok(whole.finish())
    }

    fn walk(
        &self,
        reader: &Reader,
        range: Range<u64>,
        kept: &KeptBundles<'_>,
        step: &dyn Fn(u64),
    ) -> Result<WalkShare, ReadError> {
        const STEP: u64 = 256;
        let mut share = WalkShare::default();
        let mut seen = 0;
        let wants = |header: &Header| {
            seen += 1;
            if seen % STEP == 0 {
                step(STEP);
            }
            let is_asked = header.u64("wall_us").is_none_or(|at| at >= self.since_us);
            let is_made = header.is(Kind::CallDecision)
                || header.is(Kind::ModelAsk)
                || power::power_of(header).is_some();
            header.is(Kind::PolicyLoad) || (is_made && is_asked)
        };
        reader.walk(range, wants, |stored| {
            if stored.header.is(Kind::CallDecision) {
                return decision::check(&stored, self.against, kept, &mut share);
            }
            if stored.header.is(Kind::ModelAsk) {
                return ask::check(&stored, self.against, kept, &mut share);
            }
            power::check(&stored, kept, &mut share);
            if stored.header.is(Kind::PolicyLoad) {
                share.in_force = Some(stored.header.str("policy").unwrap_or_default().to_owned());
            }
        })?;
        Ok(share)
    }
}
