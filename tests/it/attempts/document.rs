//! The threat model says what the tests show, and names what they do not.

use super::table::{Expect, ROWS};
use super::{is_source_there, is_test};

const DOCUMENT: &str = include_str!("../../../docs/threat-model.md");

/// Each test that it names exists.
#[test]
fn each_promise_has_its_tests() {
    if !is_source_there() {
        eprintln!("skipped: the source is not where this test was built");
        return;
    }
    let promises = section("## What is promised");
    for row in promises.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise ")) {
        let named: Vec<&str> = row.split('`').filter(|word| word.contains(".rs::")).collect();
        assert!(!named.is_empty(), "no test: {row}");
        named.iter().for_each(|name| assert!(is_test(name), "missing test {name}"));
    }
}

/// It lists by number what is not held and what is not tested, and nothing else.
#[test]
fn every_attempt_not_held_or_not_tested_is_listed() {
    let numbers = |title: &str| -> Vec<u32> {
        let rows = section(title)
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse().ok());
        rows.collect()
    };
    let of = |wanted: &[Expect]| -> Vec<u32> {
        ROWS.iter().filter(|row| wanted.contains(&row.expect)).map(|row| row.number).collect()
    };
    assert_eq!(numbers("## What is not held"), of(&[Expect::HeldByView]));
    assert_eq!(numbers("## What is not tested"), of(&[Expect::Untested]));
}

#[test]
fn it_is_linked() {
    for page in [include_str!("../../../README.md"), include_str!("../../../ARCHITECTURE.md")] {
        assert!(page.contains("docs/threat-model.md"));
    }
}

/// The text from a title to the next.
fn section(title: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("\n{title}\n")).unwrap_or_else(|| panic!("no `{title}`"));
    rest.split("\n## ").next().unwrap_or(rest)
}
