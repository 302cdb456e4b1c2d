//! One certificate (RFC 5280).

use crate::types::clock::Wall;
use crate::types::{Digest, text};
use serde_json::{Value, json};
use std::net::IpAddr;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;

/// Names that are shown.
const NAMES_MAX: usize = 50;
/// Bytes that are shown of a name.
const NAME_BYTES_MAX: usize = 200;
/// Seconds of a day.
const DAY_S: i64 = 86_400;
/// Keys of RSA below this many bits are not accepted by clients.
const RSA_BITS_MIN: usize = 2_048;
/// The same for keys on elliptic curves.
const EC_BITS_MIN: usize = 224;

/// Signatures that can be forged: their digest is MD2, MD4, MD5 or SHA-1.
const WEAK_SIGNATURES: [&str; 9] = [
    "1.2.840.113549.1.1.2",
    "1.2.840.113549.1.1.3",
    "1.2.840.113549.1.1.4",
    "1.2.840.113549.1.1.5",
    "1.2.840.10040.4.3",
    "1.2.840.10045.4.1",
    "1.3.14.3.2.25",
    "1.3.14.3.2.29",
    "1.3.14.3.2.3",
];

/// What one certificate says.
#[derive(Debug)]
pub(super) struct ParsedOne {
    subject: String,
    issuer: String,
    pub(super) not_before_s: i64,
    pub(super) not_after_s: i64,
    names: Vec<String>,
    names_found: usize,
    key: &'static str,
    key_bits: usize,
    sha256: Digest,
    /// Whether its issuer has the name of its subject.
    pub(super) is_self_issued: bool,
    pub(super) is_weak_key: bool,
    pub(super) is_weak_signature: bool,
}

impl ParsedOne {
    /// `None` if it is not a certificate.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let (names, names_found) = names(&parsed);
        let public = parsed.public_key();
        let (key, key_bits) = match public.parsed() {
            Ok(PublicKey::RSA(rsa)) => ("rsa", bits(rsa.modulus)),
            Ok(PublicKey::EC(point)) => ("ec", point.key_size()),
            Ok(PublicKey::DSA(y)) => ("dsa", y.len().saturating_mul(8)),
            _ if public.algorithm.algorithm.to_id_string() == "1.3.101.112" => ("ed25519", 256),
            _ => ("other", 0),
        };
        let is_weak_key = match key {
            "rsa" | "dsa" => key_bits < RSA_BITS_MIN,
            "ec" => key_bits < EC_BITS_MIN,
            _ => false,
        };
        let signature = parsed.signature_algorithm.algorithm.to_id_string();
        Some(Self {
            subject: shown(&parsed.subject().to_string()),
            issuer: shown(&parsed.issuer().to_string()),
            not_before_s: parsed.validity().not_before.timestamp(),
            not_after_s: parsed.validity().not_after.timestamp(),
            names,
            names_found,
            key,
            key_bits,
            sha256: Digest::sha256(der),
            is_self_issued: parsed.subject().as_raw() == parsed.issuer().as_raw(),
            is_weak_key,
            is_weak_signature: WEAK_SIGNATURES.contains(&signature.as_str()),
        })
    }

    /// Whole days until it ends; below 0 once it has ended.
    pub(super) fn days_left(&self, now_s: i64) -> i64 {
        self.not_after_s.saturating_sub(now_s).div_euclid(DAY_S)
    }

    /// It as one of a chain.
    pub(super) fn json(&self, now_s: i64) -> Value {
        json!({
            "subject": self.subject,
            "issuer": self.issuer,
            "not_before": time(self.not_before_s),
            "not_after": time(self.not_after_s),
            "days_left": self.days_left(now_s),
            "key": self.key,
            "key_bits": self.key_bits,
            "sha256": self.sha256.hex(),
        })
    }

    /// The names that it is for, and how many there are.
    pub(super) fn names(&self) -> (&[String], usize) {
        (&self.names, self.names_found)
    }
}

/// The length of a number without its leading zeros, in bits.
fn bits(number: &[u8]) -> usize {
    let significant: &[u8] = match number.iter().position(|byte| *byte != 0) {
        Some(first) => number.get(first..).unwrap_or_default(),
        None => return 0,
    };
    let leading = significant.first().map_or(0, |byte| byte.leading_zeros() as usize);
    (significant.len() * 8).saturating_sub(leading)
}

/// The names of hosts and the addresses in its alternative names; clients look at no others.
fn names(parsed: &X509Certificate<'_>) -> (Vec<String>, usize) {
    let found = parsed.subject_alternative_name().ok().flatten();
    let all = found.iter().flat_map(|names| &names.value.general_names);
    let named: Vec<String> = all
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(shown(name)),
            GeneralName::IPAddress(bytes) => Some(address(bytes)),
            _ => None,
        })
        .collect();
    let count = named.len();
    (named.into_iter().take(NAMES_MAX).collect(), count)
}

fn address(bytes: &[u8]) -> String {
    let ip = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    let ip = ip.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok());
    ip.map_or_else(|| "not an address".to_owned(), |ip| ip.to_string())
}

fn shown(name: &str) -> String {
    text::visible_line(text::prefix(name, NAME_BYTES_MAX))
}

/// A time as RFC 3339; times outside its years are shown as its first or last.
fn time(seconds: i64) -> String {
    let us = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000);
    Wall(us.min(LAST_US)).rfc3339()
}

/// The end of the year 9999, in microseconds since 1970.
const LAST_US: u64 = 253_402_300_799_000_000;
