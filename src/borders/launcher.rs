//! The launcher: its messages, both ways, and its journal.

use super::refuses_visibly;
use crate::launcher::Journals;
use crate::launcher::protocol::{
    Arrival, Assembler, ChildMessage, PacketKind, Reply, Request, packet, packets,
};
use crate::types::Digest;
use crate::types::json::parse_strict;
use crate::types::limits::LINK_UNFINISHED_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;

/// Packets, each after its length in two bytes: as the front sends them to the launcher, as the
/// launcher sends them to the front, and as a child sends one word.
///
/// The assembler agrees with a plain one, holds no more bytes than its limit, and every message is
/// written and read again as the same.
pub fn launcher_wire(bytes: &[u8]) {
    let mut all = Vec::new();
    let mut left = bytes;
    while let Some((length, rest)) = left.split_first_chunk::<2>() {
        let (one, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length))));
        all.push(one);
        left = rest;
    }
    conversation::<Request>(&all);
    conversation::<Reply>(&all);
    for one in all {
        if let Ok(word) = serde_json::from_slice::<ChildMessage>(one) {
            is_written_again(&word);
        }
    }
}

fn conversation<M: Serialize + DeserializeOwned>(all: &[&[u8]]) {
    let mut assembler = Assembler::default();
    let mut plain: HashMap<u64, Vec<u8>> = HashMap::new();
    for one in all {
        // After a malformed packet the connection ends.
        let Ok(arrival) = assembler.take::<M>(one) else { return };
        let (head, rest) = one.split_at(10);
        let id = u64::from_le_bytes(head[1..9].try_into().expect("eight bytes"));
        match arrival {
            Arrival::Output(of, kind, output) => {
                assert_eq!((of, output.as_slice()), (id, rest));
                assert_ne!(kind, PacketKind::Message);
                assert_eq!(packet(kind, id, head[9] != 0, rest)[..9], one[..9]);
            }
            Arrival::Piece => {
                plain.entry(id).or_default().extend(rest);
                let held: usize = plain.values().map(Vec::len).sum();
                assert!(held <= LINK_UNFINISHED_BYTES_MAX, "{held} bytes are held");
            }
            Arrival::Message(of, message) => {
                let mut whole = plain.remove(&id).unwrap_or_default();
                whole.extend(rest);
                assert_eq!(of, id);
                let read: M = serde_json::from_slice(&whole).expect("the same message");
                assert_eq!(json_of(&read), json_of(&message), "put together otherwise");
                is_written_again(&message);
                let mut other = Assembler::default();
                let mut back = None;
                for one in packets(id, &message).expect("a message within the limit") {
                    if let Arrival::Message(id, message) = other.take::<M>(&one).expect("a packet") {
                        back = Some((id, message));
                    }
                }
                let (back_id, back) = back.expect("a whole message");
                assert_eq!((back_id, json_of(&back)), (id, json_of(&message)));
            }
        }
    }
}

fn json_of(message: &impl Serialize) -> Value {
    serde_json::to_value(message).expect("JSON")
}

fn is_written_again<M: Serialize + DeserializeOwned>(message: &M) {
    let written = serde_json::to_vec(message).expect("JSON");
    let back: M = serde_json::from_slice(&written).expect("what is written is read");
    assert_eq!(json_of(&back), json_of(message));
}

/// A journal. Without a fault every line follows the one before, and a changed byte in any line
/// but the last is a fault.
pub fn journal(bytes: &[u8]) {
    let read = |bytes: &[u8]| {
        let mut journals = Journals::default();
        journals.read_bytes("one.jsonl", bytes, &mut None);
        journals
    };
    let found = read(bytes);
    found.faults.iter().for_each(|fault| refuses_visibly(fault));
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    assert!(found.orders.len() < lines.len().max(1), "more orders than lines");
    assert!(found.span_us.is_none_or(|(first, last)| first <= last));
    if !found.faults.is_empty() {
        return;
    }
    assert_eq!(lines.last().map(|rest| rest.len()), Some(0), "a torn line is not a fault");
    let lines = &lines[..lines.len() - 1];
    for (before, line) in lines.iter().zip(lines.iter().skip(1)) {
        let line = parse_strict(line, 2).expect("JSON");
        assert_eq!(line["prev"].as_str(), Some(&*Digest::sha256(before).hex()), "it follows another line");
    }
    let Some(changeable) = bytes.len().checked_sub(lines.last().map_or(0, |last| last.len()) + 2) else {
        return;
    };
    let at =
        bytes.iter().fold(7_usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte)) % (changeable + 1);
    let mut changed = bytes.to_vec();
    changed[at] ^= 1;
    assert!(!read(&changed).faults.is_empty(), "byte {at} is changed unseen");
}
