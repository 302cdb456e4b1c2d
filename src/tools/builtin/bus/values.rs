//! Values in the wire form (D-Bus specification, "Marshaling").

use super::error::BusError;
use super::signature::BusType;

/// Nesting of values, variants included.
const DEPTH_MAX: usize = 64;
/// Values of one message. A list of units has ten for each.
const VALUES_MAX: usize = 500_000;

/// A value that came over the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tools::builtin) enum BusValue {
    Unsigned(u64),
    Signed(i64),
    Flag(bool),
    /// The bits of a floating-point number.
    Double(u64),
    /// A string, an object path or a signature.
    Text(String),
    /// An array, a struct or an entry of a dictionary.
    List(Vec<BusValue>),
}

impl BusValue {
    /// The text; nothing if it is another type.
    pub(in crate::tools::builtin) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number; nothing if it is another type, or negative.
    pub(in crate::tools::builtin) fn number(&self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(*number),
            Self::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The members; nothing if it is another type.
    pub(in crate::tools::builtin) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(members) => Some(members),
            _ => None,
        }
    }
}

/// Reads values from bytes that begin at a multiple of eight in their message.
#[derive(Debug)]
pub(super) struct ValueReader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big_endian: bool,
    values_left: usize,
}

impl<'a> ValueReader<'a> {
    pub(super) fn new(bytes: &'a [u8], is_big_endian: bool) -> Self {
        Self { bytes, at: 0, is_big_endian, values_left: VALUES_MAX }
    }

    /// Whether all bytes were read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Skips the padding up to a multiple of `to`, which must be zeros.
    pub(super) fn align(&mut self, to: usize) -> Result<(), BusError> {
        let padding = self.take(self.at.next_multiple_of(to) - self.at)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(BusError::Malformed("padding is not zero"));
        }
        Ok(())
    }

    /// The next value, of type `kind`.
    pub(super) fn value(&mut self, kind: &BusType) -> Result<BusValue, BusError> {
        self.nested(kind, 0)
    }

    fn nested(&mut self, kind: &BusType, depth: usize) -> Result<BusValue, BusError> {
        if depth > DEPTH_MAX {
            return Err(BusError::Excess("values nested too deep"));
        }
        self.values_left =
            self.values_left.checked_sub(1).ok_or(BusError::Excess("too many values in one message"))?;
        self.align(kind.alignment())?;
        Ok(match kind {
            BusType::Unsigned(bytes) => BusValue::Unsigned(self.number(*bytes)?),
            BusType::Signed(bytes) => {
                let unused = u32::try_from(64 - 8 * bytes).unwrap_or(0);
                BusValue::Signed((self.number(*bytes)? << unused).cast_signed() >> unused)
            }
            BusType::Flag => match self.number(4)? {
                0 => BusValue::Flag(false),
                1 => BusValue::Flag(true),
                _ => return Err(BusError::Malformed("a boolean is neither 0 nor 1")),
            },
            BusType::Double => BusValue::Double(self.number(8)?),
            BusType::Text => {
                let length = self.length()?;
                BusValue::Text(self.text(length)?)
            }
            BusType::Signature => BusValue::Text(self.signature()?),
            BusType::Variant => {
                let kind = BusType::single(self.signature()?.as_bytes())?;
                self.nested(&kind, depth + 1)?
            }
            BusType::Array(of) => {
                let length = self.length()?;
                self.align(of.alignment())?;
                let end = self.at.saturating_add(length);
                if end > self.bytes.len() {
                    return Err(BusError::Malformed("an array is longer than its message"));
                }
                let mut members = Vec::new();
                while self.at < end {
                    members.push(self.nested(of, depth + 1)?);
                }
                if self.at != end {
                    return Err(BusError::Malformed("an array ends in the middle of a value"));
                }
                BusValue::List(members)
            }
            BusType::Struct(kinds) => {
                BusValue::List(kinds.iter().map(|one| self.nested(one, depth + 1)).collect::<Result<_, _>>()?)
            }
        })
    }

    fn length(&mut self) -> Result<usize, BusError> {
        let length = self.number(4)?;
        usize::try_from(length).map_err(|_| BusError::Malformed("a length is out of range"))
    }

    fn signature(&mut self) -> Result<String, BusError> {
        let length = usize::try_from(self.number(1)?).unwrap_or(0);
        self.text(length)
    }

    /// `length` bytes of UTF-8 without NUL, and the NUL that ends them.
    fn text(&mut self, length: usize) -> Result<String, BusError> {
        let bytes = self.take(length)?;
        if self.take(1)? != [0] || bytes.contains(&0) {
            return Err(BusError::Malformed("a string does not end with its only NUL"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| BusError::Malformed("a string is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn number(&mut self, length: usize) -> Result<u64, BusError> {
        let bytes = self.take(length)?;
        let add = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
        Ok(if self.is_big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], BusError> {
        let end = self.at.checked_add(length).ok_or(BusError::Malformed("a length is out of range"))?;
        let bytes = self.bytes.get(self.at..end).ok_or(BusError::Malformed("it ends in the middle"))?;
        self.at = end;
        Ok(bytes)
    }
}

/// Writes values in little-endian order.
#[derive(Debug, Default)]
pub(super) struct ValueWriter(pub(super) Vec<u8>);

impl ValueWriter {
    pub(super) fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub(super) fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend(text.bytes().chain([0]));
    }

    pub(super) fn signature(&mut self, signature: &str) {
        self.0.push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.0.extend(signature.bytes().chain([0]));
    }

    /// An array whose elements begin at multiples of `alignment`.
    pub(super) fn array(&mut self, alignment: usize, fill: impl FnOnce(&mut Self)) {
        self.number(0);
        let length_at = self.0.len().saturating_sub(4);
        self.align(alignment);
        let start = self.0.len();
        fill(self);
        let length = u32::try_from(self.0.len().saturating_sub(start)).unwrap_or(u32::MAX).to_le_bytes();
        for (place, byte) in self.0.iter_mut().skip(length_at).zip(length) {
            *place = byte;
        }
    }
}
