//! Text for pages: outside text made visible and short, times, figures.
//!
//! The output is plain text: maud escapes it when it is put into a page.

use crate::gate::State;
use crate::types::clock::Wall;
use crate::types::{Decision, RunStatus, StepStatus, text};

/// One line of outside text, at most `chars_max` characters long.
pub(super) fn line(from: &str, chars_max: usize) -> String {
    // A character has at most four bytes, so the rest of a long text need not be read.
    let head = text::prefix(from, chars_max.saturating_mul(4).saturating_add(4));
    let visible = text::visible_line(head);
    let is_cut = head.len() < from.len() || visible.chars().count() > chars_max;
    if is_cut {
        let mut short: String = visible.chars().take(chars_max.saturating_sub(1)).collect();
        short.push('…');
        return short;
    }
    visible
}

/// Outside text with its line breaks, at most `bytes_max` bytes of it. The second value says what
/// is missing.
pub(super) fn block(from: &str, bytes_max: usize) -> (String, Option<String>) {
    let head = text::prefix(from, bytes_max);
    let note = (head.len() < from.len())
        .then(|| format!("cut here: {} of {} bytes are shown", count(head.len()), count(from.len())));
    let visible = text::visible(head);
    // A text of hidden characters becomes eight times as long when they are made visible.
    let shown = text::prefix(&visible, bytes_max.saturating_mul(2));
    let note =
        if shown.len() < visible.len() { Some("cut here: the rest is not shown".to_owned()) } else { note };
    (shown.to_owned(), note)
}

/// `2026-11-22 01:19:07`, in UTC.
pub(super) fn time(wall_us: u64) -> String {
    Wall(wall_us).rfc3339().get(..19).map_or_else(|| "–".to_owned(), |at| at.replace('T', " "))
}

/// A span of time: `380 µs`, `2.4 ms`, `8.4 s`, `2 m 5 s`, `3 h 20 m`, `4 d 2 h`.
pub(super) fn span(us: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", us / unit, us % unit * 10 / unit);
    let (seconds, minutes, hours) = (us / 1_000_000, us / 60_000_000, us / 3_600_000_000);
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{} ms", tenths(1_000)),
        10_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..60_000_000 => format!("{} s", tenths(1_000_000)),
        60_000_000..3_600_000_000 => format!("{minutes} m {} s", seconds % 60),
        3_600_000_000..86_400_000_000 => format!("{hours} h {} m", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// `48,172`.
pub(super) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 run`, `2 runs`, `1,024 runs`.
pub(super) fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {what}{ending}", count(number))
}

/// The beginning of a digest or an id, for tables.
pub(super) fn short(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// The CSS class of an outcome. Colour accompanies the word and never stands alone.
pub(super) fn tone(word: &str) -> &'static str {
    let of_decision = Decision::parse(word).map(|decision| match decision {
        Decision::Allow => "good",
        Decision::Deny | Decision::Invalid => "bad",
        Decision::NeedsApproval => "warn",
    });
    let of_step = || {
        StepStatus::parse(word).map(|status| match status {
            StepStatus::Ok => "good",
            StepStatus::Interrupted | StepStatus::Waiting => "warn",
            StepStatus::Running => "plain",
            StepStatus::Error
            | StepStatus::Signal
            | StepStatus::Timeout
            | StepStatus::Oom
            | StepStatus::OutputCap
            | StepStatus::Quota
            | StepStatus::Killed
            | StepStatus::Refused => "bad",
        })
    };
    let of_run = || {
        RunStatus::parse(word).map(|status| match status {
            RunStatus::Done => "good",
            RunStatus::Denied | RunStatus::Failed => "bad",
            RunStatus::Running => "plain",
            RunStatus::Pending
            | RunStatus::Waiting
            | RunStatus::Paused
            | RunStatus::Limit
            | RunStatus::Cancelled
            | RunStatus::Interrupted => "warn",
        })
    };
    let of_approval = || {
        State::parse(word).map(|state| match state {
            State::Granted | State::Spent => "good",
            State::Refused | State::Expired | State::Void => "bad",
            State::Pending => "warn",
        })
    };
    // Outcomes that only pages use.
    let of_page = || match word {
        "ready" | "approved" | "verified" => "good",
        "degraded" => "warn",
        _ => "plain",
    };
    of_decision.or_else(of_step).or_else(of_run).or_else(of_approval).unwrap_or_else(of_page)
}

#[cfg(test)]
mod tests {
    use super::{block, count, line, span, time};

    #[test]
    fn lines_are_short_and_visible() {
        for (input, expect) in [
            ("plain", "plain"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("0123456789abc", "0123456789a…"),
        ] {
            assert_eq!(line(input, 12), expect);
        }
        assert_eq!(line(&"x".repeat(1 << 20), 12), "xxxxxxxxxxx…");
    }

    #[test]
    fn blocks_say_what_is_missing() {
        assert_eq!(block("a\nb", 9), ("a\nb".to_owned(), None));
        let (shown, note) = block(&"x".repeat(2_000), 1_000);
        assert_eq!((shown.len(), note.as_deref()), (1_000, Some("cut here: 1,000 of 2,000 bytes are shown")));
        let (shown, note) = block(&"\u{202e}".repeat(500), 1_000);
        assert!(shown.len() <= 2_000 && note.is_some());
    }

    #[test]
    fn figures_read_well() {
        for (us, expect) in [
            (0, "0 µs"),
            (2_450, "2.4 ms"),
            (380_000, "380 ms"),
            (8_420_000, "8.4 s"),
            (125_000_000, "2 m 5 s"),
            (12_000_000_000, "3 h 20 m"),
            (360_000_000_000, "4 d 4 h"),
        ] {
            assert_eq!(span(us), expect);
        }
        for (number, expect) in [(0_u64, "0"), (999, "999"), (48_172, "48,172"), (1_000_000, "1,000,000")] {
            assert_eq!(count(number), expect);
        }
        assert_eq!(time(0), "1970-01-01 00:00:00");
    }
}
