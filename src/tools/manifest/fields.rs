//! Reads one table of a manifest, member by member, so that one fault does not hide the next.

use super::error::{InFile, ManifestError, with_lines};
use crate::types::{nearest, with_meant};
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// One table, whose members are taken one by one.
pub(super) struct TableFields<'a> {
    file: InFile<'a>,
    /// Its heading in messages: `[limits]`, or nothing for the file itself.
    heading: &'static str,
    /// The byte of the file at which a missing member is reported.
    at: Option<usize>,
    table: DeTable<'a>,
    asked: Vec<&'static str>,
    /// Those of them that may be absent.
    optional: Vec<&'static str>,
    missing: Vec<(&'static str, String)>,
    found: Vec<ManifestError>,
    /// Optional members that were given, but could not be read.
    faulty: Vec<&'static str>,
}

impl<'a> TableFields<'a> {
    /// The members of the whole file. A member that is missing belongs above all tables: line 1.
    pub(super) fn of_file(file: InFile<'a>, table: DeTable<'a>) -> Self {
        Self::new(file, "", Some(0), table)
    }

    fn new(file: InFile<'a>, heading: &'static str, at: Option<usize>, table: DeTable<'a>) -> Self {
        let (asked, optional, missing, found) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { file, heading, at, table, asked, optional, missing, found, faulty: Vec::new() }
    }

    /// A required member. If it is missing, the error shows `example`, the line to paste.
    pub(super) fn required<T: Deserialize<'a>>(&mut self, key: &'static str, example: &str) -> Option<T> {
        let value = self.take(key);
        if value.is_none() {
            self.missing.push((key, example.to_owned()));
        }
        self.read(value?).map_err(|fault| self.found.push(fault)).ok()
    }

    /// A member that may be absent.
    pub(super) fn optional<T: Deserialize<'a>>(&mut self, key: &'static str) -> Option<T> {
        self.optional.push(key);
        let value = self.take(key)?;
        self.convert(key, value)
    }

    /// A member with a default.
    pub(super) fn or_default<T: Deserialize<'a> + Default>(&mut self, key: &'static str) -> T {
        self.optional(key).unwrap_or_default()
    }

    /// A required table. If it is missing, the error shows `example`, the lines to paste.
    pub(super) fn table(&mut self, key: &'static str, heading: &'static str, example: &str) -> Option<Self> {
        let Some(value) = self.take(key) else {
            self.missing.push((key, example.to_owned()));
            return None;
        };
        let at = Some(value.span().start);
        match value.into_inner() {
            DeValue::Table(table) => Some(Self::new(self.file, heading, at, table)),
            other => {
                let reason = format!("`{key}` is a value of the type {}, expected a table", other.type_str());
                self.refuse(key, at, reason);
                None
            }
        }
    }

    /// A number between 1 and `most`; 0 if it is absent and may be.
    pub(super) fn number(&mut self, key: &'static str, most: u64, example: Option<&str>) -> Option<u64> {
        let value = self.take(key);
        let Some(value) = value else {
            let Some(example) = example else { return Some(0) };
            self.missing.push((key, example.to_owned()));
            return None;
        };
        let at = value.span().start;
        let number: u64 = self.convert(key, value)?;
        // Written as 0, an optional bound means the same as left out.
        let least = u64::from(example.is_some());
        if !(least..=most).contains(&number) {
            self.refuse(key, Some(at), format!("`{key} = {number}` is not between 1 and {most}"));
            return None;
        }
        Some(number)
    }

    /// The optional members that a check cannot rely on: those without the right form, and those
    /// that an unknown key is a misspelling of. A required member that is wrong is simply absent,
    /// and hides nothing.
    pub(super) fn unsure(&self) -> Vec<&'static str> {
        let close = |word: &str| nearest(word, self.optional.iter().copied());
        let meant = self.table.keys().filter_map(|key| close(key.get_ref()));
        self.faulty.iter().copied().chain(meant).collect()
    }

    /// Whether what depends on the optional members can be checked.
    pub(super) fn is_whole(&self) -> bool {
        self.unsure().is_empty()
    }

    /// Every fault of the table. A key that was not asked for is unknown; if it is a misspelling of
    /// a missing one, that one fault is reported, not two.
    pub(super) fn finish(mut self) -> Vec<ManifestError> {
        for (key, _) in &self.table {
            let word: &str = key.get_ref();
            let close = nearest(word, self.asked.iter().copied());
            self.missing.retain(|(missing, _)| Some(*missing) != close);
            let place =
                if self.heading.is_empty() { String::new() } else { format!(" in `{}`", self.heading) };
            let mend = match close {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("expected one of {}", self.asked.join(", ")),
            };
            let reason = format!("unknown key `{word}`{place}: {mend}");
            self.found.push(self.file.at_byte(Some(key.span().start), reason));
        }
        for (key, example) in &self.missing {
            let reason = match example.starts_with('[') {
                true => with_lines(&format!("the table `[{key}]` is missing: add it at the end"), example),
                false if self.heading.is_empty() => with_lines(&format!("`{key}` is missing: add"), example),
                false => with_lines(&format!("`{key}` is missing: add below `{}`", self.heading), example),
            };
            self.found.push(match example.starts_with('[') {
                true => self.file.at_end(reason),
                false => self.file.at_byte(self.at, reason),
            });
        }
        self.found
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.asked.push(key);
        self.table.remove(key)
    }

    fn convert<T: Deserialize<'a>>(&mut self, key: &'static str, value: Spanned<DeValue<'a>>) -> Option<T> {
        let read = self.read(value);
        self.faulty.extend(read.is_err().then_some(key));
        read.map_err(|fault| self.found.push(fault)).ok()
    }

    fn read<T: Deserialize<'a>>(&self, value: Spanned<DeValue<'a>>) -> Result<T, ManifestError> {
        let span = value.span();
        T::deserialize(ValueDeserializer::from(value).into_deserializer()).map_err(|e| {
            let at = e.span().unwrap_or(span).start;
            self.file.at_byte(Some(at), with_meant(e.message()))
        })
    }

    fn refuse(&mut self, key: &'static str, at: Option<usize>, reason: String) {
        self.faulty.push(key);
        self.found.push(self.file.at_byte(at, reason));
    }
}
