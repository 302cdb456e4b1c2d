//! Packages of which a newer version is known, on hosts of the Debian family.
//!
//! Read from what dpkg and apt keep, since apt itself needs to write a cache and take a lock.

use super::deb_version::DebVersion;
use super::folders::{SystemEntry, SystemFolder, SystemView};
use super::lines::FileLines;
use super::package_lists::{PackageFields, ReleaseHead, each_package, release_of};
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::types::clock::Wall;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Packages that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 50;
/// Bytes of dpkg's status that are read.
const STATUS_BYTES_MAX: u64 = 64 << 20;
/// Bytes of one list that are read.
const LIST_BYTES_MAX: u64 = 256 << 20;
/// Lists that are read.
const LISTS_MAX: usize = 256;
/// Installed packages that are looked at.
const INSTALLED_MAX: usize = 100_000;
/// How the names of compressed lists end (`Acquire::GzipIndexes`, apt.conf(5)), and the reasons why
/// such a list is not read: PAR has no decoder of these formats.
const COMPRESSED: [(&str, &str); 6] = [
    ("_Packages.lz4", "compressed_lz4"),
    ("_Packages.gz", "compressed_gz"),
    ("_Packages.xz", "compressed_xz"),
    ("_Packages.zst", "compressed_zst"),
    ("_Packages.bz2", "compressed_bz2"),
    ("_Packages.lzma", "compressed_lzma"),
];

/// An installed package, and the newest versions of it that were found.
#[derive(Debug)]
struct InstalledPackage {
    architecture: String,
    version: DebVersion,
    is_held: bool,
    /// From a list that apt installs from by itself.
    newest: Option<DebVersion>,
    /// From a list that apt only updates from.
    newest_on_request: Option<DebVersion>,
    /// Share of hosts that get the newest version now, if not all.
    phased_percent: Option<u64>,
    is_security: bool,
}

/// Installed packages by name: one for each architecture.
#[derive(Debug, Default)]
struct InstalledSet {
    by_name: BTreeMap<String, Vec<InstalledPackage>>,
    count: usize,
    native: String,
}

/// How many lists were read, and when they were last changed here.
#[derive(Debug, Default)]
struct ListsRead {
    read: u64,
    /// Lists that were not read to their end, by reason.
    unread: BTreeMap<&'static str, u64>,
    /// Whether installed packages were left out.
    is_status_cut: bool,
    malformed: u64,
    changed_s: Option<i64>,
}

impl ListsRead {
    fn leave(&mut self, reason: &'static str, lists: usize) {
        if lists > 0 {
            let count = self.unread.entry(reason).or_default();
            *count = count.saturating_add(lists as u64);
        }
    }

    /// Whether all that is installed was compared with all lists.
    fn is_complete(&self) -> bool {
        self.read > 0 && self.unread.is_empty() && !self.is_status_cut
    }
}

/// Counts and lists the packages of which a newer version is known.
pub(super) fn pending_updates(view: &SystemView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    // Which version apt would take also depends on these, and only apt reads them.
    view.note("apt_preferences");
    view.note("dependencies");
    let mut lists = ListsRead::default();
    let mut installed = installed(view, &mut lists)?;
    for folder in view.named("lists") {
        read_lists(view, folder, &mut installed, &mut lists);
    }
    if lists.read == 0 {
        view.note("package_lists");
    }
    let mut pending: Vec<(&str, &InstalledPackage)> = installed
        .by_name
        .iter()
        .flat_map(|(name, all)| all.iter().map(move |one| (name.as_str(), one)))
        .filter(|(_, one)| one.candidate().is_some())
        .collect();
    pending.sort_by_key(|(_, one)| !one.is_security);
    let count = |is: fn(&InstalledPackage) -> bool| pending.iter().filter(|(_, one)| is(one)).count();
    // What a list says that was not read is not known: that is not none.
    let known = |count: usize| lists.is_complete().then_some(count);
    let mut list = Fitting::new(
        integer(arguments, "limit", LIMIT_DEFAULT),
        output_bytes_max.saturating_sub(FRAME_BYTES),
    );
    for (name, one) in &pending {
        if list.is_full() {
            break;
        }
        list.push(one.members(name));
    }
    let (packages, _) = list.finish();
    let unreadable: Vec<Value> =
        lists.unread.iter().map(|(reason, lists)| json!({ "reason": reason, "lists": lists })).collect();
    let age_s = lists.changed_s.map(|at| now_s().saturating_sub(at).max(0));
    Ok(json!({
        "count": known(pending.len()),
        "security": known(count(|one| one.is_security)),
        "held": known(count(|one| one.is_held)),
        "phased": known(count(|one| one.phased_percent.is_some())),
        "installed": installed.count,
        "as_of": lists.changed_s.map(rfc3339),
        "age_s": age_s,
        "lists_read": lists.read,
        "lists_unread": lists.unread.values().sum::<u64>(),
        "unreadable": unreadable,
        "malformed": lists.malformed,
        "truncated": packages.len() < pending.len(),
        "packages": packages,
    }))
}

fn now_s() -> i64 {
    i64::try_from(Wall::now().0 / 1_000_000).unwrap_or(i64::MAX)
}

fn rfc3339(seconds: i64) -> String {
    Wall(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000)).rfc3339()
}

/// What is installed, from `/var/lib/dpkg/status`.
fn installed(view: &SystemView<'_>, lists: &mut ListsRead) -> Result<InstalledSet, String> {
    let status = view.named("dpkg").find_map(|folder| Some((folder, folder.files_ending("status").next()?)));
    let file = status.and_then(|(folder, entry)| view.open(folder, entry));
    let file =
        file.ok_or("the status of dpkg is not here or may not be read: is this host of the Debian family?")?;
    let mut all = InstalledSet::default();
    let mut lines = FileLines::new(file, view, STATUS_BYTES_MAX);
    each_package(&mut lines, |fields| all.add(fields, lists));
    if lines.is_cut() || all.count >= INSTALLED_MAX {
        lists.is_status_cut = true;
        view.note("further_packages");
    }
    let dpkg = all.by_name.get("dpkg").and_then(|all| all.first());
    all.native = dpkg.map(|one| one.architecture.clone()).unwrap_or_default();
    Ok(all)
}

fn read_lists(view: &SystemView<'_>, folder: &SystemFolder, set: &mut InstalledSet, lists: &mut ListsRead) {
    for (end, reason) in COMPRESSED {
        lists.leave(reason, folder.files_ending(end).count());
    }
    // apt makes a link to a list of this host (`file:` in sources.list(5)).
    let is_list =
        |name: &str| name.ends_with("_Packages") || COMPRESSED.iter().any(|(end, _)| name.ends_with(end));
    let others = folder.entries.iter().filter(|entry| !entry.is_file && is_list(&entry.name));
    lists.leave("not_a_file", others.count());
    lists.leave("folder_too_large", usize::from(folder.is_cut));
    for (at, entry) in folder.files_ending("_Packages").enumerate() {
        let left_out = match at < LISTS_MAX {
            false => Some("too_many"),
            true if !view.has_time() => Some("time"),
            true => read_list(view, folder, entry, set, lists),
        };
        match left_out {
            None => lists.read = lists.read.saturating_add(1),
            Some(reason) => lists.leave(reason, 1),
        }
    }
    for reason in lists.unread.keys() {
        let is_compressed = reason.starts_with("compressed_");
        view.note(if is_compressed { "compressed_package_lists" } else { "further_package_lists" });
    }
    // apt renames what it fetched into place, and works in `partial` even if nothing is new.
    let changes = folder.entries.iter().map(|entry| match entry.is_file {
        true => entry.changed_s,
        false => entry.modified_s,
    });
    let newest = changes.chain([folder.modified_s]).max().filter(|_| lists.read > 0);
    lists.changed_s = lists.changed_s.max(newest);
}

/// Offers all packages of a list; returns why it was not read to its end, if it was not.
fn read_list(
    view: &SystemView<'_>,
    folder: &SystemFolder,
    entry: &SystemEntry,
    set: &mut InstalledSet,
    lists: &mut ListsRead,
) -> Option<&'static str> {
    let release = release_of(view, folder, entry);
    let Some(file) = view.open(folder, entry) else { return Some("not_opened") };
    let mut lines = FileLines::new(file, view, LIST_BYTES_MAX);
    each_package(&mut lines, |fields| set.offer(fields, release, lists));
    lines.cut_by()
}

impl InstalledSet {
    /// Adds a package of dpkg's status if it is installed.
    fn add(&mut self, fields: &PackageFields, lists: &mut ListsRead) {
        let mut words = fields.status.split(' ');
        let [wanted, _, state] = [words.next(), words.next(), words.next()];
        let is_there = matches!(state, Some("installed" | "triggers-awaited" | "triggers-pending"));
        if !is_there || self.count >= INSTALLED_MAX {
            return;
        }
        let Some(version) = DebVersion::parse(&fields.version).filter(|_| is_plain(fields)) else {
            lists.malformed = lists.malformed.saturating_add(1);
            return;
        };
        self.count += 1;
        self.by_name.entry(fields.package.clone()).or_default().push(InstalledPackage {
            architecture: fields.architecture.clone(),
            version,
            is_held: wanted == Some("hold"),
            newest: None,
            newest_on_request: None,
            phased_percent: None,
            is_security: false,
        });
    }

    /// Notes a version that a list offers, if it is not older than the one that is installed.
    fn offer(&mut self, fields: &PackageFields, release: ReleaseHead, lists: &mut ListsRead) {
        let Some(all) = self.by_name.get_mut(&fields.package) else { return };
        let native = self.native.as_str();
        // A package for every architecture may become one for this host's, and the reverse.
        let own = |architecture: &str| {
            if architecture == "all" { native.to_owned() } else { architecture.to_owned() }
        };
        let architecture = own(&fields.architecture);
        let Some(one) = all.iter_mut().find(|one| own(&one.architecture) == architecture) else { return };
        let Some(version) = DebVersion::parse(&fields.version) else {
            lists.malformed = lists.malformed.saturating_add(1);
            return;
        };
        // Without a request apt takes nothing from such a release.
        if version < one.version || (release.is_not_automatic && !release.updates_by_itself) {
            return;
        }
        one.is_security |= release.is_security && version > one.version;
        let best = if release.is_not_automatic { &mut one.newest_on_request } else { &mut one.newest };
        if best.as_ref().is_none_or(|best| version > *best) {
            one.phased_percent = fields.phased_percent.parse().ok().filter(|percent| *percent < 100);
            *best = Some(version);
        }
    }
}

impl InstalledPackage {
    /// The version that apt would take if nothing held it back: the newest from a release that it
    /// installs from by itself. Only if that offers none, one from a release that it updates from.
    fn candidate(&self) -> Option<&DebVersion> {
        let best = self.newest.as_ref().or(self.newest_on_request.as_ref());
        best.filter(|best| **best > self.version)
    }

    fn members(&self, name: &str) -> Value {
        let mut one = Map::new();
        for (member, value) in [
            ("name", json!(name)),
            ("architecture", json!(self.architecture)),
            ("installed", json!(self.version.as_str())),
            ("candidate", json!(self.candidate().map(DebVersion::as_str))),
            ("security", json!(self.is_security)),
            ("held", json!(self.is_held)),
        ] {
            one.insert(member.to_owned(), value);
        }
        one.extend(self.phased_percent.map(|percent| ("phased_percent".to_owned(), json!(percent))));
        Value::Object(one)
    }
}

/// Whether name and architecture have only the characters that packages have.
fn is_plain(fields: &PackageFields) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+.-".contains(&byte);
    let is_short = |text: &str| !text.is_empty() && text.len() <= 200;
    [&fields.package, &fields.architecture]
        .into_iter()
        .all(|text| is_short(text) && text.bytes().all(is_name))
}
