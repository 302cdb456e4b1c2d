//! `par-launcher` contains what a launcher needs, and nothing of the front's.
//!
//! Every child of a call is a fork of the launcher: what is linked into it is mapped in a hostile
//! builtin.

#![expect(clippy::disallowed_methods, reason = "a test looks at the environment")]

use crate::support::launcher_binary;
use std::collections::BTreeMap;

/// Crates that only the front needs, each by the prefix of its symbols; a C library by its own
/// prefix.
const FRONT: [&str; 11] = [
    "cedar_policy",
    "cedar_policy_core",
    "cedar_policy_formatter",
    "rusqlite",
    "libsqlite3_sys",
    "sqlite3",
    "axum",
    "axum_core",
    "hyper",
    "reqwest",
    "tokio",
];
/// A symbol of at most this many bytes is a constant or a stub.
const SYMBOL_BYTES_MAX: u64 = 64;

#[test]
fn holds_nothing_of_the_front() {
    let file = launcher_binary();
    let bytes = std::fs::read(&file).expect("par-launcher");
    let symbols = symbols(&bytes);
    if symbols.is_empty() {
        // A release build is stripped.
        assert!(std::env::var_os("PAR_TEST_BIN").is_some(), "{} has no symbols", file.display());
        eprintln!("\nSKIPPED: {} has no symbols: it was stripped\n", file.display());
        return;
    }
    println!("{}", sizes(&bytes, &symbols));
    let own = symbols.iter().filter(|(name, _)| owner(name).as_deref() == Some("par")).count();
    assert!(own > 100, "{own} symbols of PAR's own: names are not read as they are written");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, size) in &symbols {
        if *size > SYMBOL_BYTES_MAX && is_of_front(name) {
            let owner = owner(name).unwrap_or_else(|| "C".to_owned());
            found.entry(owner).or_default().push(format!("{size:>8} {name}"));
        }
    }
    let told = |(owner, symbols): (&String, &Vec<String>)| format!("{owner}:\n{}", symbols.join("\n"));
    let told: Vec<String> = found.iter().map(told).collect();
    assert!(found.is_empty(), "par-launcher holds code of the front's:\n{}", told.join("\n"));
}

/// Where the bytes of the binary are: its sections, then its symbols by crate, the largest first.
fn sizes(file: &[u8], symbols: &[(String, u64)]) -> String {
    let mut by_crate: BTreeMap<String, u64> = BTreeMap::new();
    for (name, size) in symbols {
        *by_crate.entry(owner(name).unwrap_or_else(|| "C and the compiler".to_owned())).or_default() += size;
    }
    let mut by_crate: Vec<(String, u64)> = by_crate.into_iter().collect();
    by_crate.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let row = |(name, size): &(String, u64)| format!("{size:>10}  {name}");
    let sections = sections(file).into_iter().filter(|(_, size)| *size > 4_096);
    let rows = sections.chain([(String::new(), 0)]).chain(by_crate.into_iter().take(30));
    rows.map(|each| row(&each)).collect::<Vec<_>>().join("\n")
}

fn is_of_front(name: &str) -> bool {
    owner(name).is_some_and(|owner| FRONT.contains(&owner.as_str())) || name.starts_with("sqlite3")
}

/// The crate of a symbol, by its mangled name: the first path in it. `None` if it is not Rust's.
fn owner(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("_ZN") {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = rest[..digits].parse().ok()?;
        let first = rest.get(digits..digits + length)?;
        // `<tokio::X as core::Y>`: signs are enclosed in dollars, and paths have dots.
        let plain = ["$LT$", "$RF$", "$BP$", "$LP$", "$u5b$", "$u20$"]
            .iter()
            .fold(first.to_owned(), |text, sign| text.replace(sign, " "));
        let word = plain
            .split([' ', '.'])
            .map(|word| word.trim_start_matches('_'))
            .find(|word| !["", "mut", "const", "dyn", "impl"].contains(word));
        return word.map(str::to_owned);
    }
    // The newer form: a crate's root is `C`, a number that distinguishes versions, and its name.
    let mut rest = name.strip_prefix("_R")?;
    loop {
        rest = &rest[rest.find('C')? + 1..];
        let named = match rest.strip_prefix('s').and_then(|more| more.split_once('_')) {
            Some((number, named)) if number.chars().all(|c| c.is_ascii_alphanumeric()) => named,
            _ => rest,
        };
        let digits = named.find(|c: char| !c.is_ascii_digit())?;
        let length: Option<usize> = named[..digits].parse().ok();
        if let Some(name) = length.and_then(|length| named[digits..].trim_start_matches('_').get(..length)) {
            return Some(name.to_owned());
        }
    }
}

#[test]
fn symbols_are_read_by_their_owner() {
    for (name, owner_is) in [
        ("_ZN5tokio7runtime4park6parked17h0123456789abcdefE", Some("tokio")),
        (
            "_ZN63_$LT$hyper..error..Error$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
            Some("hyper"),
        ),
        ("_ZN4core3ptr30drop_in_place$LT$tokio..X$GT$17h0123456789abcdefE", Some("core")),
        ("_ZN40_$LT$$RF$mut$u20$par..launcher..X$GT$3fmt17h0123456789abcdefE", Some("par")),
        ("_RNvNtCs1234_5tokio4time5sleep", Some("tokio")),
        ("_RNvXs_NtCs9Zz_7reqwest5errorNtB4_5ErrorNtCs1_4core3fmt", Some("reqwest")),
        ("memcpy", None),
    ] {
        assert_eq!(owner(name).as_deref(), owner_is, "{name}");
    }
    assert!(is_of_front("sqlite3VdbeExec") && !is_of_front("memcpy"));
}

/// A section header of a 64-bit ELF file (elf(5), `Elf64_Shdr`).
struct Section {
    /// Offset of its name in the section that holds names.
    name: usize,
    kind: u64,
    offset: usize,
    size: usize,
    /// The section that holds the names of its symbols.
    link: usize,
}

/// The little-endian number in `bytes` bytes of `file` from `at` on.
fn number(file: &[u8], at: usize, bytes: usize) -> usize {
    let number = file[at..at + bytes].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).expect("an offset in the file")
}

fn section_headers(file: &[u8]) -> Vec<Section> {
    assert_eq!(&file[..6], b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file");
    let (table, size, count) = (number(file, 0x28, 8), number(file, 0x3a, 2), number(file, 0x3c, 2));
    let heads = (0..count).map(|at| table + at * size);
    heads
        .map(|head| Section {
            name: number(file, head, 4),
            kind: number(file, head + 4, 4) as u64,
            offset: number(file, head + 0x18, 8),
            size: number(file, head + 0x20, 8),
            link: number(file, head + 0x28, 4),
        })
        .collect()
}

/// The text from `at` on up to its NUL.
fn text_at(file: &[u8], at: usize) -> String {
    let bytes = file[at..].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// The sections that a running program has in memory, with their bytes, the largest first.
fn sections(file: &[u8]) -> Vec<(String, u64)> {
    const FLAG_ALLOC: usize = 2;
    let table = number(file, 0x28, 8);
    let headers = section_headers(file);
    let names = headers[number(file, 0x3e, 2)].offset;
    let is_mapped = |at: usize| number(file, table + at * 64 + 8, 8) & FLAG_ALLOC != 0;
    let mapped = headers.iter().enumerate().filter(|(at, _)| is_mapped(*at));
    let mut found: Vec<(String, u64)> =
        mapped.map(|(_, section)| (text_at(file, names + section.name), section.size as u64)).collect();
    found.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    found
}

/// Names and sizes in the symbol table; empty if the binary was stripped.
fn symbols(file: &[u8]) -> Vec<(String, u64)> {
    const SYMBOL_TABLE: u64 = 2;
    const SYMBOL_BYTES: usize = 24;
    let headers = section_headers(file);
    let Some(table) = headers.iter().find(|section| section.kind == SYMBOL_TABLE) else { return Vec::new() };
    let names = headers[table.link].offset;
    (table.offset..table.offset + table.size)
        .step_by(SYMBOL_BYTES)
        .map(|at| (text_at(file, names + number(file, at, 4)), number(file, at + 16, 8) as u64))
        .filter(|(_, size)| *size > 0)
        .collect()
}
