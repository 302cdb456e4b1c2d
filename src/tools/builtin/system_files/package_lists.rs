//! What dpkg and apt write: paragraphs of fields (deb822(5)), and the head of a release.

use super::folders::{SystemEntry, SystemFolder, SystemView};
use super::lines::FileLines;
use std::io::Read;

/// The part of a release that is read, in bytes: its fields come before its digests.
const RELEASE_BYTES_MAX: u64 = 64 << 10;

/// The fields of one package that matter here; empty if absent.
#[derive(Debug, Default)]
pub(super) struct PackageFields {
    pub(super) package: String,
    pub(super) version: String,
    pub(super) architecture: String,
    pub(super) status: String,
    pub(super) phased_percent: String,
}

impl PackageFields {
    fn slot(&mut self, name: &[u8]) -> Option<&mut String> {
        match name {
            b"Package" => Some(&mut self.package),
            b"Version" => Some(&mut self.version),
            b"Architecture" => Some(&mut self.architecture),
            b"Status" => Some(&mut self.status),
            b"Phased-Update-Percentage" => Some(&mut self.phased_percent),
            _ => None,
        }
    }

    fn clear(&mut self) {
        for text in [
            &mut self.package,
            &mut self.version,
            &mut self.architecture,
            &mut self.status,
            &mut self.phased_percent,
        ] {
            text.clear();
        }
    }
}

/// Calls `each` with the fields of every package in `lines`.
pub(super) fn each_package<R: Read>(lines: &mut FileLines<'_, R>, mut each: impl FnMut(&PackageFields)) {
    let mut fields = PackageFields::default();
    while let Some(line) = lines.next_line() {
        if line.is_empty() {
            each_if_any(&fields, &mut each);
            fields.clear();
        } else if let Some((slot, value)) =
            field(line).and_then(|(name, value)| Some((fields.slot(name)?, value)))
        {
            slot.clear();
            slot.push_str(value);
        }
    }
    // The last paragraph of a list that was cut may be incomplete.
    if !lines.is_cut() {
        each_if_any(&fields, &mut each);
    }
}

fn each_if_any(fields: &PackageFields, each: &mut impl FnMut(&PackageFields)) {
    if !fields.package.is_empty() {
        each(fields);
    }
}

/// Name and value of a field; `None` for a line that continues one or is not UTF-8.
fn field(line: &[u8]) -> Option<(&[u8], &str)> {
    // Names of fields are short: most lines are decided here.
    let colon = line.iter().take(32).position(|byte| *byte == b':')?;
    let (name, rest) = line.split_at_checked(colon)?;
    let is_name = name.first().is_some_and(u8::is_ascii_alphabetic);
    is_name.then(|| std::str::from_utf8(rest.get(1..)?).ok().map(|value| (name, value.trim())))?
}

/// What the release of a list says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReleaseHead {
    pub(super) is_security: bool,
    /// apt does not install from it by itself.
    pub(super) is_not_automatic: bool,
    /// apt still updates what came from it.
    pub(super) updates_by_itself: bool,
}

/// The release that the list `list` belongs to: the file whose name, without its end, begins the
/// name of the list. Without one, the name of the list has to do.
pub(super) fn release_of(view: &SystemView<'_>, folder: &SystemFolder, list: &SystemEntry) -> ReleaseHead {
    let ends = ["_InRelease", "_Release"];
    let mut found: Option<(usize, &SystemEntry)> = None;
    for end in ends {
        for entry in folder.files_ending(end) {
            let stem = entry.name.strip_suffix(end).unwrap_or_default();
            let is_its = list.name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('_'));
            if is_its && found.is_none_or(|(length, _)| stem.len() > length) {
                found = Some((stem.len(), entry));
            }
        }
    }
    let mut head = ReleaseHead { is_security: is_security_word(&list.name), ..ReleaseHead::default() };
    let file = found.and_then(|(_, entry)| view.open(folder, entry));
    if let Some(file) = file {
        read_head(&mut FileLines::new(file, view, RELEASE_BYTES_MAX), &mut head);
    }
    head
}

fn read_head<R: Read>(lines: &mut FileLines<'_, R>, head: &mut ReleaseHead) {
    while let Some(line) = lines.next_line() {
        let Some((name, value)) = field(line) else { continue };
        match name {
            b"Suite" | b"Codename" | b"Label" => head.is_security |= is_security_word(value),
            b"NotAutomatic" => head.is_not_automatic = value == "yes",
            b"ButAutomaticUpgrades" => head.updates_by_itself = value == "yes",
            b"MD5Sum" | b"SHA1" | b"SHA256" | b"SHA512" => return,
            _ => {}
        }
    }
}

/// Debian says `bookworm-security` and `Debian-Security`, Ubuntu `noble-security`.
fn is_security_word(text: &str) -> bool {
    text.to_ascii_lowercase().contains("security")
}
