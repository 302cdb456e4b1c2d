//! Messages: what is written reads the same, and no bytes make a reader panic, loop or hold more
//! than came.

use super::client::BusClient;
use super::error::BusError;
use super::message::{BusArgument, BusCall, BusMessage, MessageKind};
use super::signature::BusType;
use super::values::{BusValue, ValueReader};
use proptest::prelude::*;
use std::io::{self, Cursor, Read, Write};

fn call<'a>(arguments: &'a [BusArgument<'a>]) -> BusCall<'a> {
    BusCall { to: "a.b", path: "/a/b", interface: "a.b.C", member: "Do", arguments }
}

fn read(bytes: &[u8]) -> Result<(BusMessage, usize), BusError> {
    BusMessage::read(&mut Cursor::new(bytes))
}

fn values(signature: &str, bytes: &[u8], is_big_endian: bool) -> Result<Vec<BusValue>, BusError> {
    let mut reader = ValueReader::new(bytes, is_big_endian);
    BusType::list(signature.as_bytes())?.iter().map(|kind| reader.value(kind)).collect()
}

proptest! {
    #[test]
    fn a_call_reads_as_it_was_written(texts in proptest::collection::vec("[^\0]{0,20}", 0..6), serial in 1_u32..) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let one = texts.first().copied().unwrap_or_default();
        let arguments = [BusArgument::Text(one), BusArgument::Texts(&texts)];
        let bytes = call(&arguments).bytes(serial);
        let (message, length) = read(&bytes).expect("a message");
        prop_assert_eq!(length, bytes.len());
        prop_assert_eq!((message.kind, message.member.as_str()), (MessageKind::Call, "Do"));
        let list = texts.iter().map(|text| BusValue::Text((*text).to_owned())).collect();
        prop_assert_eq!(message.body, vec![BusValue::Text(one.to_owned()), BusValue::List(list)]);
        // Cut anywhere, it is refused.
        for end in 0..bytes.len() {
            prop_assert!(read(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn any_change_of_a_message_is_a_message_or_an_error(at in 0_usize..200, byte: u8) {
        let arguments = [BusArgument::Text("nginx.service"), BusArgument::Texts(&["a", "b"])];
        let mut bytes = call(&arguments).bytes(7);
        let at = at % bytes.len();
        bytes[at] = byte;
        drop(read(&bytes));
    }

    #[test]
    fn any_bytes_are_values_or_an_error(bytes: Vec<u8>, signature in "[ybnqiuxtdsogvah(){}]{0,12}", is_big: bool) {
        drop(values(&signature, &bytes, is_big));
    }
}

#[test]
fn values_of_every_type_are_read_in_both_byte_orders() {
    let little = b"\x07\0\xfe\xff\x01\0\0\0\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
    let big = b"\x07\0\xff\xfe\0\0\0\x01\0\0\0\x01\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
    let expect = vec![
        BusValue::Unsigned(7),
        BusValue::Signed(-2),
        BusValue::Flag(true),
        BusValue::Unsigned(1),
        BusValue::Signed(-1),
    ];
    for (bytes, is_big) in [(&little[..], false), (&big[..], true)] {
        assert_eq!(values("ynbux", bytes, is_big).expect("values"), expect);
    }
    // A dictionary of a variant: `{"a": <"b">}`.
    let entry = b"\x0e\0\0\0\0\0\0\0\x01\0\0\0a\0\x01s\0\0\0\0\x01\0\0\0b\0";
    let mut entry = entry.to_vec();
    entry[0] = u8::try_from(entry.len() - 8).expect("short");
    let text = |text: &str| BusValue::Text(text.to_owned());
    let expect = BusValue::List(vec![BusValue::List(vec![text("a"), text("b")])]);
    assert_eq!(values("a{sv}", &entry, false).expect("values"), [expect]);
}

#[test]
fn what_is_malformed_or_too_much_is_refused() {
    let reason =
        |signature: &str, bytes: &[u8]| values(signature, bytes, false).expect_err("refused").to_string();
    let deep = "a".repeat(100);
    let long = [600_000_u32.to_le_bytes().to_vec(), vec![0; 600_000]].concat();
    // Variants in variants in variants.
    let nested: Vec<u8> = b"\x01v\0".repeat(100);
    for (signature, bytes, expect) in [
        ("b", &b"\x02\0\0\0"[..], "neither 0 nor 1"),
        ("s", b"\x01\0\0\0ab", "its only NUL"),
        ("s", b"\x02\0\0\0a\0\0", "its only NUL"),
        ("s", b"\x01\0\0\0\xff\0", "not UTF-8"),
        ("s", b"\xff\xff\xff\xffa\0", "ends in the middle"),
        ("yu", b"\x01\x01\0\0\0\0\0\0", "padding is not zero"),
        ("ay", b"\x09\0\0\0\0", "longer than its message"),
        ("au", b"\x05\0\0\0\0\0\0\0\0\0\0\0", "in the middle of a value"),
        ("(", b"", "ends in the middle"),
        ("()", b"", "without members"),
        ("a{s}", b"", "not a key and a value"),
        ("z", b"", "an unknown type"),
        ("v", b"\x02ss\0\0\0", "does not have one type"),
        ("v", b"\x00\0", "does not have one type"),
        (deep.as_str(), b"", "types nested too deep"),
        ("v", nested.as_slice(), "values nested too deep"),
        ("ay", long.as_slice(), "too many values"),
    ] {
        assert!(reason(signature, bytes).contains(expect), "{signature}: {}", reason(signature, bytes));
    }
    // The body is longer than its signature says.
    let mut bytes = call(&[]).bytes(1);
    bytes[4] = 4;
    bytes.extend([0; 4]);
    assert!(read(&bytes).expect_err("refused").to_string().contains("longer than its signature"));
}

/// Answers with what it was given, whatever it is asked.
struct Unasked(Cursor<Vec<u8>>);

impl Read for Unasked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Unasked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A peer that sends message after message, none of which answers, does not keep the caller.
#[test]
fn endless_messages_end_the_call() {
    let mut signal = call(&[]).bytes(9);
    signal[1] = 4;
    // More than one call may read.
    let count = (65 << 20) / signal.len();
    let said = [b"DATA\r\nOK 1\r\n".to_vec(), signal.repeat(count)].concat();
    let error = BusClient::open(Unasked(Cursor::new(said))).expect_err("no reply");
    assert!(error.to_string().contains("too many messages"), "{error}");
    let endless_line = BusClient::open(Unasked(Cursor::new(vec![b'D'; 10_000]))).expect_err("no line");
    assert!(endless_line.to_string().contains("a line is too long"), "{endless_line}");
}

/// The words of a peer's error are bounded and visible.
#[test]
fn words_of_errors_are_visible() {
    let error = BusError::peer("a.b", &format!("\u{1b}[2J{}", "x".repeat(1_000))).to_string();
    assert!(error.starts_with("a.b: \\u{1b}[2J") && error.len() < 330, "{error}");
}
