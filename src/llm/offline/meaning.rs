//! What a sentence is, and what it means.

/// One meaning, and the forms that have it.
pub(super) struct Sentence {
    /// As the help shows it.
    pub(super) example: &'static str,
    pub(super) forms: &'static [&'static str],
    pub(super) means: Meaning,
}

/// What a sentence means.
pub(super) enum Meaning {
    /// These calls.
    Steps(&'static [SentenceStep]),
    /// These calls, if their tools are on, and otherwise the second meaning.
    Either(&'static [SentenceStep], &'static Meaning),
    /// PAR's own record is not read by a tool: the commands that show it, in which a slot stands
    /// for its value.
    Command(&'static str),
    /// These words.
    Say(&'static str),
    /// What is understood, and the tools that come nearest to it, because none does it.
    Missing(&'static str, &'static [&'static str]),
    /// What is understood here.
    Help,
}

/// One call.
pub(super) struct SentenceStep {
    pub(super) tool: &'static str,
    pub(super) arguments: &'static [(&'static str, Word)],
}

/// The value of an argument.
pub(super) enum Word {
    /// A text, in which `{slot}` stands for its value, and `@logs` or `@workspace` at its start for
    /// that folder.
    Text(&'static str),
    /// The same, as a regular expression that finds the text in any case.
    AnyCase(&'static str),
    Number(u16),
    /// The number in this slot.
    Slot(&'static str),
    True,
}
