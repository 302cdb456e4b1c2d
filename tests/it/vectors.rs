//! Published test vectors, from a folder next to the project: RFC 8785, FIPS 180-4 and RFC 6962.

#![expect(clippy::disallowed_methods, reason = "tests are told by the environment what to require")]

use base64::Engine as _;
use par::ledger::{Head, proof};
use par::types::Digest;
use par::types::json::{canonical, has_only_exact_integers, parse_strict};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder of vectors `name`, or `None` with a message if this machine has none; then nothing is
/// checked. With `PAR_REQUIRE_SHARED=1` it must be there.
fn vectors(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    let is_required = std::env::var_os("PAR_REQUIRE_SHARED").is_some_and(|value| value == "1");
    assert!(!is_required, "{} is missing, and PAR_REQUIRE_SHARED is set", folder.display());
    eprintln!("NOT CHECKED: {} is missing", folder.display());
    None
}

/// RFC 8785: inputs of exact integers give exactly the published bytes; any other number is
/// refused.
#[test]
fn canonical_json() {
    let Some(folder) = vectors("jcs") else { return };
    let (mut equal, mut refused) = (0, 0);
    for item in std::fs::read_dir(folder.join("testdata/input")).expect("inputs") {
        let path = item.expect("entry").path();
        let value = parse_strict(&std::fs::read(&path).expect("input"), 64).expect("JSON");
        let output = folder.join("testdata/output").join(path.file_name().expect("name"));
        let expect = std::fs::read(output).expect("output");
        match canonical(&value) {
            Ok(bytes) => {
                assert_eq!(bytes.as_bytes(), expect, "{}", path.display());
                equal += 1;
            }
            Err(e) => {
                assert!(!has_only_exact_integers(&value), "{}: {e}", path.display());
                refused += 1;
            }
        }
    }
    assert!(equal >= 4 && refused >= 1 && equal + refused >= 6, "{equal} equal, {refused} refused");
}

/// FIPS 180-4, short messages.
#[test]
fn sha256() {
    let Some(folder) = vectors("sha256") else { return };
    let text = std::fs::read_to_string(folder.join("SHA256ShortMsg.rsp")).expect("vectors");
    let mut checked = 0;
    let (mut bits, mut message) = (0, Vec::new());
    for line in text.lines() {
        match line.split_once(" = ") {
            Some(("Len", value)) => bits = value.trim().parse::<usize>().expect("length"),
            Some(("Msg", value)) => message = unhex(value.trim()),
            Some(("MD", value)) => {
                // An empty message is written as one zero byte.
                let digest = Digest::sha256(&message[..bits / 8]);
                assert_eq!(digest.hex(), value.trim(), "{bits} bits");
                assert_eq!(Digest::from_hex(value.trim()), Some(digest));
                checked += 1;
            }
            _ => {}
        }
    }
    assert_eq!(checked, 65);
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).expect("hex")).collect()
}

/// RFC 6962: proofs of inclusion and of consistency, valid and invalid ones.
#[test]
fn proofs() {
    let Some(folder) = vectors("rfc6962") else { return };
    let hash = |value: &Value| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(value.as_str()?).ok()?;
        // Some cases say "whatever" in place of a hash: any other hash does the same.
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty())?;
        Some(bytes.as_slice().try_into().map_or_else(|_| Digest::sha256(&bytes), Digest))
    };
    let hashes =
        |value: &Value| value.as_array().map_or(Some(Vec::new()), |list| list.iter().map(hash).collect());
    let mut counts = [0, 0];
    let mut check = |folder: &str, holds: &dyn Fn(&Value) -> Option<bool>| {
        for path in files(&folder_of(&vectors("rfc6962").expect("folder"), folder)) {
            let case: Value = serde_json::from_slice(&std::fs::read(&path).expect("case")).expect("JSON");
            let is_wrong = case["wantErr"] == true;
            assert_eq!(holds(&case).unwrap_or(false), !is_wrong, "{}: {case}", path.display());
            counts[usize::from(is_wrong)] += 1;
        }
    };
    assert!(folder.is_dir());
    check("inclusion", &|case| {
        let head = Head { size: case["treeSize"].as_u64()?, root: hash(&case["root"])? };
        Some(proof::is_included(
            hash(&case["leafHash"])?,
            case["leafIdx"].as_u64()?,
            head,
            &hashes(&case["proof"])?,
        ))
    });
    check("consistency", &|case| {
        let old = Head { size: case["size1"].as_u64()?, root: hash(&case["root1"])? };
        let new = Head { size: case["size2"].as_u64()?, root: hash(&case["root2"])? };
        Some(proof::is_extended(old, new, &hashes(&case["proof"])?))
    });
    assert!(counts[0] >= 12 && counts[1] >= 184, "{counts:?}");
}

fn folder_of(vectors: &Path, name: &str) -> PathBuf {
    vectors.join("testdata").join(name)
}

/// Every file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let items = std::fs::read_dir(folder).expect("folder").map(|item| item.expect("item").path());
    items.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
