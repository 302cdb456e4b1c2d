//! Each type name means one thing, so that a search for it finds that and nothing else.

use super::source::{File, files, shown, without_words};
use std::collections::{BTreeMap, BTreeSet};

/// Names that are defined more than once, each with the reason.
const SHARED: [(&str, &str); 4] = [
    (
        "Launcher",
        "in `cli` the arguments of a command have the command's name; in `sandbox` it is the way to the process",
    ),
    ("Layer", "what keeps a protection, and in the tests of the sandbox the switch that leaves one out"),
    (
        "Order",
        "the gate's order to run a call, and the order in which entries are read: both are the field's word",
    ),
    (
        "Replay",
        "in `cli` the arguments of a command have the command's name; in `rules` it is what they ask for",
    ),
];

#[test]
fn a_type_name_is_defined_once() {
    let defined = defined();
    println!("{} names of types", defined.len());
    for known in ["Permit", "Receipt", "Hold", "RawResponse"] {
        assert!(defined.contains_key(known), "`{known}` was not found");
    }
    let shared: BTreeSet<&str> = SHARED.iter().map(|(name, _)| *name).collect();
    let twice = defined.iter().filter(|(_, places)| places.len() > 1);
    let wrong: Vec<String> = twice
        .filter(|(name, _)| !shared.contains(name.as_str()))
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(wrong.is_empty(), "names of types that are defined more than once:\n{}", wrong.join("\n"));
    for (name, reason) in SHARED {
        let is_shared = defined.get(name).is_some_and(|places| places.len() > 1);
        assert!(is_shared, "`{name}` is not defined more than once: take it out of the list");
        assert!(reason.len() > 20, "`{name}` needs its reason");
    }
}

/// Each name of a `struct`, `enum`, `union` or `trait`, tests included, with where it is defined.
fn defined() -> BTreeMap<String, Vec<String>> {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files() {
        for name in names(&file) {
            defined.entry(name).or_default().push(shown(&file.path));
        }
    }
    defined
}

fn names(file: &File) -> Vec<String> {
    let code = without_words(&file.text);
    let words: Vec<&str> = code.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| ["struct", "enum", "union", "trait"].contains(&pair[0]));
    let name = |pair: &[&str]| pair[1].split(|c: char| !c.is_alphanumeric()).next().map(str::to_owned);
    pairs.filter_map(name).collect()
}
