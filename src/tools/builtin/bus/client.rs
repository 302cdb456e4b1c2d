//! A connection to the bus.

use super::error::BusError;
use super::message::{BusCall, BusMessage, MessageKind};
use super::values::BusValue;
use std::collections::VecDeque;
use std::fmt;
use std::io::{Read, Write};

/// The bus itself.
const BUS: &str = "org.freedesktop.DBus";
/// One line of the bus while it checks who connects.
const LINE_BYTES_MAX: usize = 512;
/// What one call may read in all.
const READ_BYTES_MAX: usize = 64 << 20;
/// Signals that are kept until they are asked for.
const SIGNALS_MAX: usize = 256;

/// A connection to the bus, as the user that the socket belongs to.
pub struct BusClient<S> {
    stream: S,
    serial: u32,
    bytes_left: usize,
    signals: VecDeque<BusMessage>,
}

impl<S> fmt::Debug for BusClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusClient").field("serial", &self.serial).finish_non_exhaustive()
    }
}

impl<S: Read + Write> BusClient<S> {
    /// Says who connects, and takes part in the bus. `EXTERNAL` is sent without a name: the bus
    /// takes the user from the socket's credentials, whatever a user namespace calls it.
    pub fn open(mut stream: S) -> Result<Self, BusError> {
        stream.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")?;
        for expect in ["DATA", "OK "] {
            if !line(&mut stream)?.starts_with(expect.as_bytes()) {
                return Err(BusError::Rejected);
            }
        }
        let mut client = Self { stream, serial: 0, bytes_left: READ_BYTES_MAX, signals: VecDeque::new() };
        client.ask_the_bus("Hello", &[])?;
        Ok(client)
    }

    /// Calls a method of the bus itself.
    pub(super) fn ask_the_bus(
        &mut self,
        member: &'static str,
        arguments: &[super::message::BusArgument<'_>],
    ) -> Result<Vec<BusValue>, BusError> {
        let call = BusCall { to: BUS, path: "/org/freedesktop/DBus", interface: BUS, member, arguments };
        Ok(self.call(&call)?.body)
    }

    /// Calls a method and waits for its reply.
    pub(super) fn call(&mut self, call: &BusCall<'_>) -> Result<BusMessage, BusError> {
        self.serial = self.serial.saturating_add(1);
        self.stream.write_all(&call.bytes(self.serial))?;
        loop {
            let message = self.next()?;
            match message.kind {
                MessageKind::Return if message.answers == u64::from(self.serial) => return Ok(message),
                MessageKind::Error if message.answers == u64::from(self.serial) => {
                    let words = message.body.first().and_then(BusValue::text).unwrap_or_default();
                    return Err(BusError::peer(&message.error, words));
                }
                MessageKind::Signal if self.signals.len() < SIGNALS_MAX => self.signals.push_back(message),
                _ => {}
            }
        }
    }

    /// Waits for the next signal.
    pub(super) fn signal(&mut self) -> Result<BusMessage, BusError> {
        if let Some(kept) = self.signals.pop_front() {
            return Ok(kept);
        }
        loop {
            let message = self.next()?;
            if message.kind == MessageKind::Signal {
                return Ok(message);
            }
        }
    }

    fn next(&mut self) -> Result<BusMessage, BusError> {
        let (message, bytes) = BusMessage::read(&mut self.stream)?;
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or(BusError::Excess("too many messages"))?;
        Ok(message)
    }
}

fn line(stream: &mut impl Read) -> Result<Vec<u8>, BusError> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_BYTES_MAX {
            return Err(BusError::Malformed("a line is too long"));
        }
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.extend(byte);
    }
    Ok(line)
}
