//! A credential that does not appear in debug output.

use super::digest::Digest;
use std::fmt;
use zeroize::Zeroizing;

/// A secret text: `Debug` does not print it, it cannot be cloned, and its memory is overwritten on
/// drop.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes `text` unchanged; `None` if it is empty.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Zeroizing::new(text)))
    }

    /// The secret itself, for the code that sends or compares it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Lets one process prove to another that both hold the same `value` without disclosing it: SHA-256
/// over `"par/same/1\0"`, the salt that one of them made, and the value.
#[must_use]
pub fn proof_of_same(salt: &[u8; 32], value: &[u8]) -> Digest {
    Digest::sha256_parts(&[b"par/same/1\0", salt, value])
}

/// The same proof for several values, in order: SHA-256 over the proof of each.
#[must_use]
pub fn proof_of_all(proofs: impl IntoIterator<Item = Digest>) -> Digest {
    let proofs: Vec<Digest> = proofs.into_iter().collect();
    let parts: Vec<&[u8]> = proofs.iter().map(|proof| proof.0.as_slice()).collect();
    Digest::sha256_parts(&parts)
}

#[cfg(test)]
mod tests {
    use super::{Secret, proof_of_all, proof_of_same};

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("sk-0123456789".to_owned()).expect("not empty");
        assert_eq!((format!("{secret:?}").as_str(), secret.expose()), ("…", "sk-0123456789"));
        assert!(Secret::new(String::new()).is_none());
    }

    #[test]
    fn only_the_same_values_have_the_same_proof() {
        let proof = |salt: u8, values: &[&str]| {
            proof_of_all(values.iter().map(|value| proof_of_same(&[salt; 32], value.as_bytes())))
        };
        let one = proof(1, &["ab", "c"]);
        assert_eq!(one, proof(1, &["ab", "c"]));
        for other in
            [proof(2, &["ab", "c"]), proof(1, &["a", "bc"]), proof(1, &["c", "ab"]), proof(1, &["ab"])]
        {
            assert_ne!(one, other);
        }
    }
}
