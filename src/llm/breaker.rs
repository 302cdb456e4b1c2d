//! When a model that fails is left alone: a circuit breaker.
//!
//! Closed, it lets every request through. After [`limits::MODEL_FAILURES_MAX`] failures in a row
//! it opens, and lets none through for a while. Then one request is let through (half-open): if it
//! succeeds, the breaker closes, and if it fails, the breaker opens for twice as long. A server
//! that asks for a pause gets it at once.

use crate::types::limits;

/// The state of one model's breaker. Times are on the monotonic clock, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Breaker {
    /// Failures in a row.
    failures: u32,
    /// How often it opened in a row.
    opened: u32,
    /// Until when it is open.
    until_us: Option<u64>,
    /// When the one request of a half-open breaker began.
    probe_us: Option<u64>,
}

/// Why a request is not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenCircuit {
    /// Failures in a row.
    pub(super) failures: u32,
    /// Time until the next request is let through, in milliseconds, at least 1.
    pub(super) left_ms: u64,
}

impl Breaker {
    /// Why no request is let through now.
    pub(super) fn obstacle(&self, now_us: u64) -> Option<OpenCircuit> {
        let until_us = self.until_us?;
        // A request that was dropped never says how it ended: after a time another one may try.
        let probe_until_us =
            self.probe_us.map_or(0, |began| began.saturating_add(limits::RUN_MS_MAX * 1_000));
        let left_us = until_us.max(probe_until_us).checked_sub(now_us).filter(|left| *left > 0)?;
        Some(OpenCircuit { failures: self.failures, left_ms: left_us.div_ceil(1_000) })
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Lets a request through, or says why not.
    pub(super) fn begin(&mut self, now_us: u64) -> Result<(), OpenCircuit> {
        if let Some(open) = self.obstacle(now_us) {
            return Err(open);
        }
        if self.until_us.is_some() {
            self.probe_us = Some(now_us);
        }
        Ok(())
    }

    /// A request had a reply, or an error that says that the server is in service.
    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// A request failed; `asked_ms` is how long the server asked to be left alone.
    pub(super) fn fail(&mut self, now_us: u64, asked_ms: Option<u64>) {
        self.failures = self.failures.saturating_add(1);
        let was_half_open = self.probe_us.take().is_some();
        let is_over =
            was_half_open || (self.until_us.is_none() && self.failures >= limits::MODEL_FAILURES_MAX);
        let asked_ms = asked_ms.filter(|ms| *ms > limits::MODEL_PAUSE_MS_MAX);
        if !is_over && asked_ms.is_none() {
            return;
        }
        let doubled =
            limits::MODEL_REST_MS.saturating_mul(1_u64.checked_shl(self.opened).unwrap_or(u64::MAX));
        let own_ms = if is_over { doubled } else { 0 };
        self.opened = self.opened.saturating_add(u32::from(is_over));
        let rest_ms = own_ms.max(asked_ms.unwrap_or(0)).min(limits::MODEL_REST_MS_MAX);
        let until_us = now_us.saturating_add(rest_ms.saturating_mul(1_000));
        self.until_us = Some(self.until_us.map_or(until_us, |before| before.max(until_us)));
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, OpenCircuit};
    use crate::types::limits;

    const S: u64 = 1_000_000;
    const REST_US: u64 = limits::MODEL_REST_MS * 1_000;

    fn failed(times: u32) -> Breaker {
        let mut breaker = Breaker::default();
        (0..times).for_each(|_| breaker.fail(0, None));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let most = limits::MODEL_FAILURES_MAX;
        assert_eq!(failed(most - 1).obstacle(0), None);
        let open = failed(most).obstacle(0);
        assert_eq!(open, Some(OpenCircuit { failures: most, left_ms: limits::MODEL_REST_MS }));
        let mut mixed = failed(most - 1);
        mixed.succeed();
        mixed.fail(0, None);
        assert_eq!(mixed.obstacle(0), None);
    }

    #[test]
    fn one_request_tries_a_half_open_breaker() {
        let mut breaker = failed(limits::MODEL_FAILURES_MAX);
        assert!(breaker.begin(REST_US - 1).is_err());
        assert!(breaker.begin(REST_US).is_ok());
        assert!(breaker.begin(REST_US).is_err(), "a second one at the same time");
        // It fails: twice as long.
        breaker.fail(REST_US, None);
        assert_eq!(breaker.obstacle(REST_US).map(|open| open.left_ms), Some(2 * limits::MODEL_REST_MS));
        assert!(breaker.begin(3 * REST_US).is_ok());
        breaker.succeed();
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn a_request_that_never_ends_does_not_keep_it_open() {
        let mut breaker = failed(limits::MODEL_FAILURES_MAX);
        breaker.begin(REST_US).expect("half-open");
        assert!(breaker.begin(REST_US + limits::RUN_MS_MAX * 1_000 - 1).is_err());
        assert!(breaker.begin(REST_US + limits::RUN_MS_MAX * 1_000).is_ok());
    }

    #[test]
    fn a_pause_that_the_server_asks_for_is_kept_and_bounded() {
        let mut breaker = Breaker::default();
        // Short enough to be waited for within the request.
        breaker.fail(0, Some(limits::MODEL_PAUSE_MS_MAX));
        assert_eq!(breaker.obstacle(0), None);
        breaker.fail(0, Some(60_000));
        assert_eq!(breaker.obstacle(0).map(|open| open.left_ms), Some(60_000));
        assert!(breaker.begin(59 * S).is_err() && breaker.begin(60 * S).is_ok());
        breaker.fail(60 * S, Some(u64::MAX));
        assert_eq!(breaker.obstacle(60 * S).map(|open| open.left_ms), Some(limits::MODEL_REST_MS_MAX));
    }

    #[test]
    fn the_rest_is_bounded() {
        let mut breaker = failed(limits::MODEL_FAILURES_MAX);
        let mut now_us = 0;
        for _ in 0..80 {
            now_us += breaker.obstacle(now_us).map_or(0, |open| open.left_ms * 1_000);
            breaker.begin(now_us).expect("half-open");
            breaker.fail(now_us, None);
        }
        assert_eq!(breaker.obstacle(now_us).map(|open| open.left_ms), Some(limits::MODEL_REST_MS_MAX));
    }
}
