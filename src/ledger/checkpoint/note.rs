//! Signed notes, verifier keys and checkpoints, as specified by C2SP signed-note and
//! tlog-checkpoint, with Ed25519 (RFC 8032) as the only algorithm. Pure: no disk, no clock.

use super::error::CheckpointError;
use crate::ledger::tree::Head;
use crate::types::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use std::fmt;

/// Maximum length of a note, in bytes. A longer one is refused.
const NOTE_BYTES_MAX: usize = 64 << 10;

/// The algorithm byte of Ed25519 in a verifier key.
const ED25519: u8 = 1;

/// The prefix of each signature line: an em dash and a space.
const SIGNED: &str = "\u{2014} ";

/// A public key with the name that it signs with: `name+hash+base64(0x01 ‖ public key)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    key: VerifyingKey,
}

impl VerifierKey {
    /// The public half of `key`, with `name`.
    #[must_use]
    pub fn new(name: String, key: &SigningKey) -> Self {
        Self { name, key: key.verifying_key() }
    }

    /// Parses the text form. The hash must match the name and the key.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '+');
        let (name, _, encoded) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = STANDARD.decode(encoded).ok()?;
        let [ED25519, public @ ..] = bytes.as_slice() else { return None };
        let key = VerifyingKey::from_bytes(public.try_into().ok()?).ok()?;
        let read = Self { name: name.to_owned(), key };
        (is_name(name) && read.to_string() == text).then_some(read)
    }

    /// The name that the key signs with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The 32 bytes of the public key.
    #[must_use]
    pub fn public(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Key hash of a signed note: the first 4 bytes of SHA-256(name ‖ newline ‖ algorithm ‖ key).
    fn hash(&self) -> [u8; 4] {
        let digest = Digest::sha256_parts(&[self.name.as_bytes(), b"\n", &[ED25519], self.public()]);
        digest.0.first_chunk().copied().unwrap_or_default()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<u8> = std::iter::once(ED25519).chain(*self.public()).collect();
        write!(f, "{}+{}+{}", self.name, crate::types::digest::hex(&self.hash()), STANDARD.encode(key))
    }
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c == '+' || c.is_whitespace() || c.is_control())
}

/// A text and its signatures, as they were parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    text: String,
    /// Name, and key hash ‖ signature.
    signatures: Vec<(String, Vec<u8>)>,
}

impl Note {
    /// Parses a note: a text that ends in a newline, an empty line, and signature lines. Each note
    /// has only one valid form.
    pub fn parse(note: &str) -> Result<Self, CheckpointError> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(CheckpointError::TooLong(NOTE_BYTES_MAX));
        }
        if note.contains(|c: char| c.is_control() && c != '\n') {
            return Err(CheckpointError::ControlCharacter);
        }
        let (text, signed) = note.rsplit_once("\n\n").ok_or(CheckpointError::Unsigned)?;
        let signatures = signed.split_terminator('\n').map(signature).collect::<Option<Vec<_>>>();
        let read = Self { text: format!("{text}\n"), signatures: signatures.unwrap_or_default() };
        if read.signatures.is_empty() || read.to_string() != note {
            return Err(CheckpointError::SignatureLines);
        }
        Ok(read)
    }

    /// The last checkpoint's note in a text that may hold several, with empty lines between them,
    /// and other lines. If no note is found, reads one from the last log line that holds one
    /// (`note=…`, with its newlines written as `\\n`).
    #[must_use]
    pub fn last(text: &str) -> Option<Self> {
        let signed = format!("\n\n{SIGNED}");
        let mut before = text;
        while let Some(at) = before.rfind(&signed) {
            let (head, rest) = (before.get(..at)?, text.get(at + 2..)?);
            let lines = rest.split_inclusive('\n').take_while(|line| line.starts_with(SIGNED));
            let start = head.rfind("\n\n").map_or(0, |start| start + 2);
            let end = at + 2 + lines.map(str::len).sum::<usize>();
            let note = text.get(start..end).and_then(|note| Self::parse(note.trim_start_matches('\n')).ok());
            if let Some(note) = note.filter(|note| Checkpoint::parse(note.text()).is_ok()) {
                return Some(note);
            }
            before = head;
        }
        // A line without a checkpoint hides none that was logged before it.
        text.lines().rev().find_map(|line| {
            let escaped = line.rsplit_once("note=").map(|(_, note)| note)?;
            let end = escaped.rfind("\\n").map(|end| end + 2)?;
            let note = Self::parse(&escaped.get(..end)?.replace("\\n", "\n")).ok()?;
            Checkpoint::parse(note.text()).is_ok().then_some(note)
        })
    }

    /// Signs `text`, which must end in a newline, with each key and its name.
    #[must_use]
    pub fn sign(text: String, keys: &[(&str, &SigningKey)]) -> Self {
        let sign = |(name, key): &(&str, &SigningKey)| {
            let verifier = VerifierKey::new((*name).to_owned(), key);
            let signature = key.sign(text.as_bytes()).to_bytes();
            (verifier.name.clone(), [verifier.hash().as_slice(), &signature].concat())
        };
        let signatures = keys.iter().map(sign).collect();
        Self { text, signatures }
    }

    /// The signed text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names on the signature lines, whether or not they verify.
    pub fn signers(&self) -> impl Iterator<Item = &str> {
        self.signatures.iter().map(|(name, _)| name.as_str())
    }

    /// Whether `key` signed the note. A line with its name and hash that does not verify makes this
    /// false, whatever other lines there are.
    #[must_use]
    pub fn is_signed_by(&self, key: &VerifierKey) -> bool {
        let hash = key.hash();
        let mut of_key = self.signatures.iter().filter_map(|(name, bytes)| {
            let (start, signature) = bytes.split_first_chunk::<4>()?;
            (*name == key.name && *start == hash).then_some(signature)
        });
        let verifies = |signature: &[u8]| {
            Signature::from_slice(signature)
                .is_ok_and(|s| key.key.verify_strict(self.text.as_bytes(), &s).is_ok())
        };
        of_key.next().is_some_and(verifies) && of_key.all(verifies)
    }
}

/// Parses a signature line into its name and its key hash ‖ signature.
pub(in crate::ledger) fn signature(line: &str) -> Option<(String, Vec<u8>)> {
    let (name, encoded) = line.strip_prefix(SIGNED)?.split_once(' ')?;
    let bytes = STANDARD.decode(encoded).ok()?;
    (is_name(name) && bytes.len() > 4).then(|| (name.to_owned(), bytes))
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures
            .iter()
            .try_for_each(|(name, bytes)| writeln!(f, "{SIGNED}{name} {}", STANDARD.encode(bytes)))
    }
}

/// The content of a checkpoint: the root over the first entries of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's name: `par/` and the log's id.
    pub origin: String,
    /// Number of entries, and the root over them.
    pub head: Head,
    /// Extension lines.
    pub extensions: Vec<String>,
}

impl Checkpoint {
    /// The text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        let more: String = self.extensions.iter().map(|line| format!("{line}\n")).collect();
        format!("{}\n{}\n{}\n{more}", self.origin, self.head.size, STANDARD.encode(self.head.root.0))
    }

    /// Parses the text of a note.
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        let mut lines = text.split_terminator('\n').map(str::to_owned);
        let read = (|| {
            let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
            let root = Digest(STANDARD.decode(root).ok()?.try_into().ok()?);
            let head = Head { size: size.parse().ok()?, root };
            Some(Self { origin, head, extensions: lines.collect() })
        })();
        // Formatting must return the same text, which excludes signs, leading zeros and empty
        // lines.
        let is_whole = |read: &Self| !read.origin.is_empty() && !read.extensions.iter().any(String::is_empty);
        read.filter(|read| read.text() == text && is_whole(read)).ok_or(CheckpointError::NoCheckpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::{Checkpoint, Note, VerifierKey};
    use crate::ledger::Head;
    use crate::types::Digest;
    use ed25519_dalek::SigningKey;

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_bytes(&[byte; 32])
    }

    fn checkpoint() -> Checkpoint {
        let head = Head { size: 1_234, root: Digest::sha256(b"root") };
        Checkpoint { origin: "par/00".to_owned(), head, extensions: vec!["successor x".to_owned()] }
    }

    #[test]
    fn a_checkpoint_reads_back_with_its_signers() {
        let (log, epoch) = (key(1), key(2));
        let note = Note::sign(checkpoint().text(), &[("par/00", &log), ("par/00/epoch/1", &epoch)]);
        let read = Note::parse(&note.to_string()).expect("note");
        assert_eq!(read, note);
        assert_eq!(Checkpoint::parse(read.text()).expect("checkpoint"), checkpoint());
        let of = |name: &str, key| VerifierKey::new(name.to_owned(), key);
        assert!(read.is_signed_by(&of("par/00", &log)));
        assert!(read.is_signed_by(&of("par/00/epoch/1", &epoch)));
        for other in [of("par/00", &epoch), of("par/01", &log), of("par/00/epoch/2", &epoch)] {
            assert!(!read.is_signed_by(&other), "{other}");
        }
        let text = of("par/00", &log).to_string();
        assert_eq!(VerifierKey::parse(&text), Some(of("par/00", &log)));
    }

    /// Every changed bit of a note or a verifier key is detected.
    #[test]
    fn every_flipped_bit_is_detected() {
        let (log, epoch) = (key(1), key(2));
        let note =
            Note::sign(checkpoint().text(), &[("par/00", &log), ("par/00/epoch/1", &epoch)]).to_string();
        let keys = [
            VerifierKey::new("par/00".to_owned(), &log),
            VerifierKey::new("par/00/epoch/1".to_owned(), &epoch),
        ];
        let holds = |note: &str| {
            Note::parse(note).is_ok_and(|note| {
                keys.iter().all(|key| note.is_signed_by(key)) && Checkpoint::parse(note.text()).is_ok()
            })
        };
        assert!(holds(&note));
        let flips = |text: &str, holds: &dyn Fn(&str) -> bool| {
            for bit in 0..text.len() * 8 {
                let mut bytes = text.as_bytes().to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let Ok(changed) = String::from_utf8(bytes) else { continue };
                assert!(!holds(&changed), "bit {bit}: {changed:?}");
            }
        };
        flips(&note, &holds);
        flips(&keys[0].to_string(), &|text| VerifierKey::parse(text).is_some());
    }

    /// Whatever comes before, between and after the notes, the last complete checkpoint is read.
    #[test]
    fn the_last_of_several_notes_is_found() {
        let note = |size| {
            let head = Head { size, root: Digest::sha256(b"root") };
            let text = Checkpoint { origin: "par/00".to_owned(), head, extensions: Vec::new() }.text();
            Note::sign(text, &[("par/00", &key(1)), ("par/00/epoch/1", &key(2))])
        };
        let (one, two) = (note(1), note(2));
        let cut = |note: &Note, bytes: usize| note.to_string().get(..bytes).expect("ascii").to_owned();
        let escaped = two.to_string().replace('\n', "\\n");
        for (text, expect) in [
            (two.to_string(), Some(&two)),
            (format!("{one}\n{two}"), Some(&two)),
            (format!("{two}\n{one}"), Some(&one)),
            (format!("{one}\n{two}\nand more\n"), Some(&two)),
            (format!("{one}\n{}\n\n{two}", cut(&one, 12)), Some(&two)),
            (format!("{one}\n\n{two}"), Some(&two)),
            (format!("{one}\n{}", cut(&two, 40)), Some(&one)),
            (format!("{one}\nx\n\n{}", Note::sign("x\n".to_owned(), &[("par/00", &key(1))])), Some(&one)),
            (format!("INFO anchor: size=2 note={escaped}\nINFO other\n"), Some(&two)),
            (format!("INFO note={escaped}\nINFO note=x\\n\\n\u{2014} a AAAAAAAA\\n\n"), Some(&two)),
            (format!("INFO note={escaped}\nINFO note=x\\n\n"), Some(&two)),
            ("INFO note=x\\n\\n\u{2014} a AAAAAAAA\\n\n".to_owned(), None),
            (String::new(), None),
            ("not a note\n\n\u{2014} at all\n".to_owned(), None),
        ] {
            assert_eq!(Note::last(&text).as_ref(), expect, "{text}");
        }
    }

    #[test]
    fn a_malformed_note_is_refused() {
        let good = Note::sign(checkpoint().text(), &[("par/00", &key(1))]).to_string();
        for bad in [
            String::new(),
            good.replace("\n\n", "\n"),
            good.trim_end().to_owned(),
            format!("{good}\n"),
            good.replace("\u{2014} ", "- "),
            good.replace("par/00\n", "par/00\r\n"),
            format!("{good}{}", "x".repeat(70_000)),
        ] {
            assert!(Note::parse(&bad).is_err(), "{bad:?}");
        }
        let unnamed = Checkpoint { origin: String::new(), ..checkpoint() }.text();
        for bad in ["a\n01\nAA==\n", "a\n+1\n\n", "a\n1\n", "", unnamed.as_str()] {
            assert!(Checkpoint::parse(bad).is_err(), "{bad:?}");
        }
    }
}
