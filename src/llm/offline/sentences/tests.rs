//! Every sentence has its steps, and a text stays one argument.

use super::super::form::words;
use super::super::meaning::Meaning;
use super::{NamedFolders, Understood, meant, sentences, understand};
use crate::llm::ToolOffer;
use std::fmt::Write as _;

const TOOLS: [&str; 9] = [
    "deploy",
    "git_clone",
    "health_check",
    "http_get",
    "list_dir",
    "read_file",
    "search_files",
    "service_restart",
    "tail_file",
];

/// Every tool that a sentence names.
fn all_tools() -> Vec<&'static str> {
    fn of(means: &Meaning) -> Vec<&'static str> {
        match means {
            Meaning::Steps(steps) => steps.iter().map(|step| step.tool).collect(),
            Meaning::Either(steps, other) => steps.iter().map(|step| step.tool).chain(of(other)).collect(),
            _ => Vec::new(),
        }
    }
    let mut tools: Vec<&str> = sentences().flat_map(|sentence| of(&sentence.means)).collect();
    tools.sort_unstable();
    tools.dedup();
    tools
}

fn offered(names: &[&str]) -> Vec<ToolOffer> {
    let offer = |name: &&str| ToolOffer {
        name: (*name).to_owned(),
        summary: String::new(),
        input: serde_json::json!({}),
    };
    names.iter().map(offer).collect()
}

fn told(message: &str, tools: &[&str]) -> String {
    let folders = NamedFolders { logs: "/var/log".into(), workspace: "/srv/par/workspace".into() };
    match understand(&words(message), &folders, &offered(tools)) {
        None => "not understood".to_owned(),
        Some(Understood::Answer(text)) => text,
        Some(Understood::Help) => "help".to_owned(),
        Some(Understood::Calls(calls)) => {
            let lines: Vec<String> =
                calls.iter().map(|call| format!("{} {}", call.tool, call.arguments)).collect();
            lines.join("\n")
        }
    }
}

/// Each example with its steps, as `sentences.out` has them: at least sixty.
#[test]
fn the_sentences_of_an_operators_day_have_their_steps() {
    let (mut found, all) = (String::new(), all_tools());
    assert!(sentences().count() >= 60);
    for sentence in sentences() {
        writeln!(found, "> {}\n{}\n", sentence.example, told(sentence.example, &all)).expect("text");
    }
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/llm/offline/sentences.out");
    if std::fs::read_to_string(&golden).unwrap_or_default() != found {
        let new = golden.with_extension("new");
        std::fs::write(&new, &found).expect("written");
        panic!("the steps differ from {}: compare {}", golden.display(), new.display());
    }
}

/// What a sentence asks, in a cell of the page.
fn asks(means: &Meaning) -> String {
    match means {
        Meaning::Steps(steps) => {
            let mut tools: Vec<&str> = Vec::new();
            for step in *steps {
                if !tools.contains(&step.tool) {
                    tools.push(step.tool);
                }
            }
            tools.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", ")
        }
        Meaning::Either(steps, other) => format!("{}; else {}", asks(&Meaning::Steps(steps)), asks(other)),
        Meaning::Command(_) => "the command that shows it".to_owned(),
        Meaning::Say(_) => "what to say instead".to_owned(),
        Meaning::Missing(..) => "the nearest tools, because none does it".to_owned(),
        Meaning::Help => "this list, for the tools that are on".to_owned(),
    }
}

/// The page has a row for each sentence, made from the table.
#[test]
fn the_page_lists_every_sentence() {
    let rows: String =
        sentences().map(|one| format!("| {} | {} |\n", one.example, asks(&one.means))).collect();
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/offline.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let head = "| sentence | what is asked |\n|---|---|\n";
    let (before, after) = text.split_once(head).expect("the table");
    let after = after.find("\n\n").map_or("", |end| after.split_at(end).1);
    let made =
        format!("{before}{head}{}{after}", if after.is_empty() { rows.as_str() } else { rows.trim_end() });
    if made != text {
        let new = page.with_extension("new");
        std::fs::write(&new, &made).expect("written");
        panic!("the sentences differ from {}: compare {}", page.display(), new.display());
    }
}

/// Each form is reached by some message: its own words, with a value in each slot.
#[test]
fn every_form_means_what_its_example_means() {
    let all = all_tools();
    for sentence in sentences() {
        for form in sentence.forms {
            let said: Vec<&str> = form
                .split(' ')
                .filter(|word| !word.starts_with('['))
                .map(|word| match word {
                    "{path}" => "/var/log/x",
                    "{number}" => "7",
                    "{pid}" => "7",
                    "{port}" => "localhost:80",
                    "{url}" => "http://localhost:80/",
                    word if word.starts_with('{') => "value",
                    word => word.split('|').next().unwrap_or_default(),
                })
                .collect();
            let said = said.join(" ");
            let tools = |told: String| -> Vec<String> {
                let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
                told.lines().map(first).collect()
            };
            let (is, ought) = (told(&said, &all), told(sentence.example, &all));
            assert_eq!(tools(is), tools(ought), "{said:?} of {:?}", sentence.example);
        }
    }
}

#[test]
fn a_sentence_about_a_tool_that_is_off_says_so() {
    let text = told("restart nginx", &["list_dir"]);
    assert!(text.contains("`service_restart`, which is not on"), "{text}");
    assert_eq!(told("how is this server doing?", &["health_check"]), "health_check {}");
    assert_eq!(told("delete the logs", &TOOLS), "not understood");
    let of_commands = |sentence: &&super::Sentence| matches!(sentence.means, Meaning::Command(_));
    assert_eq!(sentences().filter(of_commands).count(), 4);
    // With the tool, the same sentence is a call.
    assert_eq!(told("who was denied?", &["who_was_denied"]), "who_was_denied {}");
    assert!(told("who was denied?", &TOOLS).contains("par audit show decision:deny"));
}

/// What a stranger said and was misread or not understood.
#[test]
fn forty_more_sentences_of_a_day_are_understood() {
    let check = |message: &str, expect: &str| {
        let told = told(message, &TOOLS);
        assert!(told.starts_with(expect), "{message}: {told}");
    };
    check("show approvals", "This is read at a terminal of the server, with:\n  par approval list");
    check("find files in demo", r#"list_dir {"path":"/srv/par/workspace/demo"}"#);
    check("find files in /var/log", r#"list_dir {"path":"/var/log"}"#);
    check("who was denied today", "This is read at a terminal of the server");
    check(
        "show me the last 20 lines of /var/log/dpkg.log",
        r#"tail_file {"path":"/var/log/dpkg.log","lines":20}"#,
    );
    let openssl = r#"search_files {"path":"/var/log","pattern":"openssl"}"#;
    check("search for openssl in /var/log", openssl);
    check("search openssl in /var/log", openssl);
    check(
        "grep \"install ok\" /var/log/dpkg.log",
        r#"search_files {"path":"/var/log/dpkg.log","pattern":"install ok"}"#,
    );
    for nothing in
        ["status of nginx", "is nginx running?", "stop nginx", "reboot", "who is logged in?", "rm -rf /"]
    {
        check(nothing, "No tool here does that");
    }
    check(
        "check certificate of example.com",
        "No tool here does that (to check a certificate). What comes nearest",
    );
    check("roll back demo", "Name the version");
    check("what failed last night?", "This is read at a terminal of the server");
    // Issue 15, finding 24: "you" is the agent, not a user of the host.
    check("what did you do today?", "This is read at a terminal of the server, with:\n  par runs list\n");
    check("what did ana do yesterday?", "This is read at a terminal of the server");
    assert!(told("what did ana do yesterday?", &TOOLS).contains("principal:os:ana since:48h"));
    check("what's new in /var/log", r#"list_dir {"path":"/var/log"}"#);
    for help in ["help", "what can you do?", "hello", "Hello!"] {
        check(help, "help");
    }
}

/// A misspelled word does not hide what was meant, and nothing is done before it is said again.
#[test]
fn a_misspelled_sentence_is_answered_with_what_was_meant() {
    let check = |message: &str, expect: Option<&str>| {
        assert_eq!(told(message, &TOOLS), "not understood", "{message}");
        assert_eq!(meant(&words(message)).as_deref(), expect, "{message}");
    };
    check("deply demo 1.0.1", Some("deploy demo 1.0.1"));
    check("restrat nginx", Some("restart nginx"));
    check("serach syslog for \"a b\"", Some("search syslog for \"a b\""));
    check("make me a sandwich", None);
}

/// What a person types stays data: no quote, brace or name of a folder in it changes the call.
#[test]
fn a_text_is_one_argument_whatever_is_in_it() {
    let check = |message: &str, expect: &str| assert_eq!(told(message, &TOOLS), expect, "{message}");
    check(
        r#"search syslog for 'a","path":"/etc'"#,
        r#"search_files {"path":"/var/log/syslog","pattern":"a\",\"path\":\"/etc"}"#,
    );
    check("find @logs in /x", r#"search_files {"path":"/x","pattern":"@logs"}"#);
    check("find {path} in /x", r#"search_files {"path":"/x","pattern":"{path}"}"#);
    check("show @workspace", r#"read_file {"path":"/var/log/@workspace"}"#);
}
