//! The documents at the top and in `docs/`: their links lead to files and headings, the paths that
//! they name exist, and the first two stay short.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Documents outside `docs/`.
const TOP: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"];
const README_WORDS_MAX: usize = 1_100;
const ARCHITECTURE_WORDS_MAX: usize = 2_800;

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    let mut followed = 0;
    let mut headings: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for page in pages() {
        let text = read(&page);
        for target in links(&text).into_iter().filter(|target| is_relative(target)) {
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = page.parent().expect("a folder");
            let file = if file.is_empty() { page.clone() } else { folder.join(file) };
            if !file.exists() {
                wrong.push(format!("{}: `{target}`: there is no such file", page.display()));
                continue;
            }
            if anchor.is_empty() {
                continue;
            }
            let known = headings.entry(file.clone()).or_insert_with(|| slugs(&read(&file)));
            if !known.contains(anchor) {
                wrong.push(format!("{}: `{target}`: there is no such heading", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
    assert!(followed >= 40, "only {followed} links were found");
}

/// The proofs of the invariants are named by file, and so is the code of the walk.
#[test]
fn every_source_path_in_architecture_and_decisions_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    let mut found = 0;
    for page in ["ARCHITECTURE.md", "docs/decisions.md"] {
        for named in code_spans(&read(&top.join(page))).into_iter().filter(|named| is_source_path(named)) {
            found += 1;
            if !top.join(&named).exists() && !top.join("src").join(&named).exists() {
                wrong.push(format!("{page}: `{named}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "paths that do not exist:\n{}", wrong.join("\n"));
    assert!(found >= 80, "only {found} paths were found");
}

/// Each route of the API and each code of a problem is on the page about HTTP.
#[test]
fn the_page_about_http_has_every_route_and_code() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = read(&top.join("docs/http.md"));
    let (routes, problems) = (read(&top.join("src/http/routes.rs")), read(&top.join("src/http/problem.rs")));
    let routes =
        routes.split(".route(\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(route, _)| route);
    let quoted =
        problems.lines().filter_map(|line| line.split_once(" = ")?.1.split_once(" \"")?.1.split_once('"'));
    let codes = quoted.filter(|(_, rest)| rest.starts_with(" \"")).map(|(code, _)| code);
    let missing = |words: Vec<&str>, count: usize| {
        assert!(words.len() >= count, "only {} were found: {words:?}", words.len());
        words.into_iter().filter(|word| !page.contains(*word)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(missing(routes.collect(), 18), Vec::<String>::new());
    let codes: Vec<String> = codes.map(|code| format!("`{code}`")).collect();
    assert_eq!(missing(codes.iter().map(String::as_str).collect(), 20), Vec::<String>::new());
}

#[test]
fn the_front_door_stays_short() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (page, max) in [("README.md", README_WORDS_MAX), ("ARCHITECTURE.md", ARCHITECTURE_WORDS_MAX)] {
        let words = read(&top.join(page)).split_whitespace().count();
        assert!(words <= max, "{page} has {words} words, and may have {max}");
    }
}

#[test]
fn slugs_are_as_github_makes_them() {
    let page =
        "# One\n## `GET /audit/{seq}`\n### Three words, *one* mark\n## One\n```\n# not a heading\n```\n";
    let expect = ["one", "one-1", "get-auditseq", "three-words-one-mark"];
    assert_eq!(slugs(page), expect.map(str::to_owned).into_iter().collect());
}

#[test]
fn links_in_code_are_not_links() {
    let page = "[a](a.md), `[b](b.md)` and <img src=\"c.png\">\n```\n[d](d.md)\n```\n";
    assert_eq!(links(page), ["a.md", "c.png"]);
}

fn pages() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(top.join("docs")).expect("docs/");
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.expect("entry").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.extend(TOP.map(|name| top.join(name)));
    pages.sort();
    pages
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Whether a code span is the path of a file of this repository: below a folder, with an extension
/// that sources have.
fn is_source_path(span: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    let has_extension = [".rs", ".txt", ".out", ".py"].iter().any(|extension| span.ends_with(extension));
    span.contains('/') && has_extension && span.bytes().all(is_plain)
}

/// The lines outside of fenced blocks.
fn prose(page: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines
}

/// Text and code spans of a page in turn, beginning with text. No span is longer than its
/// paragraph.
fn spans(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for paragraph in prose(page).join("\n").split("\n\n") {
        found.extend(paragraph.split('`').map(str::to_owned));
        if found.len() % 2 == 1 {
            found.push(String::new());
        }
    }
    found
}

fn code_spans(page: &str) -> Vec<String> {
    spans(page).into_iter().skip(1).step_by(2).collect()
}

/// The targets of inline links, and of images in HTML.
fn links(page: &str) -> Vec<String> {
    // A code span in a link's text leaves the link whole: `[` and `](` are outside of it.
    let text: String = spans(page).into_iter().step_by(2).collect::<Vec<_>>().join("");
    let mut found = Vec::new();
    for (before, after) in [("](", ')'), (" src=\"", '"'), (" srcset=\"", '"')] {
        for rest in text.split(before).skip(1) {
            found.extend(rest.split_once(after).map(|(target, _)| target.to_owned()));
        }
    }
    found
}

/// The anchors of a page's headings.
fn slugs(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(page) {
        let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let slug = slug(heading.trim());
        let numbered = (1..).map(|at| format!("{slug}-{at}"));
        let free = std::iter::once(slug.clone()).chain(numbered).find(|slug| !found.contains(slug));
        found.extend(free);
    }
    found
}

/// Lower case, a hyphen for a space, and nothing but letters, digits, hyphens and underscores.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}
