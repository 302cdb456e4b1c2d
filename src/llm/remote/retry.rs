//! When to retry a request.

use crate::llm::error::{ModelError, ModelErrorKind};
use crate::llm::provider::RetriedAsk;
use crate::types::limits;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_millis(limits::MODEL_PAUSE_MS_MAX);

/// The delay before the next attempt, after `tried` of them; `None` if there must be no other.
///
/// The server's own delay (`Retry-After`) is never shortened: if it exceeds the limit, or leaves no
/// time before the deadline (`left`), no further attempt is made. Otherwise the delay doubles each
/// time, less a random part of up to half, so that many clients do not return at once.
pub(super) fn pause(error: &ModelError, tried: u32, left: Duration) -> Option<Duration> {
    let spent = tried >= limits::MODEL_TRIES_MAX || error.kind == ModelErrorKind::Timeout;
    if spent || !error.retryable {
        return None;
    }
    let doubled = FIRST.saturating_mul(1_u32.checked_shl(tried.saturating_sub(1)).unwrap_or(u32::MAX));
    let jittered = jitter(doubled.min(LONGEST));
    let wait = error.retry_after.map_or(jittered, |asked| asked.max(jittered));
    (wait <= LONGEST && wait < left).then_some(wait)
}

/// What a person who waits reads of it. The server's own words are left out: they are not searched
/// for secrets yet.
pub(super) fn told(error: &ModelError, tried: u32, pause: Duration) -> RetriedAsk {
    let why = match error.kind {
        ModelErrorKind::Status(status) => format!("the model answered {status}"),
        ModelErrorKind::Reported => "the model's server failed while it answered".to_owned(),
        _ => "the connection to the model failed".to_owned(),
    };
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    RetriedAsk { why, attempt: tried + 1, attempts_max: limits::MODEL_TRIES_MAX, pause_ms }
}

/// Between half of `wait` and all of it; all of it if the kernel gives no random bytes.
fn jitter(wait: Duration) -> Duration {
    let share = getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX));
    wait.mul_f64(0.5 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::pause;
    use crate::egress::{EgressError, Wait};
    use crate::llm::ModelError;
    use std::time::Duration;

    #[test]
    fn only_temporary_failures_are_retried() {
        let left = Duration::from_secs(60);
        for (status, again) in [(408, true), (409, true), (429, true), (500, true), (503, true), (529, true)]
            .into_iter()
            .chain([302, 400, 401, 403, 404, 413, 422].map(|status| (status, false)))
        {
            let error = ModelError::status(status, "", Vec::new());
            assert_eq!(pause(&error, 1, left).is_some(), again, "{status}");
        }
        for (error, again) in [
            (EgressError::Connect(String::new()), true),
            (EgressError::Broken(String::new()), true),
            (EgressError::Tls(String::new()), false),
            (EgressError::Timeout, false),
            (EgressError::Late(Wait::Connect), true),
            (EgressError::Late(Wait::FirstByte), false),
            (EgressError::Late(Wait::Idle), false),
            (EgressError::TooLarge(1), false),
            (EgressError::Address(String::new()), false),
        ] {
            assert_eq!(pause(&error.clone().into(), 1, left).is_some(), again, "{error}");
        }
        assert_eq!(pause(&ModelError::malformed("", Vec::new()), 1, left), None);
    }

    #[test]
    fn delays_grow_within_their_bounds() {
        let error = ModelError::status(429, "", Vec::new());
        let ms = Duration::from_millis;
        let check = |tried, asked: Option<u64>, left, expect: Option<(u64, u64)>| {
            let error = ModelError { retry_after: asked.map(ms), ..error.clone() };
            let wait = pause(&error, tried, ms(left));
            let fits = match (wait, expect) {
                (Some(wait), Some((low, high))) => ms(low) <= wait && wait <= ms(high),
                (wait, expect) => wait.is_none() && expect.is_none(),
            };
            assert!(fits, "after {tried} tries, {asked:?} ms asked, {left} ms left: {wait:?}");
        };
        check(1, None, 60_000, Some((250, 500)));
        check(2, None, 60_000, Some((500, 1_000)));
        check(3, None, 60_000, None);
        check(1, None, 100, None);
        check(1, Some(7_000), 60_000, Some((7_000, 7_000)));
        check(1, Some(0), 60_000, Some((250, 500)));
        check(1, Some(7_000), 6_000, None);
        check(1, Some(3_600_000), 9_000_000, None);
    }
}
