//! Versions of Debian packages and their order (deb-version(7)).

use std::cmp::Ordering;

/// The longest version that is compared, in bytes.
const BYTES_MAX: usize = 256;

/// A version: `[epoch:]upstream[-revision]`. Equal versions may be written differently: `1.0` and
/// `0:1.0-0`.
#[derive(Clone, Debug)]
pub(super) struct DebVersion {
    text: String,
    epoch: u32,
    /// Where the upstream version begins and where it ends.
    upstream: (usize, usize),
}

impl DebVersion {
    /// `None` if `text` is not a version.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > BYTES_MAX || !text.bytes().all(is_part) {
            return None;
        }
        let (epoch, start) = match text.split_once(':') {
            Some((epoch, _)) => (epoch.parse::<i32>().ok().filter(|_| is_number(epoch))?, epoch.len() + 1),
            None => (0, 0),
        };
        let end = text.get(start..)?.rfind('-').map_or(text.len(), |at| start + at);
        // Both parts are there if their marks are.
        let has_revision = end == text.len() || end + 1 < text.len();
        let starts = text.as_bytes().get(start).is_some_and(u8::is_ascii_digit);
        let is_one = starts && end > start && has_revision && !text.get(end..)?.contains(':');
        is_one.then(|| Self { text: text.to_owned(), epoch: epoch.unsigned_abs(), upstream: (start, end) })
    }

    /// As it is written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    fn upstream(&self) -> &[u8] {
        let (start, end) = self.upstream;
        self.text.as_bytes().get(start..end).unwrap_or_default()
    }

    fn revision(&self) -> &[u8] {
        self.text.as_bytes().get(self.upstream.1 + 1..).unwrap_or_default()
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".+~-:".contains(&byte)
}

impl Ord for DebVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.epoch
            .cmp(&other.epoch)
            .then_with(|| compare(self.upstream(), other.upstream()))
            .then_with(|| compare(self.revision(), other.revision()))
    }
}

impl PartialOrd for DebVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for DebVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for DebVersion {}

/// Compares by turns a part without digits and a number.
fn compare(mut left: &[u8], mut right: &[u8]) -> Ordering {
    while !left.is_empty() || !right.is_empty() {
        let (a, rest_a) = split(left, |byte| !byte.is_ascii_digit());
        let (b, rest_b) = split(right, |byte| !byte.is_ascii_digit());
        let (number_a, next_a) = split(rest_a, |byte| byte.is_ascii_digit());
        let (number_b, next_b) = split(rest_b, |byte| byte.is_ascii_digit());
        let order = words(a, b).then_with(|| numbers(number_a, number_b));
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (next_a, next_b);
    }
    Ordering::Equal
}

fn split(bytes: &[u8], is_in: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !is_in(*byte)).unwrap_or(bytes.len());
    bytes.split_at_checked(end).unwrap_or((bytes, &[]))
}

/// Letters come before other marks, and `~` before everything, even the end.
fn words(left: &[u8], right: &[u8]) -> Ordering {
    let weight = |byte: Option<&u8>| match byte {
        Some(b'~') => -1,
        None => 0,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    };
    let longest = left.len().max(right.len());
    (0..longest)
        .map(|at| weight(left.get(at)).cmp(&weight(right.get(at))))
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Numbers of any length.
fn numbers(left: &[u8], right: &[u8]) -> Ordering {
    let plain = |digits: &[u8]| split(digits, |byte| byte == b'0').1.to_vec();
    let (left, right) = (plain(left), plain(right));
    left.len().cmp(&right.len()).then_with(|| left.cmp(&right))
}

#[cfg(test)]
mod tests {
    use super::DebVersion;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn version(text: &str) -> DebVersion {
        DebVersion::parse(text).unwrap_or_else(|| panic!("`{text}` is a version"))
    }

    /// Each is lower than all that follow it, by deb-version(7).
    #[test]
    fn versions_are_ordered_as_dpkg_orders_them() {
        let rising = [
            "0~~",
            "0~~a",
            "0~",
            "0",
            "0.0",
            "1.0~beta1~svn1245",
            "1.0~beta1",
            "1.0",
            "1.0-0ubuntu1",
            "1.0-1",
            "1.0-1+b1",
            "1.0-1+deb12u1",
            "1.0-1.1",
            "1.0-2",
            "1.0a",
            "1.0+dfsg",
            "1.0.1",
            "1.2",
            "1.10",
            "1.10-1-1",
            "2",
            "10",
            "99999999999999999999998",
            "99999999999999999999999",
            "1:0",
            "1:0.1",
            "2:0~1",
        ];
        for (at, low) in rising.iter().enumerate() {
            for high in rising.iter().skip(at + 1) {
                assert_eq!(version(low).cmp(&version(high)), Ordering::Less, "{low} {high}");
                assert_eq!(version(high).cmp(&version(low)), Ordering::Greater, "{high} {low}");
            }
        }
        for (a, b) in
            [("1.0", "0:1.0"), ("1.0", "1.0-0"), ("1.01", "1.1"), ("1.0-1", "1.0-01"), ("1.", "1.0")]
        {
            assert_eq!(version(a), version(b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in [
            "",
            "a",
            "-1",
            ":1",
            "x:1",
            "1:",
            "1 2",
            "1-",
            "1\n",
            "1_2",
            "ü",
            "1:-1",
            "1-a:b",
            "99999999999:1",
        ] {
            assert!(DebVersion::parse(text).is_none(), "{text:?}");
        }
        assert!(DebVersion::parse(&"1".repeat(257)).is_none());
    }

    /// A version of the parts that decide the order.
    fn any_version() -> impl Strategy<Value = String> {
        "([0-2]:)?[0-9][a-zA-Z0-9.+~]{0,6}(-[a-zA-Z0-9.+~]{1,4})?"
    }

    proptest! {
        #[test]
        fn the_order_is_total(a in any_version(), b in any_version(), c in any_version()) {
            let (a, b, c) = (version(&a), version(&b), version(&c));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&a), Ordering::Equal);
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
        }

        #[test]
        fn any_text_is_a_version_or_refused(text in ".{0,40}") {
            if let Some(found) = DebVersion::parse(&text) {
                prop_assert_eq!(found.as_str(), &text);
            }
        }
    }
}
