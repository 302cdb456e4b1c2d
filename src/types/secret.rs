//! A credential that is held but not shown.

use super::Digest;
use std::fmt;
use zeroize::Zeroizing;

/// A secret text: not printed by `Debug`, not cloned, overwritten in memory when dropped.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes `text` as it is; `None` where it is empty.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Zeroizing::new(text)))
    }

    /// The secret itself, for the one place that sends or compares it.
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

/// By what two processes find out that they hold the same values, without telling any: SHA-256 over
/// `"par/same/1\0"`, the salt of 32 bytes that one of them made, and the SHA-256 of each value in turn.
#[must_use]
pub fn proof_of_same<'a>(salt: &[u8; 32], values: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let digests: Vec<Digest> = values.into_iter().map(Digest::of).collect();
    let mut parts: Vec<&[u8]> = vec![b"par/same/1\0", salt];
    parts.extend(digests.iter().map(|digest| digest.0.as_slice()));
    Digest::of_parts(&parts)
}

#[cfg(test)]
mod tests {
    use super::{Secret, proof_of_same};

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("sk-0123456789".to_owned()).expect("not empty");
        assert_eq!((format!("{secret:?}").as_str(), secret.expose()), ("…", "sk-0123456789"));
        assert!(Secret::new(String::new()).is_none());
    }

    #[test]
    fn only_the_same_values_have_the_same_proof() {
        let proof = |salt: u8, values: &[&str]| {
            proof_of_same(&[salt; 32], values.iter().map(|value| value.as_bytes()))
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
