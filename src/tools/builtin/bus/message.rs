//! A message as bytes (D-Bus specification, "Message Format").

use super::error::BusError;
use super::signature::BusType;
use super::values::{BusValue, ValueReader, ValueWriter};
use std::io::Read;

/// The fixed part of a header, with the length of its fields.
const HEAD_BYTES: usize = 16;
/// The fields of a header.
const FIELDS_BYTES_MAX: usize = 16 << 10;
/// The body of one message. A list of 10,000 units takes about three megabytes.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Codes of the header's fields.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Call,
    Return,
    Error,
    Signal,
    /// One that the specification does not know and that is ignored.
    Other,
}

/// A message that came over the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BusMessage {
    pub(super) kind: MessageKind,
    /// The serial number of the call that it answers; 0 for none.
    pub(super) answers: u64,
    pub(super) interface: String,
    pub(super) member: String,
    pub(super) error: String,
    /// The unique name of the peer, which the bus fills in.
    pub(super) sender: String,
    pub(super) body: Vec<BusValue>,
}

/// One argument of a method.
#[derive(Clone, Copy, Debug)]
pub(super) enum BusArgument<'a> {
    Text(&'a str),
    Texts(&'a [&'a str]),
}

/// A call of a method.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusCall<'a> {
    pub(super) to: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'static str,
    pub(super) arguments: &'a [BusArgument<'a>],
}

impl BusCall<'_> {
    /// The bytes of the message with the number `serial`.
    pub(super) fn bytes(&self, serial: u32) -> Vec<u8> {
        let (mut body, mut signature) = (ValueWriter::default(), String::new());
        for argument in self.arguments {
            match argument {
                BusArgument::Text(text) => {
                    signature.push('s');
                    body.text(text);
                }
                BusArgument::Texts(texts) => {
                    signature.push_str("as");
                    body.array(4, |list| texts.iter().for_each(|text| list.text(text)));
                }
            }
        }
        // Little-endian, a call, no flags, version 1.
        let mut message = ValueWriter(vec![b'l', 1, 0, 1]);
        message.number(u32::try_from(body.0.len()).unwrap_or(u32::MAX));
        message.number(serial);
        message.array(8, |fields| {
            let texts = [
                (PATH, "o", self.path),
                (DESTINATION, "s", self.to),
                (INTERFACE, "s", self.interface),
                (MEMBER, "s", self.member),
            ];
            for (code, kind, text) in texts {
                fields.align(8);
                fields.0.push(code);
                fields.signature(kind);
                fields.text(text);
            }
            if !signature.is_empty() {
                fields.align(8);
                fields.0.push(SIGNATURE);
                fields.signature("g");
                fields.signature(&signature);
            }
        });
        message.align(8);
        message.0.extend(body.0);
        message.0
    }
}

impl BusMessage {
    /// Reads the next message, and how many bytes it has.
    pub(super) fn read(from: &mut impl Read) -> Result<(Self, usize), BusError> {
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head)?;
        let [order, kind, _, version, ..] = head;
        let is_big_endian = match order {
            b'l' => false,
            b'B' => true,
            _ => return Err(BusError::Malformed("an unknown byte order")),
        };
        if version != 1 {
            return Err(BusError::Malformed("an unknown version of the protocol"));
        }
        let word = |at: usize| {
            let four = head.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
            let number = if is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        let (body_bytes, field_bytes) = (word(4), word(12));
        if body_bytes > BODY_BYTES_MAX || field_bytes > FIELDS_BYTES_MAX {
            return Err(BusError::Excess("a message is too long"));
        }
        let padded = field_bytes.next_multiple_of(8);
        let fields = read_bytes(from, padded)?;
        let body = read_bytes(from, body_bytes)?;
        let mut message = Self {
            kind: match kind {
                1 => MessageKind::Call,
                2 => MessageKind::Return,
                3 => MessageKind::Error,
                4 => MessageKind::Signal,
                _ => MessageKind::Other,
            },
            answers: 0,
            interface: String::new(),
            member: String::new(),
            error: String::new(),
            sender: String::new(),
            body: Vec::new(),
        };
        let fields = fields.get(..field_bytes).unwrap_or_default();
        let signature = message.take_fields(&mut ValueReader::new(fields, is_big_endian))?;
        let mut values = ValueReader::new(&body, is_big_endian);
        for kind in BusType::list(signature.as_bytes())? {
            message.body.push(values.value(&kind)?);
        }
        if !values.is_at_end() {
            return Err(BusError::Malformed("the body is longer than its signature says"));
        }
        Ok((message, HEAD_BYTES + padded + body_bytes))
    }

    /// Takes what is used of the header, and returns the body's signature.
    fn take_fields(&mut self, fields: &mut ValueReader<'_>) -> Result<String, BusError> {
        let entry = BusType::Struct(vec![BusType::Unsigned(1), BusType::Variant]);
        let mut signature = String::new();
        while !fields.is_at_end() {
            let BusValue::List(members) = fields.value(&entry)? else { continue };
            let Ok([code, value]) = <[BusValue; 2]>::try_from(members) else { continue };
            let code = code.number().and_then(|code| u8::try_from(code).ok()).unwrap_or_default();
            match (code, value) {
                (REPLY_SERIAL, BusValue::Unsigned(serial)) => self.answers = serial,
                (INTERFACE, BusValue::Text(text)) => self.interface = text,
                (MEMBER, BusValue::Text(text)) => self.member = text,
                (ERROR_NAME, BusValue::Text(text)) => self.error = text,
                (SENDER, BusValue::Text(text)) => self.sender = text,
                (SIGNATURE, BusValue::Text(text)) => signature = text,
                (INTERFACE | MEMBER | ERROR_NAME | REPLY_SERIAL | SENDER | SIGNATURE, _) => {
                    return Err(BusError::Malformed("a field of the header has another type"));
                }
                _ => {}
            }
        }
        Ok(signature)
    }
}

/// `length` bytes. The memory grows with what comes, not with what was announced.
fn read_bytes(from: &mut impl Read, length: usize) -> Result<Vec<u8>, BusError> {
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(BusError::Closed) }
}
