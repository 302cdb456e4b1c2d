//! The fast reader for headers, which copies nothing. Pure: no disk, no clock.
//!
//! PAR writes headers in one plain form: canonical JSON without escapes. This module reads that
//! form in one pass over the bytes. It leaves every other form to [`Header::parse_any`], which
//! defines what a valid header is.

use super::header::{FORMAT, Header, is_of_its_type};
use crate::types::json::INTEGER_MAX;
use crate::types::{Digest, limits};
use serde_json::{Map, Value};

/// The fields of a header that verification uses, and its members.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct PlainHeader<'a> {
    pub(in crate::ledger) log: &'a str,
    pub(in crate::ledger) seq: u64,
    pub(in crate::ledger) prev: Option<Digest>,
    pub(in crate::ledger) kind: &'a str,
    pub(in crate::ledger) payload: Digest,
    pub(in crate::ledger) payload_len: u64,
    /// `ref`.
    pub(in crate::ledger) answers: Option<u64>,
    members: Vec<(&'a str, PlainValue<'a>)>,
}

/// A value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlainValue<'a> {
    Text(&'a str),
    Number(i64),
    Flag(bool),
    List(Vec<&'a str>),
}

impl<'a> PlainHeader<'a> {
    /// Reads header bytes in the plain form. `None` means only that the form is another.
    pub(in crate::ledger) fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() >= limits::HEADER_ENTRY_BYTES_MAX {
            return None;
        }
        let members = Cursor { rest: std::str::from_utf8(bytes).ok()? }.object()?;
        let mut known = Fields::default();
        let is_right = members.iter().all(|(name, value)| known.take(name, value));
        let whole = is_right.then_some(known).filter(|known| known.always == Fields::ALWAYS)?;
        Some(Self {
            log: whole.log?,
            seq: whole.seq?,
            prev: whole.prev,
            kind: whole.kind?,
            payload: whole.payload?,
            payload_len: whole.payload_len?,
            answers: whole.answers,
            members,
        })
    }

    /// The member `name`, if it is a text.
    pub(in crate::ledger) fn text(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|(member, _)| *member == name)?.1.text()
    }

    /// The member `name`, if it is a number.
    pub(in crate::ledger) fn number(&self, name: &str) -> Option<i64> {
        match self.members.iter().find(|(member, _)| *member == name)?.1 {
            PlainValue::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The header, as [`Header::parse_any`] returns it.
    pub(in crate::ledger) fn header(self) -> Header {
        let mut fields = Map::with_capacity(self.members.len());
        for (name, value) in self.members {
            fields.insert(name.to_owned(), value.json());
        }
        Header {
            log: self.log.to_owned(),
            seq: self.seq,
            prev: self.prev,
            kind: self.kind.to_owned(),
            payload: self.payload,
            payload_len: self.payload_len,
            fields,
        }
    }
}

/// The required and the named members, collected as they are read.
#[derive(Default)]
struct Fields<'a> {
    log: Option<&'a str>,
    seq: Option<u64>,
    prev: Option<Digest>,
    kind: Option<&'a str>,
    payload: Option<Digest>,
    payload_len: Option<u64>,
    answers: Option<u64>,
    /// How many of `t`, `boot`, `wall_us` and `mono_us` were read.
    always: u8,
}

impl<'a> Fields<'a> {
    const ALWAYS: u8 = 4;

    /// Takes a member; false if it has the wrong type.
    fn take(&mut self, name: &str, value: &PlainValue<'a>) -> bool {
        let digest = || value.text().and_then(Digest::from_hex);
        match name {
            "log" => taken(&mut self.log, value.text()),
            "seq" => taken(&mut self.seq, value.count()),
            "prev" => taken(&mut self.prev, digest()),
            "kind" => taken(&mut self.kind, value.text()),
            "payload" => taken(&mut self.payload, digest()),
            "payload_len" => taken(&mut self.payload_len, value.count()),
            "ref" => taken(&mut self.answers, value.count()),
            "t" if value.text() != Some(FORMAT) => false,
            "t" | "boot" => self.counted(value.text().is_some()),
            "wall_us" | "mono_us" => self.counted(matches!(value, PlainValue::Number(_))),
            "policy" | "manifest" => digest().is_some(),
            "run" | "session" | "call" | "principal" | "decision" | "status" | "tool" => {
                value.text().is_some()
            }
            // Rarer members are checked by the one list of types.
            other => is_of_its_type(other, &value.clone().json()),
        }
    }

    fn counted(&mut self, is_right: bool) -> bool {
        self.always += u8::from(is_right);
        is_right
    }
}

fn taken<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    *place = value;
    place.is_some()
}

impl<'a> PlainValue<'a> {
    fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn count(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn json(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Number(number) => number.into(),
            Self::Flag(flag) => flag.into(),
            Self::List(items) => items.into(),
        }
    }
}

/// The text that is still to be read.
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    /// One object with nothing after it. Its names rise, so that none occurs twice.
    fn object(mut self) -> Option<Vec<(&'a str, PlainValue<'a>)>> {
        let mut members = Vec::with_capacity(20);
        let mut before = "";
        self.eat('{')?;
        loop {
            let name = self.string()?;
            // In ASCII the order of bytes is that of UTF-16. An empty name is rare; it is left to
            // the other reader.
            if name <= before || !name.is_ascii() {
                return None;
            }
            before = name;
            self.eat(':')?;
            members.push((name, self.value()?));
            if self.eat(',').is_none() {
                self.eat('}')?;
                return self.rest.is_empty().then_some(members);
            }
        }
    }

    fn value(&mut self) -> Option<PlainValue<'a>> {
        match self.rest.as_bytes().first()? {
            b'"' => self.string().map(PlainValue::Text),
            b'[' => self.list().map(PlainValue::List),
            b't' => self.word("true").map(|()| PlainValue::Flag(true)),
            b'f' => self.word("false").map(|()| PlainValue::Flag(false)),
            _ => self.number().map(PlainValue::Number),
        }
    }

    /// A string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.eat('"')?;
        let is_end = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < b' ';
        let end = self.rest.as_bytes().iter().position(is_end)?;
        let (text, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.strip_prefix('"')?;
        Some(text)
    }

    fn list(&mut self) -> Option<Vec<&'a str>> {
        let mut items = Vec::new();
        self.eat('[')?;
        if self.eat(']').is_some() {
            return Some(items);
        }
        loop {
            items.push(self.string()?);
            if self.eat(',').is_none() {
                return self.eat(']').map(|()| items);
            }
        }
    }

    /// An integer that every JSON reader keeps exactly, in its one form.
    fn number(&mut self) -> Option<i64> {
        let is_part = |byte: &u8| !matches!(byte, b',' | b'}');
        let end = self.rest.as_bytes().iter().position(|byte| !is_part(byte))?;
        let (text, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 16;
        let is_one_form = !digits.starts_with('0') || text == "0";
        let number: i64 = text.parse().ok().filter(|_| is_plain && is_one_form)?;
        (number.unsigned_abs() <= INTEGER_MAX.unsigned_abs()).then_some(number)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    fn eat(&mut self, one: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(one)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::PlainHeader;
    use crate::ledger::entry::Header;
    use proptest::prelude::*;
    use serde_json::json;

    /// If the plain reader accepts the bytes, the JSON parser returns the same header.
    fn agrees(bytes: &[u8]) -> bool {
        let slow = Header::parse_any(bytes);
        match PlainHeader::read(bytes) {
            Some(plain) => {
                let answers = plain.answers;
                let fast = plain.header();
                assert_eq!(answers, fast.u64("ref"));
                assert_eq!(Ok(fast), slow, "{}", String::from_utf8_lossy(bytes));
                true
            }
            None => false,
        }
    }

    fn header() -> String {
        let digest = "0f".repeat(32);
        crate::types::json::canonical(&json!({
            "t": "par/entry/1", "log": "ab", "seq": 7, "prev": digest, "kind": "call.decision", "wall_us": 1_790_000_000_000_000_u64,
            "mono_us": -1, "boot": "b\u{e9}", "payload": digest, "payload_len": 0, "policies": ["a", ""], "later": true,
            "ref": 5, "tool": "read_file", "manifest": digest,
        }))
        .expect("canonical")
    }

    #[test]
    fn the_plain_form_is_read_and_others_are_left() {
        let whole = header();
        assert!(agrees(whole.as_bytes()), "{whole}");
        for (from, to) in [
            ("\"seq\":7", "\"seq\":07"),
            ("\"seq\":7", "\"seq\":-0"),
            ("\"seq\":7", "\"seq\":7.0"),
            ("\"seq\":7", "\"seq\":7e0"),
            ("\"seq\":7", "\"seq\":+7"),
            ("\"seq\":7", "\"seq\":-7"),
            ("\"seq\":7", "\"seq\":9007199254740992"),
            ("\"seq\":7", "\"seq\":"),
            ("\"seq\":7", "\"seq\": 7"),
            ("\"seq\":7", "\"seq\":7,\"seq\":7"),
            ("\"seq\":7,", ""),
            ("\"ref\":5", "\"ref\":-5"),
            ("\"ref\":5", "\"ref\":\"5\""),
            ("read_file", "read\\u005ffile"),
            ("read_file", "read\u{1}file"),
            ("\"later\":true", "\"later\":null"),
            ("\"later\":true", "\"later\":{}"),
            ("\"later\":true", "\"later\":truefalse"),
            ("\"later\":true", "\"Later\":true"),
            ("[\"a\",\"\"]", "[\"a\",1]"),
            ("[\"a\",\"\"]", "[\"a\",]"),
            ("[\"a\",\"\"]", "\"a\""),
            ("par/entry/1", "par/entry/2"),
            ("\"boot\":", "\"boos\":"),
            ("0f0f", "0F0F"),
            ("}", "} "),
            ("}", ""),
        ] {
            let changed = whole.replacen(from, to, 1);
            assert_ne!(changed, whole, "{from}");
            assert!(!agrees(changed.as_bytes()), "{changed}");
        }
        assert!(agrees(whole.replace("[\"a\",\"\"]", "[]").as_bytes()));
        assert!(agrees(whole.replace("\"later\":true", "\"later\":false").as_bytes()));
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(4_000))]

        /// Inserts, removes and replaces bytes: the plain reader never disagrees with the JSON
        /// parser.
        #[test]
        fn both_readers_agree(changes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..4, "[ -~]|\\PC|\"|,|:|-|0|9|\\.|e"), 0..4)) {
            let mut bytes = header().into_bytes();
            for (at, what, with) in changes {
                let at = at.index(bytes.len());
                let taken = match what { 0 => 0, 1 => 1, more => with.len().min(bytes.len() - at).max(more - 1) };
                let put = if what == 1 { Vec::new() } else { with.into_bytes() };
                bytes.splice(at..(at + taken).min(bytes.len()), put);
            }
            agrees(&bytes);
        }
    }
}
