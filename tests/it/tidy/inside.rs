//! Imports inside a room: a module file declares its children lowest first, and a child names only
//! what its parent declares before it. Names that a parent re-exports are for rooms above: inside,
//! the module itself is named.

use super::source::{File, declared, files, paths, shown};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn inside_a_room_imports_run_down() {
    let up = running_up();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (from, _) in &up {
        *counts.entry(from.split("::").next().expect("a room").to_owned()).or_default() += 1;
    }
    let wrong: Vec<String> = up.iter().map(|(from, to)| format!("{from} → {to}")).collect();
    println!("imports that run up: {counts:?}");
    assert!(wrong.is_empty(), "imports that run up inside a room:\n{}", wrong.join("\n"));
}

/// Pairs of modules of one room: the first names the second, which is not below it.
fn running_up() -> BTreeSet<(String, String)> {
    let files = files();
    let order = declared(&files);
    let modules: BTreeSet<Vec<String>> = files.iter().map(File::module).collect();
    let mut up = BTreeSet::new();
    for file in files.iter().filter(|file| !file.is_test() && file.room().is_some()) {
        let from = file.module();
        // `pub(in crate::room)` says who may name an item; it names nothing.
        for path in paths(&file.code.replace("(in crate::", "(")) {
            let Some(to) = resolved(&from, &path, &modules) else { continue };
            if to.first() != from.first() || is_below(&from, &to, &order) {
                continue;
            }
            up.insert((from.join("::"), to.join("::")));
        }
    }
    up
}

/// The innermost module that `path` names, seen from `from`.
fn resolved(from: &[String], path: &[String], modules: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let mut at = from.to_vec();
    let mut words = path.iter();
    let mut rest: Vec<&String> = Vec::new();
    match words.next()?.as_str() {
        "crate" => at.clear(),
        "super" => drop(at.pop()),
        _ => {}
    }
    for word in words {
        if word == "super" && rest.is_empty() {
            at.pop();
        } else if word != "self" {
            rest.push(word);
        }
    }
    for word in rest {
        let next: Vec<String> = at.iter().chain([word]).cloned().collect();
        if !modules.contains(&next) {
            break;
        }
        at = next;
    }
    Some(at)
}

/// Whether `to` is below `from`: inside it, or declared before it by the module that contains both.
fn is_below(from: &[String], to: &[String], order: &BTreeMap<Vec<String>, Vec<String>>) -> bool {
    let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let (Some(mine), Some(theirs)) = (from.get(shared), to.get(shared)) else {
        // One contains the other: the inner one may not name the outer one.
        return to.len() >= from.len();
    };
    let Some(children) = order.get(&from[..shared]) else { return false };
    let place = |name: &String| children.iter().position(|child| child == name);
    matches!((place(mine), place(theirs)), (Some(mine), Some(theirs)) if theirs < mine)
}

#[test]
fn what_is_declared_is_read() {
    let files = files();
    let lines: usize = files.iter().map(|file| file.text.lines().count()).sum();
    let kept: usize = files.iter().filter(|file| !file.is_test()).map(|file| file.code.lines().count()).sum();
    let blank = |file: &File| file.code.lines().filter(|line| line.trim().is_empty()).count();
    let blanks: usize = files.iter().filter(|file| !file.is_test()).map(blank).sum();
    println!("{} files, {lines} lines, {} of code", files.len(), kept - blanks);
    // What the reader takes for comments and tests can never be most of a product's lines.
    assert!(kept - blanks > lines / 3, "{} of {lines} lines were read as code", kept - blanks);
    for file in &files {
        let braces = |c| file.code.matches(c).count();
        assert_eq!(braces('{'), braces('}'), "{} is not read as Rust reads it", shown(&file.path));
    }
}
