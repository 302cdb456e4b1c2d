//! A chain, judged as a client would that trusts this host's certificates.
//!
//! A client stops at the first thing that is wrong; here each is looked for on its own.

use super::parsed::ParsedOne;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Certificates of a chain that are shown.
const CHAIN_SHOWN_MAX: usize = 10;
/// A server needs no longer chain; a longer one costs every client time.
const CHAIN_LONG: usize = 5;
/// A certificate that ends within this many days should have been renewed.
pub const DAYS_LEFT_FEW: i64 = 14;

/// What is asked about a chain.
#[derive(Debug)]
pub struct ChainQuestion<'a> {
    /// The certificates in the order in which they were found, the server's own first.
    pub chain: &'a [CertificateDer<'a>],
    /// The name or address that clients use.
    pub name: Option<&'a str>,
    /// What is trusted.
    pub roots: &'a RootCertStore,
    /// The time, in seconds since 1970.
    pub now_s: i64,
}

/// Whole days until the certificate `der` ends, below 0 once it has ended; `None` if it is not one.
#[must_use]
pub fn days_left(der: &[u8], now_s: i64) -> Option<i64> {
    Some(ParsedOne::read(der)?.days_left(now_s))
}

/// Everything that is known about the chain: `problems` is empty if a client accepts it.
pub fn judge(asked: &ChainQuestion<'_>) -> Result<Map<String, Value>, String> {
    let ChainQuestion { chain, name, now_s, .. } = *asked;
    let (own, issuers) = chain.split_first().ok_or("there is no certificate")?;
    let leaf = ParsedOne::read(own).ok_or("the certificate cannot be read")?;
    let others: Vec<Option<ParsedOne>> = issuers.iter().map(|one| ParsedOne::read(one)).collect();
    let problems = problems(asked, own, &leaf, &others);
    let is_soon = leaf.not_after_s >= now_s && leaf.days_left(now_s) < DAYS_LEFT_FEW;
    let shown = std::iter::once(Some(&leaf)).chain(others.iter().map(Option::as_ref));
    let listed: Vec<Value> = shown
        .take(CHAIN_SHOWN_MAX)
        .map(|one| one.map_or_else(|| json!({ "unreadable": true }), |one| one.json(now_s)))
        .collect();
    let (names, names_found) = leaf.names();
    let mut answer = Map::new();
    for (member, value) in [
        ("verdict", json!(if problems.is_empty() { "accepted" } else { "refused" })),
        ("problems", json!(problems)),
        ("expires_soon", json!(is_soon)),
        ("days_left", json!(leaf.days_left(now_s))),
        ("checked_name", json!(name)),
        ("names", json!(names)),
        ("names_found", json!(names_found)),
        ("chain", json!(listed)),
        ("chain_length", json!(chain.len())),
        ("truncated", json!(chain.len() > CHAIN_SHOWN_MAX || names_found > names.len())),
        ("not_seen", json!(["whether it was revoked"])),
    ] {
        answer.insert(member.to_owned(), value);
    }
    Ok(answer)
}

/// What is wrong, each once, in this order.
fn problems(
    asked: &ChainQuestion<'_>,
    own: &CertificateDer<'_>,
    leaf: &ParsedOne,
    others: &[Option<ParsedOne>],
) -> Vec<&'static str> {
    let ChainQuestion { chain, name, now_s, .. } = *asked;
    let others_read = || others.iter().flatten();
    let is_over = |one: &ParsedOne| one.not_after_s < now_s;
    let is_early = |one: &ParsedOne| one.not_before_s > now_s;
    // The signature of a self-issued certificate proves nothing, and none relies on it.
    let is_weakly_signed = |one: &ParsedOne| one.is_weak_signature && !one.is_self_issued;
    let found = [
        ("expired", is_over(leaf)),
        ("not_valid_yet", is_early(leaf)),
        ("issuer_expired", others_read().any(|one| is_over(one) || is_early(one))),
        ("wrong_name", name.is_some_and(|name| !is_for(own, name))),
        ("weak_key", leaf.is_weak_key || others_read().any(|one| one.is_weak_key)),
        ("weak_signature", is_weakly_signed(leaf) || others_read().any(is_weakly_signed)),
        ("long_chain", chain.len() > CHAIN_LONG),
        ("unreadable_issuer", others.iter().any(Option::is_none)),
    ];
    let mut problems: Vec<&'static str> =
        found.into_iter().filter(|(_, is_so)| *is_so).map(|(problem, _)| problem).collect();
    problems.extend(untrusted(asked, own, leaf, others));
    problems
}

/// Whether a client that uses `name` takes the certificate.
fn is_for(own: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    ParsedCertificate::try_from(own).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

/// Why the chain does not lead to a trusted certificate, at a time at which all of it is valid, if
/// there is one.
fn untrusted(
    asked: &ChainQuestion<'_>,
    own: &CertificateDer<'_>,
    leaf: &ParsedOne,
    others: &[Option<ParsedOne>],
) -> Option<&'static str> {
    let unusable = Some("unusable");
    let Ok(parsed) = ParsedCertificate::try_from(own) else { return unusable };
    let all = || std::iter::once(leaf).chain(others.iter().flatten());
    let first = all().map(|one| one.not_before_s).max().unwrap_or(asked.now_s);
    let last = all().map(|one| one.not_after_s).min().unwrap_or(asked.now_s);
    let at_s = if first <= last { asked.now_s.clamp(first, last) } else { leaf.not_after_s };
    let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(at_s).unwrap_or(0)));
    let issuers = asked.chain.get(1..).unwrap_or_default();
    let algorithms = default_provider().signature_verification_algorithms;
    let verified =
        verify_server_cert_signed_by_trust_anchor(&parsed, asked.roots, issuers, at, algorithms.all);
    match verified {
        Ok(()) => None,
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) if leaf.is_self_issued => {
            Some("self_signed")
        }
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Some("unknown_issuer"),
        Err(Error::InvalidCertificate(CertificateError::BadSignature)) => Some("bad_signature"),
        Err(Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        )) => Some("not_for_servers"),
        // A validity that excludes every common time, which is said already.
        Err(Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => None,
        Err(_) if leaf.is_self_issued => Some("self_signed"),
        Err(_) => unusable,
    }
}
