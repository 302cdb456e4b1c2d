//! What PAR is built from: licences, sources and duplicates of packages, by `cargo metadata`.
//! `deny.toml` says the same to cargo-deny, which knows advisories too.

use super::source::top;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Licences that a package may be under. One of an `OR` is enough; all of an `AND` must be here.
const LICENCES: [&str; 11] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages that are built in two versions, each with the one that holds the older version back.
const TWICE: [(&str, &str); 12] = [
    ("bit-vec", "fancy-regex of jsonschema, and proptest"),
    ("block-buffer", "digest 0.10"),
    ("crypto-common", "digest 0.10"),
    ("digest", "sha2 0.10 of cedar-policy's parser generator; ours is 0.11"),
    ("getrandom", "ring, ahash and tempfile are at three steps of its releases"),
    ("hashbrown", "indexmap 1 of serde_with"),
    ("indexmap", "serde_with, for its optional support of version 1"),
    ("itertools", "cedar-policy's parser generator"),
    ("schemars", "serde_with, for its optional support of two versions"),
    ("syn", "macros that have not moved to version 3"),
    ("synstructure", "macros that have not moved to version 3 of syn"),
    ("unicode-width", "cedar-policy's formatter"),
];

const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The packages of the lock file, as cargo resolves them for this target.
fn packages() -> Vec<Value> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = crate::support::start(std::path::Path::new(env!("CARGO")))
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", &target])
        .current_dir(top())
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages").clone();
    assert!(packages.len() > 100, "only {} packages", packages.len());
    packages
}

/// Whether `expression` (SPDX) is allowed by `LICENCES`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(" / ", " OR ").replace('/', " OR ").replace(['(', ')'], "");
    // No package here has an `OR` of `AND`s: an `AND` binds what is on its sides, each of which may
    // be an `OR`.
    expression.split(" AND ").all(|part| part.split(" OR ").any(|one| LICENCES.contains(&one.trim())))
}

#[test]
fn every_licence_is_allowed_and_every_source_is_known() {
    for package in packages() {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or_default());
        assert!(is_allowed(licence), "{name}: the licence `{licence}` is not in the list");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source == SOURCE), "{name} comes from {source:?}");
        assert!(source.is_some() || *name == "par", "{name} is a package by path");
    }
    assert!(is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed(""));
}

#[test]
fn what_is_built_twice_is_known() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let text = |key: &str| package[key].as_str().expect("text").to_owned();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let twice: BTreeSet<&str> =
        versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name.as_str()).collect();
    let known: BTreeSet<&str> = TWICE.iter().map(|(name, _)| *name).collect();
    assert_eq!(twice, known, "packages in two versions; the second list is the known one");
}
