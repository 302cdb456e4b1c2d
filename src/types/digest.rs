//! SHA-256 digests, written as 64 lower-case hexadecimal digits.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};
use std::{fmt, io};

/// A SHA-256 value (FIPS 180-4), 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Hashes `bytes`.
    #[must_use]
    pub fn sha256(bytes: &[u8]) -> Self {
        Self::sha256_parts(&[bytes])
    }

    /// Hashes the concatenation of `parts`.
    ///
    /// The caller must make the boundaries unambiguous: every part except the last has a fixed
    /// length.
    #[must_use]
    pub fn sha256_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Hashes everything that `from` gives; more than `bytes_max` bytes are an error.
    pub fn sha256_read(mut from: impl io::Read, bytes_max: u64) -> io::Result<Self> {
        let (mut hash, mut left) = (Sha256::new(), bytes_max);
        let mut buffer = vec![0_u8; 64 << 10];
        loop {
            let read = from.read(&mut buffer)?;
            if read == 0 {
                return Ok(Self(hash.finalize().into()));
            }
            let over = || io::Error::other(format!("is larger than {bytes_max} bytes"));
            left = left.checked_sub(read as u64).ok_or_else(over)?;
            hash.update(buffer.get(..read).unwrap_or_default());
        }
    }

    /// Parses 64 lower-case hexadecimal digits; returns `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut out = [0_u8; 32];
        if text.len() != 64 {
            return None;
        }
        // `nibble` returns 16 or more for anything but a digit, so one check after the loop is
        // enough.
        let mut seen = 0;
        for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let [high, low] = pair else { return None };
            let (high, low) = (nibble(*high), nibble(*low));
            seen |= high | low;
            *byte = high << 4 | low;
        }
        (seen < 16).then_some(Self(out))
    }

    /// The 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// The first eight hexadecimal digits, for display.
    #[must_use]
    pub fn short(&self) -> String {
        self.0.first_chunk::<4>().map(|head| hex(head)).unwrap_or_default()
    }
}

/// Serializes as 64 hexadecimal digits.
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::from_hex(&text)
            .ok_or_else(|| de::Error::custom("expected a digest of 64 lower-case hexadecimal digits"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// Encodes `bytes` in lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The value of a hexadecimal digit, or a number above 15 for any other byte.
fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => u8::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn hex_round_trips_and_refuses_the_rest() {
        let digest = Digest::sha256(b"abc");
        assert_eq!(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Digest::from_hex(&digest.hex()), Some(digest));
        assert_eq!(Digest::from_hex(&digest.hex().to_uppercase()), None);
        assert_eq!(Digest::from_hex("ba"), None);
    }
}
