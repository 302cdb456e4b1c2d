//! Prices of models and sums of money, in millionths: no rounding error of binary fractions.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Millionths in one unit of a currency.
const MICRO: u64 = 1_000_000;
/// Largest price, in whole units of the currency.
const PRICE_MAX: u64 = 1_000_000;

/// The price of a million tokens, in millionths of a currency that the operator chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price(u64);

/// A sum of money, in millionths of the same currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Price {
    /// Parses a decimal number with at most six digits after the point, such as `0.15`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(part) || part.len() > 6 {
            return None;
        }
        let whole = whole.parse().ok().filter(|whole: &u64| *whole <= PRICE_MAX)?;
        let part: u64 = format!("{part:0<6}").parse().ok()?;
        Some(Self(whole * MICRO + part))
    }

    /// What `tokens` cost, rounded up to a millionth.
    #[must_use]
    pub fn of(self, tokens: u64) -> Money {
        let micro = u128::from(self.0) * u128::from(tokens);
        Money(u64::try_from(micro.div_ceil(u128::from(MICRO))).unwrap_or(u64::MAX))
    }
}

impl Money {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, micro: u64, places_min: usize) -> fmt::Result {
    let part = format!("{:06}", micro % MICRO);
    let kept = part.trim_end_matches('0').len().max(places_min);
    match part.get(..kept).unwrap_or_default() {
        "" => write!(f, "{}", micro / MICRO),
        part => write!(f, "{}.{part}", micro / MICRO),
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, 0)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, 2)
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Reads a number of a configuration file.
impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Number)
    }
}

struct Number;

impl Number {
    fn read<E: serde::de::Error>(text: &str) -> Result<Price, E> {
        Price::parse(text).ok_or_else(|| {
            E::custom(format!(
                "`{text}` is not a price, expected a number from 0 to {PRICE_MAX} with at most six digits after \
                 the point"
            ))
        })
    }
}

impl Visitor<'_> for Number {
    type Value = Price;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a price for a million tokens, such as 2.5")
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Price, E> {
        Self::read(&value.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Price, E> {
        Self::read(&value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Price, E> {
        // The shortest text that reads back as the same number: what was written.
        Self::read(&value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Price;

    #[test]
    fn a_price_is_exact() {
        for (text, expect) in [
            ("2.5", Some("2.5")),
            ("0.15", Some("0.15")),
            ("0", Some("0")),
            ("10", Some("10")),
            ("0.000001", Some("0.000001")),
            ("1000000", Some("1000000")),
            ("1000001", None),
            ("0.0000001", None),
            ("-1", None),
            ("1e3", None),
            ("NaN", None),
            ("", None),
            (".5", None),
        ] {
            assert_eq!(Price::parse(text).map(|price| price.to_string()).as_deref(), expect, "{text}");
        }
    }

    #[test]
    fn money_is_rounded_up_and_never_overflows() {
        let cost = |price: &str, tokens| Price::parse(price).expect(price).of(tokens).to_string();
        assert_eq!(cost("2.5", 1_000_000), "2.50");
        assert_eq!(cost("2.5", 1_234), "0.003085");
        assert_eq!(cost("0.15", 1), "0.000001");
        assert_eq!(cost("0", 5), "0.00");
        assert_eq!(cost("1000000", u64::MAX), "18446744073709.551615");
        let both = Price::parse("1").expect("1").of(500_000).and(Price::parse("2").expect("2").of(500_000));
        assert_eq!(both.to_string(), "1.50");
    }
}
