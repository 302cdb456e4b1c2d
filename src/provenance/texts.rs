//! What a run was given, for looking up where words came from.

use super::exact::ExactWords;
use super::loose::LooseWords;
use super::number;
use crate::types::{FoundIn, limits};
use serde_json::{Number, Value};

/// What a run was given: the message, trusted texts and untrusted texts. Bounded: what does not fit
/// counts as not in the message and in no trusted text, and as anything at all if it is untrusted.
#[derive(Clone, Debug, Default)]
pub struct SourceTexts {
    message: ExactWords,
    trusted: ExactWords,
    untrusted: LooseWords,
    /// Whether something did not fit.
    is_cut: bool,
    /// Whether that was an untrusted text.
    is_untrusted_cut: bool,
}

/// Whose a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Message,
    Trusted,
    Untrusted,
}

impl SourceTexts {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            message: ExactWords::new(),
            trusted: ExactWords::new(),
            untrusted: LooseWords::new(),
            is_cut: false,
            is_untrusted_cut: false,
        }
    }

    /// Adds a person's own words.
    pub fn add_message(&mut self, text: &str) {
        self.add(Whose::Message, text);
    }

    /// Adds text of the operator or of this program.
    pub fn add_trusted(&mut self, text: &str) {
        self.add(Whose::Trusted, text);
    }

    /// Adds text that others may have chosen.
    pub fn add_untrusted(&mut self, text: &str) {
        self.add(Whose::Untrusted, text);
    }

    /// Adds the result of a call: every string, number and name in it.
    pub fn add_result(&mut self, result: &Value, is_trusted: bool) {
        self.add_value(if is_trusted { Whose::Trusted } else { Whose::Untrusted }, result);
    }

    /// Whether something did not fit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn add_value(&mut self, whose: Whose, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => self.add_number(whose, number),
            Value::String(text) => self.add(whose, text),
            Value::Array(items) => items.iter().for_each(|item| self.add_value(whose, item)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.add(whose, name);
                    self.add_value(whose, value);
                }
            }
        }
    }

    fn add_number(&mut self, whose: Whose, number: &Number) {
        let words = number.to_string();
        let Some(number) = self.fits(whose, &words).then(|| number::of_json(number)).flatten() else {
            return;
        };
        match whose {
            Whose::Message => self.message.add_number(number),
            Whose::Trusted => self.trusted.add_number(number),
            Whose::Untrusted => self.untrusted.add_number(number),
        }
    }

    fn add(&mut self, whose: Whose, text: &str) {
        if !self.fits(whose, text) {
            return;
        }
        match whose {
            Whose::Message => self.message.add(text),
            Whose::Trusted => self.trusted.add(text),
            Whose::Untrusted => self.untrusted.add(text),
        }
    }

    /// Whether there is room for `text`. If not, that is noted. The bound is exact only up to the
    /// text that reaches it.
    fn fits(&mut self, whose: Whose, text: &str) -> bool {
        let held = self.message.len() + self.trusted.len() + self.untrusted.len();
        let fits = held.saturating_add(text.len()) <= limits::PROVENANCE_BYTES_MAX;
        self.is_cut |= !fits;
        self.is_untrusted_cut |= !fits && whose == Whose::Untrusted;
        fits
    }

    /// Where `text` was found, as whole words.
    #[must_use]
    pub fn text(&self, text: &str) -> FoundIn {
        let is_untrusted = self.is_untrusted_cut || self.untrusted.has(text);
        found(self.message.has(text), self.trusted.has(text), is_untrusted)
    }

    /// Where `number` was found, by its value.
    #[must_use]
    pub fn number(&self, number: &Number) -> FoundIn {
        let Some(number) = number::of_json(number) else { return FoundIn::Untrusted };
        let is_untrusted = self.is_untrusted_cut || self.untrusted.has_number(&number);
        found(self.message.has_number(&number), self.trusted.has_number(&number), is_untrusted)
    }
}

fn found(is_message: bool, is_trusted: bool, is_untrusted: bool) -> FoundIn {
    match (is_message, is_trusted, is_untrusted) {
        (true, _, false) => FoundIn::Message,
        (false, true, false) => FoundIn::Trusted,
        (true, _, true) | (_, true, true) => FoundIn::Both,
        (false, false, false) => FoundIn::Nowhere,
        (false, false, true) => FoundIn::Untrusted,
    }
}
