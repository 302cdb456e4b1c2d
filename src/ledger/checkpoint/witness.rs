//! Witnesses: requests, answers and timestamped signatures, as specified by C2SP tlog-witness and
//! tlog-cosignature (`cosignature/v1`, Ed25519). Pure: no disk, no clock, no network.

use super::error::CheckpointError;
use super::note::{Note, is_name, signature};
use crate::types::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use std::fmt;

/// The algorithm byte of a timestamped Ed25519 cosignature in a verifier key.
const COSIGNATURE: u8 = 4;

/// Maximum number of hashes in a consistency proof (tlog-witness).
const PROOF_LINES_MAX: usize = 63;

/// Maximum length of an answer, in bytes. A longer one is not accepted.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// A witness's public key with its name: `name+hash+base64(0x04 ‖ public key)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessKey {
    name: String,
    key: VerifyingKey,
}

impl WitnessKey {
    /// Parses the text form. The hash must match the name and the key.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '+');
        let (name, _, encoded) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = STANDARD.decode(encoded).ok()?;
        let [COSIGNATURE, public @ ..] = bytes.as_slice() else { return None };
        let key = VerifyingKey::from_bytes(public.try_into().ok()?).ok()?;
        let read = Self { name: name.to_owned(), key };
        (is_name(name) && read.to_string() == text).then_some(read)
    }

    /// The first four bytes of SHA-256(name ‖ newline ‖ `0x04` ‖ public key).
    fn hash(&self) -> [u8; 4] {
        let digest =
            Digest::sha256_parts(&[self.name.as_bytes(), b"\n", &[COSIGNATURE], self.key.as_bytes()]);
        digest.0.first_chunk().copied().unwrap_or_default()
    }

    /// Finds the witness's signature of `note` in `lines`, and returns its time in seconds since
    /// 1970 and its line. Lines of other signers are ignored; a line of this witness that does not
    /// verify is an error.
    pub fn cosigned(&self, note: &Note, lines: &str) -> Result<Option<(u64, String)>, CheckpointError> {
        let mut found = None;
        for line in lines.split_terminator('\n') {
            let (name, bytes) = signature(line).ok_or(CheckpointError::NoSignatureLine)?;
            let Some((hash, signed)) = bytes.split_first_chunk::<4>() else { continue };
            if name != self.name || *hash != self.hash() {
                continue;
            }
            let time =
                self.time(note, signed).ok_or_else(|| CheckpointError::Cosignature(self.name.clone()))?;
            found.get_or_insert((time, format!("{line}\n")));
        }
        Ok(found)
    }

    fn time(&self, note: &Note, signed: &[u8]) -> Option<u64> {
        let (time, signature) = signed.split_first_chunk::<8>()?;
        let time = u64::from_be_bytes(*time);
        let message = format!("cosignature/v1\ntime {time}\n{}", note.text());
        let signature = Signature::from_slice(signature).ok()?;
        self.key.verify_strict(message.as_bytes(), &signature).ok()?;
        i64::try_from(time).is_ok().then_some(time)
    }
}

impl fmt::Display for WitnessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<u8> = std::iter::once(COSIGNATURE).chain(*self.key.as_bytes()).collect();
        write!(f, "{}+{}+{}", self.name, crate::types::digest::hex(&self.hash()), STANDARD.encode(key))
    }
}

/// The body of `add-checkpoint`: the size that the witness has seen, the proof that `note` extends
/// it, and `note`.
pub(in crate::ledger) fn request(old: u64, proof: &[Digest], note: &Note) -> Result<String, CheckpointError> {
    if proof.len() > PROOF_LINES_MAX {
        return Err(CheckpointError::ProofLength(proof.len()));
    }
    let proof: String = proof.iter().map(|hash| STANDARD.encode(hash.0) + "\n").collect();
    Ok(format!("old {old}\n{proof}\n{note}"))
}

/// The answer of a witness to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ledger) enum WitnessAnswer {
    /// It signed the checkpoint: its line and the time.
    Cosigned(String, u64),
    /// It has seen another size than the one that the proof begins with.
    Seen(u64),
    /// It holds another history, or its signature is not of this checkpoint.
    Conflict(String),
    /// It did not sign, for a reason that says nothing about the log.
    Refused(String),
}

impl WitnessAnswer {
    /// Parses the answer to `note`.
    pub(in crate::ledger) fn read(status: u16, body: &[u8], note: &Note, key: &WitnessKey) -> Self {
        let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= ANSWER_BYTES_MAX);
        match (status, text) {
            (200, None) => Self::Conflict("the answer is not a signature line".to_owned()),
            (200, Some(lines)) => match key.cosigned(note, lines) {
                Ok(Some((time, line))) => Self::Cosigned(line, time),
                Ok(None) => Self::Conflict(format!("`{}` did not sign", key.name)),
                Err(what) => Self::Conflict(what.to_string()),
            },
            (409, text) => match text.and_then(size) {
                Some(size) => Self::Seen(size),
                None => Self::Conflict("it has seen another root for the same number of entries".to_owned()),
            },
            (422, _) => Self::Conflict("the log does not extend the tree that it has seen".to_owned()),
            (403, _) => Self::Refused("it does not know the log's key (403)".to_owned()),
            (404, _) => Self::Refused("it does not know the log (404)".to_owned()),
            (status, _) => Self::Refused(format!("it answered {status}")),
        }
    }
}

/// A decimal size followed by a newline, with no other spelling accepted.
fn size(text: &str) -> Option<u64> {
    let size: u64 = text.trim_end_matches('\n').parse().ok()?;
    (text == format!("{size}\n")).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::{COSIGNATURE, WitnessAnswer, WitnessKey, request};
    use crate::ledger::Head;
    use crate::ledger::checkpoint::{Checkpoint, Note};
    use crate::types::{Digest, digest};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use ed25519_dalek::{Signer as _, SigningKey};

    const NAME: &str = "witness.example/w1";

    fn key() -> (SigningKey, WitnessKey) {
        let secret = SigningKey::from_bytes(&[5; 32]);
        (secret.clone(), WitnessKey { name: NAME.to_owned(), key: secret.verifying_key() })
    }

    fn note(size: u64) -> Note {
        let head = Head { size, root: Digest::sha256(b"root") };
        let text = Checkpoint { origin: "par/00".to_owned(), head, extensions: Vec::new() }.text();
        Note::sign(text, &[("par/00", &SigningKey::from_bytes(&[1; 32]))])
    }

    fn line(note: &Note, time: u64) -> String {
        let (secret, key) = key();
        let message = format!("cosignature/v1\ntime {time}\n{}", note.text());
        let signature = secret.sign(message.as_bytes()).to_bytes();
        let bytes = [key.hash().as_slice(), &time.to_be_bytes(), &signature].concat();
        format!("\u{2014} {NAME} {}\n", STANDARD.encode(bytes))
    }

    #[test]
    fn only_the_witness_itself_signs_exactly_this_checkpoint() {
        let (_, key) = key();
        let (now, later) = (note(7), note(8));
        let other = "\u{2014} witness.example/w2 AAAAAAAAAAAAAAAA\n";
        let good = format!("{other}{}", line(&now, 1_700_000_000));
        let said = |body: &str| WitnessAnswer::read(200, body.as_bytes(), &now, &key);
        assert_eq!(said(&good), WitnessAnswer::Cosigned(line(&now, 1_700_000_000), 1_700_000_000));
        for bad in [other, "", "no line", &line(&later, 1_700_000_000), &line(&now, u64::MAX)] {
            assert!(matches!(said(bad), WitnessAnswer::Conflict(_)), "{bad}: {:?}", said(bad));
        }
        // The time is signed: no bit of it or of the signature can be changed.
        let (_, encoded) = good.trim_end().rsplit_once(' ').expect("a line");
        let bytes = STANDARD.decode(encoded).expect("base64");
        for bit in 4 * 8..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let changed = format!("\u{2014} {NAME} {}\n", STANDARD.encode(bytes));
            assert!(matches!(said(&changed), WitnessAnswer::Conflict(_)), "bit {bit}");
        }
    }

    #[test]
    fn answers_are_distinguished() {
        let (_, key) = key();
        let said = |status, body: &str| WitnessAnswer::read(status, body.as_bytes(), &note(7), &key);
        assert_eq!(said(409, "12\n"), WitnessAnswer::Seen(12));
        for body in ["12", "012\n", "+12\n", "", "12\n\n", "twelve\n"] {
            assert!(matches!(said(409, body), WitnessAnswer::Conflict(_)), "{body:?}");
        }
        assert!(matches!(said(422, ""), WitnessAnswer::Conflict(_)));
        for status in [302, 400, 403, 404, 500, 503] {
            assert!(matches!(said(status, "12\n"), WitnessAnswer::Refused(_)), "{status}");
        }
    }

    #[test]
    fn a_key_has_one_text_and_its_own_type() {
        let (secret, key) = key();
        assert_eq!(WitnessKey::parse(&key.to_string()), Some(key.clone()));
        let public = secret.verifying_key().to_bytes();
        let of_type = |kind: u8| {
            let hash = Digest::sha256_parts(&[NAME.as_bytes(), b"\n", &[kind], &public]);
            let bytes = [&[kind][..], &public].concat();
            format!("{NAME}+{}+{}", digest::hex(&hash.0[..4]), STANDARD.encode(bytes))
        };
        assert_eq!(of_type(COSIGNATURE), key.to_string());
        assert_eq!(WitnessKey::parse(&of_type(1)), None, "a key that signs notes is not a witness key");
        assert_eq!(WitnessKey::parse(&key.to_string().replace("w1", "w2")), None);
    }

    #[test]
    fn a_request_is_the_old_size_the_proof_and_the_note() {
        let asked = request(3, &[Digest([0; 32]), Digest([1; 32])], &note(7)).expect("request");
        let lines: Vec<&str> = asked.lines().collect();
        assert_eq!(lines[0], "old 3");
        assert_eq!((lines[1], lines[3]), (STANDARD.encode([0; 32]).as_str(), ""));
        assert_eq!((lines[4], lines[5]), ("par/00", "7"));
        assert!(asked.ends_with(&note(7).to_string()));
        assert!(request(3, &[Digest([0; 32]); 64], &note(7)).is_err());
    }
}
