//! The text of a key: `par_<id>_<secret><crc>`.
//!
//! The id is 8 characters, public. The secret is 43 characters, 256 bits. The last 6 characters are
//! the CRC-32 (IEEE) of everything before them, in base 62 with leading zeros, so that a typo is
//! refused before any hashing and secret scanners can tell a key from noise. The alphabet is
//! `0-9A-Za-z`.

use crate::secrets::{Pattern, SecretRefused};
use crate::types::KeyId;
use std::fmt;
use zeroize::Zeroizing;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX: &str = "par_";
const SECRET_CHARS: usize = 43;
const CRC_CHARS: usize = 6;
const BODY_CHARS: usize = PREFIX.len() + KeyId::CHARS + 1 + SECRET_CHARS;

/// A new key. Its text is shown once, and is cleared from memory with this value.
pub struct MintedKey {
    key: KeyText,
    text: Zeroizing<String>,
}

impl MintedKey {
    /// A key of 256 random bits, with a random id.
    pub(super) fn mint() -> Result<Self, getrandom::Error> {
        let (id, secret) = (random_text(KeyId::CHARS)?, random_text(SECRET_CHARS)?);
        let body = Zeroizing::new(format!("{PREFIX}{}_{}", id.as_str(), secret.as_str()));
        let text = Zeroizing::new(format!("{}{}", body.as_str(), crc(&body)));
        // `parse` reads what `mint` writes: an unusable key is never handed out.
        let key = KeyText::parse(&text).ok_or(getrandom::Error::UNEXPECTED)?;
        Ok(Self { key, text })
    }

    /// The public part.
    #[must_use]
    pub fn id(&self) -> &KeyId {
        &self.key.id
    }

    /// The whole key, to show it once.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// This secret under another id, with a correct checksum.
    #[cfg(test)]
    pub(super) fn with_id(&self, id: &str) -> String {
        let body = format!("{PREFIX}{id}_{}", self.key.secret.as_str());
        format!("{body}{}", crc(&body))
    }

    pub(super) fn secret(&self) -> &Zeroizing<String> {
        &self.key.secret
    }
}

impl fmt::Debug for MintedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MintedKey({})", self.id())
    }
}

/// A presented key that is well formed and whose checksum matches; nothing else about it is known.
pub(super) struct KeyText {
    pub(super) id: KeyId,
    pub(super) secret: Zeroizing<String>,
}

impl KeyText {
    /// Parses a key; `None` if its form or its checksum is wrong.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (body, checksum) = text.split_at_checked(BODY_CHARS)?;
        if checksum != crc(body) {
            return None;
        }
        let (id, secret) = body.strip_prefix(PREFIX)?.split_at_checked(KeyId::CHARS)?;
        let secret = secret.strip_prefix('_')?;
        let fits = secret.len() == SECRET_CHARS && secret.bytes().all(|b| ALPHABET.contains(&b));
        fits.then_some(())?;
        Some(Self { id: KeyId::parse(id)?, secret: Zeroizing::new(secret.to_owned()) })
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyText({})", self.id)
    }
}

/// The pattern that finds keys in text by form and checksum, so that pasted keys are replaced.
pub fn key_pattern() -> Result<Pattern, SecretRefused> {
    let is_key = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok_and(|text| KeyText::parse(text).is_some());
    let secret = SECRET_CHARS + CRC_CHARS;
    let id = format!("{PREFIX}[0-9A-Za-z]{{{}}}_", KeyId::CHARS);
    Pattern::checked("par-key", &format!("{id}[0-9A-Za-z]{{{secret}}}"), is_key, &format!("{id}[0-9A-Za-z]+"))
}

fn crc(body: &str) -> String {
    let mut left = crc32fast::hash(body.as_bytes());
    let mut digits = [b'0'; CRC_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = letter(left % 62);
        left /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// `chars` uniformly random characters: bytes beyond the last multiple of 62 are drawn again.
fn random_text(chars: usize) -> Result<Zeroizing<String>, getrandom::Error> {
    let mut text = Zeroizing::new(String::with_capacity(chars));
    let mut bytes = Zeroizing::new([0_u8; 64]);
    while text.len() < chars {
        getrandom::fill(bytes.as_mut())?;
        let wanted = chars - text.len();
        let fair = bytes.iter().filter(|byte| **byte < 248);
        text.extend(fair.take(wanted).map(|byte| char::from(letter(u32::from(*byte) % 62))));
    }
    Ok(text)
}

fn letter(digit: u32) -> u8 {
    usize::try_from(digit).ok().and_then(|at| ALPHABET.get(at)).copied().unwrap_or(b'0')
}

#[cfg(test)]
mod tests {
    use super::{KeyText, MintedKey, key_pattern};
    use crate::secrets::{Finder, SecretCounts};
    use proptest::prelude::*;

    #[test]
    fn other_texts_are_refused() {
        let key = MintedKey::mint().expect("randomness");
        let text = key.expose();
        let (headless, longer) = (text.replacen('p', "", 1), format!("{text}0"));
        let tailless: String = text.chars().take(61).collect();
        for bad in ["", "par_", "hello", &headless, &tailless, &longer] {
            assert!(KeyText::parse(bad).is_none(), "{bad}");
        }
        assert!(KeyText::parse(&text.to_uppercase()).is_none());
        assert!(!format!("{key:?}").contains(key.secret().as_str()), "the secret is not shown");
    }

    #[test]
    fn a_key_in_a_text_is_replaced_and_what_looks_like_one_stays() {
        let finder = Finder::new(vec![7; 32].into(), Vec::new(), vec![key_pattern().expect("pattern")])
            .expect("finder");
        let key = MintedKey::mint().expect("randomness");
        let text = format!("x par_{}_zz{}zz", key.id(), key.expose());
        let mut found = SecretCounts::default();
        let out = finder.replaced(text.as_bytes(), false, &mut found).expect("found");
        let out = String::from_utf8(out).expect("UTF-8");
        assert!(out.starts_with(&format!("x par_{}_zz[secret:par-key:", key.id())), "{out}");
        assert!(!out.contains(key.secret().as_str()) && out.ends_with("]zz"), "{out}");
        let typo =
            key.expose().replace(key.secret().as_str(), &key.secret().chars().rev().collect::<String>());
        assert_eq!(finder.replaced(typo.as_bytes(), false, &mut found), None);
        let (half, _) = key.expose().split_at(40);
        let held = finder.replaced(half.as_bytes(), true, &mut found).expect("held back");
        assert_eq!(held, b"[secret:par-key:cut]");
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(64))]

        /// A minted key parses to the same id and secret.
        #[test]
        fn text_round_trips(_ in 0..1) {
            let key = MintedKey::mint().expect("randomness");
            let back = KeyText::parse(key.expose()).expect("its own form");
            prop_assert_eq!(&back.id, key.id());
            prop_assert_eq!(back.secret.as_str(), key.secret().as_str());
            prop_assert_eq!(key.expose().len(), 62);
        }

        /// Every change of a single character is refused, at any position and with any replacement.
        #[test]
        fn one_wrong_character_is_refused(other in any::<char>()) {
            let key = MintedKey::mint().expect("randomness");
            for at in 0..key.expose().len() {
                let mut text: Vec<char> = key.expose().chars().collect();
                if text[at] == other { continue; }
                text[at] = other;
                let text: String = text.into_iter().collect();
                prop_assert!(KeyText::parse(&text).is_none(), "{}", text);
            }
        }

        /// No input makes the parser panic.
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            prop_assert!(KeyText::parse(&text).is_none());
        }
    }
}
