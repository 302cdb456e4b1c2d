//! `docs/questions.md`: ten questions of an operator's day on a host with real trouble, with
//! `offline` and with a scripted model. What differs between hosts and runs is replaced, and the
//! page is compared with what this test makes.

mod table;
mod trouble;

use crate::model::{House, Reply};
use crate::support::{TestHome, is_root, text};
use serde_json::{Value, json};
use std::path::Path;
use table::{AskedOffline, AskedQuestion, QUESTIONS};
use trouble::{Trouble, TroubledHost};

const HEAD: &str = "\
# Ten questions

What an operator asks, on a host in trouble: a file system is full, nginx failed, a process uses a
whole processor, a certificate has expired, and the logs have errors. Each question is put to
`offline`, which uses no model, and to a model. A line with `→` is a call, with the decision, the
rule and how the call ended. Each of them is in the ledger.

`tests/it/questions.rs` makes such a host, asks, and compares this page with the answers. The model
is a script that makes the calls shown and says the sentence shown; the calls, the decisions and the
results are real. Names of folders, process ids, ports and times are replaced; what differs between
hosts is `…` or left out.
";

/// A call as the page shows it.
fn step(step: &Value, trouble: &Trouble) -> String {
    let arguments = step["args"].as_object().expect("arguments").iter();
    let arguments: Vec<String> = arguments.map(|(name, value)| format!("{name}={value}")).collect();
    let rules: Vec<&str> =
        step["policies"].as_array().expect("rules").iter().filter_map(Value::as_str).collect();
    let (tool, decision) =
        (step["tool"].as_str().expect("a tool"), step["decision"].as_str().expect("a decision"));
    let end = step["status"].as_str().expect("a status");
    let call = trouble.settled(&format!("{tool}({})", arguments.join(", ")));
    format!("→ {call}\n  {decision} by {}, {end}\n", rules.join(", "))
}

fn steps(run: &Value, trouble: &Trouble) -> String {
    run["steps"].as_array().expect("steps").iter().map(|one| step(one, trouble)).collect()
}

/// `line` without what stands between the words before and after `~`.
fn without(line: &str, differs: &str) -> String {
    let (before, after) = differs.split_once('~').expect("a mark");
    let (head, rest) = line.split_once(before).unwrap_or_else(|| panic!("{before} is not in {line}"));
    let tail = rest.find(after).filter(|_| !after.is_empty()).map_or("", |at| &rest[at..]);
    format!("{head}{before}…{tail}")
}

/// An answer of `offline`: the lines about the trouble, each as far as it is the same everywhere.
fn answer(words: &str, asked: &AskedOffline, trouble: &Trouble) -> String {
    let mut out = String::new();
    for line in words.lines().filter(|line| !line.starts_with("offline provider: ")) {
        let line = trouble.settled(line);
        let kept = asked.keep.iter().find(|(word, _)| line.contains(word));
        let line = match kept {
            Some((_, "")) => line,
            Some((_, differs)) => without(&line, differs),
            // Another full file system of this host.
            None if line.starts_with(' ') || line.starts_with("Not looked into") => continue,
            None => match line.split_once(": ") {
                Some((tool, _)) => format!("{tool}: …"),
                None => line,
            },
        };
        out += &format!("{line}\n");
    }
    out
}

fn asked_without_a_model(asked: &AskedOffline, home: &TestHome, trouble: &Trouble) -> String {
    let message = trouble.placed(asked.message);
    let ask = || -> Value {
        let told = home.par(&["run", "--json", &message]);
        serde_json::from_slice(&told.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&told.stderr)))
    };
    // On a host with more to do than it can, the busy process may be out of sight for a while.
    let is_told = |run: &Value| {
        let words = trouble.settled(run["answer"].as_str().expect("an answer"));
        asked.keep.iter().all(|(word, _)| words.contains(word))
    };
    let run = (0..5).map(|_| ask()).find(is_told);
    let run = run.unwrap_or_else(|| panic!("{}: {:?} is not told: {}", asked.message, asked.keep, ask()));
    assert!(!run.to_string().contains("S3CRET"), "{run}");
    let answer = answer(run["answer"].as_str().expect("an answer"), asked, trouble);
    format!("$ par run \"{}\"\n{}\n{answer}", trouble.settled(&message), steps(&run, trouble))
}

fn asked_with_a_model(question: &AskedQuestion, house: &House, trouble: &Trouble) -> String {
    let calls: Vec<(String, String)> = question
        .calls
        .iter()
        .map(|(tool, arguments)| ((*tool).to_owned(), trouble.placed(arguments)))
        .collect();
    house.model.play([Reply::Calls(calls), Reply::Say(question.says.to_owned())]);
    let run = house.server.run(&house.key, question.title).json();
    assert_eq!((&run["status"], &run["answer"]), (&json!("done"), &json!(question.says)), "{run}");
    let results = trouble.settled(&run["steps"].to_string());
    for word in question.shows {
        assert!(results.contains(word), "{}: {word} is not in {results}", question.title);
    }
    assert!(!results.contains("S3CRET"), "{results}");
    format!("{}\n{}\n", steps(&run, trouble), question.says)
}

/// Each question is answered without a model and with one, and the page shows it.
#[test]
fn ten_questions_are_answered_on_a_host_in_trouble() {
    let offline = TestHome::init();
    if !is_root() {
        eprintln!("\nSKIPPED: NOT root: no file system was mounted, and docs/questions.md not compared\n");
        return;
    }
    let host = TroubledHost::start(&offline);
    let Some(trouble) = Trouble::make(&offline, &host) else { return };
    let is_whole = trouble.is_full;
    let asked: Vec<&AskedQuestion> = QUESTIONS.iter().filter(|one| is_whole || !one.is_of_disk).collect();
    // What is asked about in the last question.
    let denied = "read_file(path=\"/etc/shadow\")";
    offline.expect(0, &["run", denied]);
    let without = |question: &&AskedQuestion| -> String {
        let all: Vec<String> =
            question.asked.iter().map(|one| asked_without_a_model(one, &offline, &trouble)).collect();
        all.join("\n")
    };
    let without: Vec<String> = asked.iter().map(without).collect();
    drop(trouble);
    let mut made = None;
    let house = House::start(|home| made = Trouble::make(home, &host));
    let trouble = made.expect("a bus");
    house.model.play([Reply::Calls(vec![("read_file".to_owned(), r#"{"path":"/etc/shadow"}"#.to_owned())])]);
    assert_eq!(
        house.server.run(&house.key, "what is in /etc/shadow?").json()["steps"][0]["decision"],
        "deny"
    );
    let mut page = HEAD.to_owned();
    for (question, without) in asked.iter().zip(without) {
        let with = asked_with_a_model(question, &house, &trouble);
        page += &format!(
            "\n## {}\n\nWithout a model:\n\n```text\n{without}```\n\nWith a model:\n\n```text\n{with}```\n",
            question.title
        );
    }
    house.check_ledger();
    offline.expect(0, &["audit", "verify"]);
    if is_whole {
        compare(&page);
    }
}

#[expect(clippy::disallowed_methods, reason = "a variable of this test")]
fn compare(page: &str) {
    let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/questions.md");
    if std::env::var_os("PAR_UPDATE").is_some() {
        std::fs::write(&shown, page).expect("written");
    }
    let is_same = std::fs::read_to_string(&shown).unwrap_or_default() == page;
    if !is_same {
        let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("questions.md");
        std::fs::write(&made, page).expect("written");
        panic!("docs/questions.md differs from {}: PAR_UPDATE=1 writes it", made.display());
    }
}
