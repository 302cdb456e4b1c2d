//! Stalls for want of a resource: pressure stall information, PSI (Linux 4.20).

use serde_json::{Map, Value, json};

/// The averages in a file of `/proc/pressure`: for `some` (at least one task waited) and `full`
/// (all did), the percentage of the last 10, 60 and 300 seconds, as the kernel writes it.
pub(super) fn pressure(text: &str) -> Value {
    let mut found = Map::new();
    for line in text.lines() {
        let Some((who, rest)) = line.split_once(' ') else { continue };
        if !matches!(who, "some" | "full") {
            continue;
        }
        let member = |(name, as_name): (&str, &str)| {
            let value = rest.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
            is_plain(value).then(|| (as_name.to_owned(), json!(value)))
        };
        let averages = [("avg10", "avg10_percent"), ("avg60", "avg60_percent"), ("avg300", "avg300_percent")];
        found.insert(who.to_owned(), Value::Object(averages.into_iter().filter_map(member).collect()));
    }
    Value::Object(found)
}

/// The average of the last minute for `who`, as written and in hundredths of a percent.
pub(super) fn minute(pressure: &Value, who: &str) -> Option<(String, u64)> {
    let text = pressure.get(who)?.get("avg60_percent")?.as_str()?;
    Some((text.to_owned(), hundredths(text)?))
}

/// `0.25` → 25.
pub(super) fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let part = part.get(..2)?.parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part)
}

/// Digits, a dot, digits.
fn is_plain(text: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.').is_some_and(|(whole, part)| is_digits(whole) && is_digits(part))
}

#[cfg(test)]
mod tests {
    use super::{hundredths, minute, pressure};
    use serde_json::json;

    #[test]
    fn averages_are_read_as_the_kernel_writes_them() {
        let text = "some avg10=1.50 avg60=12.25 avg300=0.00 total=5\nfull avg10=0.00 avg60=3.00 avg300=0.10 total=1\n";
        let read = pressure(text);
        assert_eq!(
            read["some"],
            json!({ "avg10_percent": "1.50", "avg60_percent": "12.25", "avg300_percent": "0.00" })
        );
        assert_eq!(minute(&read, "full"), Some(("3.00".to_owned(), 300)));
        assert_eq!(minute(&pressure(""), "some"), None);
        assert_eq!(pressure("some avg10=x avg60=1.0\u{1b} avg300=\nother avg10=1.00"), json!({ "some": {} }));
    }

    #[test]
    fn a_load_is_read_in_hundredths() {
        assert_eq!(hundredths("12.34"), Some(1234));
        assert_eq!(hundredths("x"), None);
        assert_eq!(hundredths("1.2"), None);
    }
}
