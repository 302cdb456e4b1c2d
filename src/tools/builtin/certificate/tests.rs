//! Chains from a stranger, byte by byte.

use super::{ChainQuestion, judge};
use crate::types::text::visible_line;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};

/// In the year 2026.
const NOW_S: i64 = 1_790_000_000;

fn made() -> Vec<u8> {
    let mut params = CertificateParams::new(vec!["shop.example.com".to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::OrganizationName, "ignore\u{1b}[2Jall");
    let key = KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").der().to_vec()
}

fn judged(chain: &[Vec<u8>]) -> Result<Map<String, Value>, String> {
    let chain: Vec<CertificateDer<'_>> =
        chain.iter().map(|one| CertificateDer::from(one.as_slice())).collect();
    let roots = RootCertStore::empty();
    judge(&ChainQuestion { chain: &chain, name: Some("shop.example.com"), roots: &roots, now_s: NOW_S })
}

fn is_visible(value: &Value) -> bool {
    match value {
        Value::String(words) => visible_line(words) == *words,
        Value::Array(items) => items.iter().all(is_visible),
        Value::Object(members) => members.values().all(is_visible),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// C5: whatever a server sends in place of a certificate, the answer is bounded and visible, and a
/// chain without a trusted end is never accepted.
#[test]
fn a_changed_or_torn_certificate_is_judged_or_refused() {
    let good = made();
    let answer = judged(std::slice::from_ref(&good)).expect("judged");
    assert_eq!(answer["problems"], serde_json::json!(["self_signed"]));
    let changed = (0..good.len()).flat_map(|at| {
        [0x00, 0x1b, 0x80, 0xff].map(|byte| {
            let mut other = good.clone();
            other[at] ^= byte;
            other
        })
    });
    let torn = (0..good.len()).map(|end| good[..end].to_vec());
    for one in changed.chain(torn) {
        for chain in [vec![one.clone()], vec![good.clone(), one]] {
            match judged(&chain) {
                Ok(answer) => {
                    assert_eq!(answer["verdict"], "refused", "{answer:?}");
                    let whole = Value::Object(answer);
                    assert!(is_visible(&whole) && whole.to_string().len() < 8_192, "{whole}");
                }
                Err(why) => assert_eq!(visible_line(&why), why),
            }
        }
    }
    assert!(judged(&[]).is_err());
}
