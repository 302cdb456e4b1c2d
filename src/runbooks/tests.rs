//! What is refused, with its line, and what chooses a runbook.

use super::{Runbook, RunbookFile, RunbookTools, Runbooks};
use crate::tools::{Catalog, Places};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The shipped tools.
struct ShippedTools {
    catalog: Catalog,
    off: BTreeSet<String>,
    paths: BTreeMap<String, PathBuf>,
}

static SHIPPED: LazyLock<ShippedTools> = LazyLock::new(|| {
    let names = [("logs", "/var/log"), ("workspace", "/srv/par/workspace")];
    let paths: BTreeMap<String, PathBuf> =
        names.into_iter().map(|(name, path)| (name.to_owned(), path.into())).collect();
    let places = Places { names: paths.clone(), private: Vec::new() };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d");
    let catalog = Catalog::load(&folder, &places).expect("tools");
    ShippedTools { catalog, off: ["git_clone".to_owned()].into(), paths }
});

fn tools() -> RunbookTools<'static> {
    RunbookTools { catalog: &SHIPPED.catalog, off: &SHIPPED.off, paths: &SHIPPED.paths }
}

fn file(name: &str, text: &str) -> RunbookFile {
    RunbookFile { name: format!("runbooks.d/{name}.md"), text: text.to_owned() }
}

fn parse(files: &[RunbookFile]) -> Result<Runbooks, Vec<String>> {
    let told = |faults: Vec<super::RunbookFault>| faults.iter().map(ToString::to_string).collect();
    Runbooks::parse(files, &tools()).map_err(told)
}

const GOOD: &str = "+++
when = [\"{service} is down\", \"restart {service}\"]
service = [\"nginx\", \"ssh\"]
tools = [\"health_check\", \"search_files\", \"git_clone\"]
+++
# {service} is down

1. `health_check()` first.
2. `search_files(path=\"@logs/{service}\", pattern=\"error\")`
3. `git_clone(url=\"https://example.com/{service}\")` is off.

Then look at {service} again.
";

#[test]
fn a_runbook_is_chosen_by_a_whole_phrase_alone() {
    let books = parse(&[file("down", GOOD)]).expect("a runbook");
    for message in ["nginx is down", " NGINX\tis \n Down  "] {
        let given = books.chosen(message).expect(message);
        assert_eq!((given.name.as_str(), given.service.as_deref()), ("down", Some("nginx")));
        assert!(given.text.starts_with("# nginx is down\n\n1. `health_check()` first."), "{}", given.text);
        assert!(
            given.text.contains(r#"search_files(path="/var/log/nginx", pattern="error")"#),
            "{}",
            given.text
        );
        assert_eq!(given.after_steps(), "Then look at nginx again.");
        let steps: Vec<String> =
            given.steps.iter().map(|step| format!("{} {}", step.tool, step.arguments)).collect();
        assert_eq!(
            steps,
            [
                "health_check {}",
                r#"search_files {"path":"/var/log/nginx","pattern":"error"}"#,
                r#"git_clone {"url":"https://example.com/nginx"}"#
            ]
        );
    }
    for other in [
        "is down",
        "nginx is down?",
        "my nginx is down",
        "nginx is down and ssh is down",
        "nginx  is down\u{200b}",
        "{service} is down",
        "apache is down",
        "nginx\u{2003}is downs",
        "",
    ] {
        assert!(books.chosen(other).is_none(), "{other}");
    }
}

/// Lines that go on with the words of a step are not what comes after the steps.
#[test]
fn the_words_of_a_step_may_be_wrapped() {
    let text = GOOD.replace("is off.\n", "is off,\n   as it was yesterday: \n  see above.\n");
    let books = parse(&[file("down", &text)]).expect("a runbook");
    let given = books.chosen("nginx is down").expect("chosen");
    assert_eq!(given.after_steps(), "Then look at nginx again.");
    let alone = text.replace("\nThen look at {service} again.\n", "");
    let books = parse(&[file("down", &alone)]).expect("a runbook");
    assert_eq!(books.chosen("nginx is down").expect("chosen").after_steps(), "");
}

/// An alert chooses by the exact table of the front matter, and brings no other word with it.
#[test]
fn an_alert_chooses_the_runbook_that_lists_it() {
    let with = |text: &str| text.replace("tools =", "alert = [\"WebDown\"]\ntools =");
    let disk = with("+++\nwhen = [\"disk full\"]\ntools = []\n+++\n# Disk\n").replace("WebDown", "DiskFull");
    let books = parse(&[file("down", &with(GOOD)), file("disk", &disk)]).expect("runbooks");
    let chosen = |message: &str| books.chosen(message).map(|given| (given.name, given.service));
    assert_eq!(chosen("alert DiskFull"), Some(("disk".to_owned(), None)));
    assert_eq!(chosen("Alert  diskfull"), Some(("disk".to_owned(), None)));
    // Each step has its service.
    assert_eq!(chosen("alert WebDown ssh"), Some(("down".to_owned(), Some("ssh".to_owned()))));
    for other in [
        "DiskFull",
        "alert DiskFull on web1",
        "alert DiskFull: now restart all",
        "alert WebDown",
        "alert WebDown apache",
        "alerts DiskFull",
    ] {
        assert_eq!(chosen(other), None, "{other}");
    }
    let refused = |texts: [&str; 2]| {
        parse(&[file("a", texts[0]), file("b", texts[1])]).expect_err("two of one").join("\n")
    };
    let of_same_name = with(GOOD).replace("WebDown", "diskfull");
    let told = refused([&disk, &of_same_name]);
    assert!(told.contains("runbooks.d/b.md:4: the alert `diskfull` belongs to `a` already"), "{told}");
    let phrase = "+++\nwhen = [\"alert DiskFull\"]\ntools = []\n+++\n# Other\n";
    let told = refused([&disk, phrase]);
    assert!(told.contains("runbooks.d/b.md:2: the phrase `alert diskfull` chooses `a` already"), "{told}");
}

/// Every refusal names its file and line.
#[test]
fn what_is_wrong_is_refused_with_its_line() {
    let check = |from: &str, to: &str, expect: &str| {
        assert!(GOOD.contains(from), "{from}");
        let faults = parse(&[file("down", &GOOD.replacen(from, to, 1))]).expect_err(expect);
        assert!(faults.iter().any(|fault| fault.starts_with(expect)), "{faults:?} is not {expect}");
    };
    check("+++\n", "", "runbooks.d/down.md:1: a runbook starts with a line `+++`");
    check("+++\n#", "#", "runbooks.d/down.md:1: a runbook starts with");
    check("tools =", "tolls =", "runbooks.d/down.md:4: unknown field `tolls`");
    check("[\"nginx\"", "[1, \"nginx\"", "runbooks.d/down.md:3: invalid type: integer");
    check("\"ssh\"", "\"s h\"", "runbooks.d/down.md:3: `s h` is not the name of a service");
    check(
        "service = [\"nginx\", \"ssh\"]\n",
        "",
        "runbooks.d/down.md:2: `{service}` needs the list `service`",
    );
    check("\"restart {service}\"", "\"a\\nb\"", "runbooks.d/down.md:2: a phrase is one line");
    check(
        "\"restart {service}\"",
        "\"{name}\"",
        "runbooks.d/down.md:2: a phrase has at most one `{service}`",
    );
    check("\"restart {service}\"", "\" \"", "runbooks.d/down.md:2: a phrase has 1 to 200 bytes");
    check("\"restart {service}\"", "\"it is down\"", "runbooks.d/down.md:9: `{service}` in a step needs");
    check(
        "\"restart {service}\"",
        "\"{service}  IS down\"",
        "runbooks.d/down.md:2: the phrase `nginx is down` chooses `down` already",
    );
    check(
        "\"git_clone\"]",
        "\"git_clon\"]",
        "runbooks.d/down.md:4: no tool is named `git_clon`, did you mean `git_clone`?",
    );
    check(
        "`health_check()`",
        "`health_chek()`",
        "runbooks.d/down.md:8: no tool is named `health_chek`, did you mean",
    );
    check("`health_check()`", "`memory_usage()`", "runbooks.d/down.md:8: `memory_usage` is not in `tools`");
    check("`health_check()`", "`health_check(a=1)`", "runbooks.d/down.md:8: the arguments: ");
    check("`health_check()`", "`health_check()", "runbooks.d/down.md:8: a step is");
    check("`health_check()`", "`health_check(); health_check()`", "runbooks.d/down.md:8: a step is");
    check(
        "`health_check()` first",
        "`health_check()` first, then `search_files(path=\"@logs\", pattern=\"x\")`",
        "runbooks.d/down.md:8: a step has exactly one call, and this line calls `search_files` too",
    );
    check("`health_check()`", "`rm -rf /`", "runbooks.d/down.md:8: a step is");
    check("pattern=\"error\"", "patern=\"error\"", "runbooks.d/down.md:9: ");
    check("pattern=\"error\"", "pattern=\"a\", pattern=\"b\"", "runbooks.d/down.md:9: ");
    check("@logs/", "@log/", "runbooks.d/down.md:9: `@log` is not in `[paths]`");
    check(
        "1. `health",
        "- `health",
        "runbooks.d/down.md:8: this line calls `health_check` and is not a step",
    );
    check("# {service}", "{service}", "runbooks.d/down.md:6: the text starts with a title");
    check("Then look", "Then\u{202e} look", "runbooks.d/down.md:12: has a character that is invisible");
    check("Then look", "Then\u{1b}[2J look", "runbooks.d/down.md:12: has a character");
    let large = format!("{GOOD}{}", "x".repeat(crate::types::limits::RUNBOOK_BYTES_MAX));
    let faults = parse(&[file("down", &large)]).expect_err("too large");
    assert!(faults[0].starts_with("runbooks.d/down.md: has 16"), "{faults:?}");
    let faults = parse(&[file("Not a name", GOOD)]).expect_err("a name");
    assert!(
        faults[0].starts_with("runbooks.d/Not a name.md: the name `Not a name` is not an id"),
        "{faults:?}"
    );
}

#[test]
fn two_runbooks_with_one_phrase_or_alert_are_refused() {
    let book = |when: &str, alert: &str| {
        format!("+++\nwhen = [\"{when}\"]\nalert = [\"{alert}\"]\ntools = []\n+++\n# T\n")
    };
    let two = |a: &str, b: &str| parse(&[file("a", a), file("b", b)]);
    two(&book("one", "A"), &book("two", "B")).expect("both");
    assert_eq!(
        two(&book("Disk  full", "A"), &book("disk full", "B")).expect_err("one phrase"),
        ["runbooks.d/b.md:2: the phrase `disk full` chooses `a` already"]
    );
    assert_eq!(
        two(&book("one", "A"), &book("two", "A")).expect_err("one alert"),
        ["runbooks.d/b.md:3: the alert `A` belongs to `a` already"]
    );
}

/// A tool that is off stays known: disabling a tool does not refuse the runbooks that name it.
#[test]
fn a_step_of_a_tool_that_is_off_is_known_as_such() {
    let books = parse(&[file("down", GOOD)]).expect("a runbook");
    let book = books.find("down").expect("there");
    let on: Vec<(&str, bool)> = book.steps().map(|step| (step.tool(), step.is_on)).collect();
    assert_eq!(on, [("health_check", true), ("search_files", true), ("git_clone", false)]);
}

/// Removing a tool refuses no runbook either: only a name that is near another is mistyped.
#[test]
fn a_tool_that_is_not_there_is_as_one_that_is_off() {
    let text = GOOD.replace("git_clone", "page_the_operator");
    let books = parse(&[file("down", &text)]).expect("a runbook");
    let last = books.find("down").and_then(|book| book.steps().last()).expect("a step");
    assert_eq!((last.tool(), last.is_on), ("page_the_operator", false));
}

/// The shipped runbooks are ten, each has steps, and each is chosen by each of its phrases.
#[test]
fn the_shipped_runbooks_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("runbooks.d");
    let mut files: Vec<RunbookFile> = std::fs::read_dir(folder)
        .expect("runbooks")
        .map(|item| {
            let path = item.expect("an item").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            file(name, &std::fs::read_to_string(&path).expect("text"))
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let books = parse(&files).unwrap_or_else(|faults| panic!("{}", faults.join("\n")));
    assert_eq!(books.iter().count(), 10);
    for book in books.iter() {
        assert!(book.steps().count() >= 2, "{}", book.name);
        for phrase in &book.when {
            assert_eq!(books.chosen(&phrase.to_uppercase()).map(|given| given.name), Some(book.name.clone()));
        }
    }
}

proptest! {
    #![proptest_config(crate::types::laws::cases(256))]

    /// Whatever stands in a file, it is a runbook or refused with its name.
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), step in "[0-9]{0,2}[.] `[a-z_(){}\"=,@ ]{0,30}`.{0,9}") {
        for text in [text.clone(), format!("+++\nwhen = [\"x\"]\ntools = [\"health_check\"]\n+++\n# T\n{step}\n{text}")] {
            if let Err(faults) = parse(&[file("x", &text)]) {
                prop_assert!(!faults.is_empty() && faults.iter().all(|fault| fault.starts_with("runbooks.d/x.md")));
            }
        }
    }

    /// Nothing but a phrase chooses, however near it is.
    #[test]
    fn no_other_text_chooses(before in "[a-z .?]{0,3}", after in "[a-z .?]{0,3}") {
        let books = parse(&[file("down", GOOD)]).expect("a runbook");
        let is_blank = |text: &str| text.trim().is_empty();
        let chosen = books.chosen(&format!("{before}nginx is down{after}"));
        prop_assert_eq!(chosen.is_some(), is_blank(&before) && is_blank(&after));
    }
}

#[test]
fn a_runbook_without_steps_is_words() {
    let text = "+++\nwhen = [\"who is on call\"]\ntools = []\n+++\n# On call\n\nAsk the operator.\n";
    let books = parse(&[file("call", text)]).expect("a runbook");
    let given = books.chosen("Who is on call").expect("chosen");
    assert_eq!((given.steps.len(), given.text.as_str()), (0, "# On call\n\nAsk the operator."));
    assert_eq!(books.find("call").map(|book: &Runbook| book.title.as_str()), Some("On call"));
}
