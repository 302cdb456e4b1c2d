//! Strict parsing of JSON from outside, and the canonical form that is hashed.

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Why a text was refused as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

/// Parses one JSON text (RFC 8259). Refuses duplicate keys, nesting deeper than `depth_max`,
/// invalid UTF-8 and anything after the value.
pub fn parse_strict(bytes: &[u8], depth_max: usize) -> Result<Value, JsonError> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let value =
        Strict { depth_left: depth_max }.deserialize(&mut from).map_err(|e| JsonError(e.to_string()))?;
    from.end().map_err(|e| JsonError(e.to_string()))?;
    Ok(value)
}

/// The canonical form of `value`: RFC 8785, restricted to numbers that every reader keeps exactly.
///
/// Members are sorted by UTF-16 code units. A number that is neither an integer of at most 2^53 - 1
/// in magnitude nor a [`decimal`] is refused, because two readers could disagree on it.
pub fn canonical(value: &Value) -> Result<String, JsonError> {
    let mut out = String::new();
    write_canonical(value, &mut out)?;
    Ok(out)
}

/// Largest integer that every JSON reader keeps exactly (RFC 7493): 2^53 - 1.
pub const INTEGER_MAX: i64 = (1 << 53) - 1;

/// Whether every number in `value` is written as an integer that all readers keep exactly.
#[must_use]
pub fn has_only_exact_integers(value: &Value) -> bool {
    match value {
        Value::Number(number) => exact_integer(number).is_some(),
        Value::Array(items) => items.iter().all(has_only_exact_integers),
        Value::Object(members) => members.values().all(has_only_exact_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Bound of a decimal's magnitude, exclusive: 10^11. Below it a float has room for four decimal
/// places.
pub const DECIMAL_END: f64 = 1e11;

/// `number` as a plain decimal without an exponent: `0.25`, `-3`. `None` if it has more than four
/// decimal places or its magnitude is not below 10^11: from there on two decimals may be the same
/// float, and the value decided on might not be the value used.
#[must_use]
pub fn decimal(number: &Number) -> Option<String> {
    let float = number.as_f64().filter(|float| float.abs() < DECIMAL_END)?;
    // Drops the sign: `-0.0` is 0.
    let text = if float == 0.0 { "0".to_owned() } else { float.to_string() };
    let places = text.split_once('.').map_or(0, |(_, places)| places.len());
    (places <= 4).then_some(text)
}

/// Whether every number in `value` is an exact integer or a [`decimal`].
#[must_use]
pub fn has_only_exact_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => exact_integer(number).is_some() || decimal(number).is_some(),
        Value::Array(items) => items.iter().all(has_only_exact_numbers),
        Value::Object(members) => members.values().all(has_only_exact_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

fn exact_integer(number: &Number) -> Option<i64> {
    number.as_i64().filter(|n| n.unsigned_abs() <= INTEGER_MAX.unsigned_abs())
}

fn write_canonical(value: &Value, out: &mut String) -> Result<(), JsonError> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => {
            let exact = exact_integer(number).map(|exact| exact.to_string()).or_else(|| decimal(number));
            out.push_str(&exact.ok_or_else(|| {
                JsonError(format!(
                    "number `{number}` is not an exact integer or a decimal of at most four places"
                ))
            })?);
        }
        Value::String(text) => write_string(text, out)?,
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(item, out)?;
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            // For ASCII names, byte order is UTF-16 order.
            if sorted.iter().all(|(name, _)| name.is_ascii()) {
                sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            } else {
                sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            out.push('{');
            for (at, (name, member)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(name, out)?;
                out.push(':');
                write_canonical(member, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// Appends `text` to `out` as a canonical JSON string (RFC 8785 section 3.2.2.2).
pub fn write_string(text: &str, out: &mut String) -> Result<(), JsonError> {
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        // serde_json escapes exactly as RFC 8785 requires; the test against the vectors checks
        // this.
        out.push_str(&serde_json::to_string(text).map_err(|e| JsonError(e.to_string()))?);
    }
    Ok(())
}

/// Builds a [`Value`]; refuses duplicate keys and excessive nesting.
#[derive(Clone, Copy)]
struct Strict {
    depth_left: usize,
}

impl Strict {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.depth_left.checked_sub(1) {
            Some(depth_left) => Ok(Self { depth_left }),
            None => Err(E::custom("nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut out = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if out.contains_key(&name) {
                return Err(de::Error::custom(format_args!(
                    "duplicate key `{}`",
                    crate::types::text::visible_line(&name)
                )));
            }
            let member = members.next_value_seed(inner)?;
            out.insert(name, member);
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::{canonical, decimal, has_only_exact_integers, has_only_exact_numbers, parse_strict};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn strict_parsing_refuses_what_parsers_disagree_on() {
        let check = |text: &[u8], fits: bool| {
            assert_eq!(parse_strict(text, 3).is_ok(), fits, "{:?}", String::from_utf8_lossy(text))
        };
        check(br#"{"a":[1,{"b":2}]}"#, true);
        check(br#"{"a":1,"a":2}"#, false);
        check(br#"{"a":{"b":1,"b":2}}"#, false);
        check(br#"[[[1]]]"#, true);
        check(br#"[[[[1]]]]"#, false);
        check(b"{} {}", false);
        check(b"\"\xff\"", false);
        check(b"NaN", false);
        check(b"1e999", false);
        check(b"", false);
    }

    #[test]
    fn numbers_that_parsers_round_are_detected() {
        for (text, is_integer, exact) in [
            ("1", true, Some("1")),
            ("-9007199254740991", true, Some("-9007199254740991")),
            ("9007199254740992", false, None),
            ("9223372036854775808", false, None),
            ("1.0", false, Some("1")),
            ("-0.0", false, Some("0")),
            ("1e3", false, Some("1000")),
            ("0.1", false, Some("0.1")),
            ("-12345678901.1234", false, Some("-12345678901.1234")),
            ("0.00005", false, None),
            ("1e-7", false, None),
            ("0.30000000000000004", false, None),
            ("123456789012.5", false, None),
            ("1e11", false, None),
            ("{\"a\":[1,2.5]}", false, Some("{\"a\":[1,2.5]}")),
        ] {
            let value = parse_strict(text.as_bytes(), 9).expect("JSON");
            assert_eq!(has_only_exact_integers(&value), is_integer, "{text}");
            assert_eq!(has_only_exact_numbers(&value), exact.is_some(), "{text}");
            assert_eq!(canonical(&value).ok().as_deref(), exact, "{text}");
        }
    }

    #[test]
    fn canonical_sorts_by_utf16() {
        // U+10000 is one code point above U+FB33 but its first code unit is below it.
        let value = json!({"\u{fb33}": 1, "\u{10000}": 2, "b": [], "a": {"z": null, "y": "\u{1}\"/"}});
        assert_eq!(
            canonical(&value).expect("canonical"),
            "{\"a\":{\"y\":\"\\u0001\\\"/\",\"z\":null},\"b\":[],\"\u{10000}\":2,\"\u{fb33}\":1}"
        );
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-1_i64 << 53..1_i64 << 53).prop_map(|n| Value::from(n / 2)),
            ".*".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|m| Value::Object(m.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        /// Every decimal of four places maps to one float, and is printed with the same digits.
        #[test]
        fn a_decimal_comes_back_in_its_own_digits(units in -999_999_999_999_999_i64..=999_999_999_999_999) {
            let sign = if units < 0 { "-" } else { "" };
            let (whole, places) = (units.unsigned_abs() / 10_000, units.unsigned_abs() % 10_000);
            let plain = format!("{sign}{whole}.{places:04}");
            let read = parse_strict(plain.as_bytes(), 1).expect("JSON");
            let digits = plain.trim_end_matches('0').trim_end_matches('.');
            let digits = if matches!(digits, "-0" | "") { "0" } else { digits };
            prop_assert_eq!(decimal(read.as_number().expect("number")), Some(digits.to_owned()));
        }

        /// Canonical bytes parse to the same value, and are their own canonical form.
        #[test]
        fn canonical_is_a_fixed_point(value in values()) {
            let text = canonical(&value).expect("canonical");
            let back = parse_strict(text.as_bytes(), 64).expect("strict");
            prop_assert_eq!(&back, &value);
            prop_assert_eq!(canonical(&back).expect("canonical"), text);
        }
    }
}
