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
                    "{portnumber}" => "80",
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
    assert_eq!(sentences().filter(of_commands).count(), 5);
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
    let openssl = r#"search_files {"path":"/var/log","pattern":"(?i)openssl","regex":true}"#;
    check("search for openssl in /var/log", openssl);
    check("search openssl in /var/log", openssl);
    check(
        "grep \"install ok\" /var/log/dpkg.log",
        r#"search_files {"path":"/var/log/dpkg.log","pattern":"(?i)install ok","regex":true}"#,
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
        r#"search_files {"path":"/var/log/syslog","pattern":"(?i)a\",\"path\":\"/etc","regex":true}"#,
    );
    check("find @logs in /x", r#"search_files {"path":"/x","pattern":"(?i)@logs","regex":true}"#);
    // No character of the text has a meaning in the expression.
    check("find {path} in /x", r#"search_files {"path":"/x","pattern":"(?i)\\{path\\}","regex":true}"#);
    check("find a.*b in /x", r#"search_files {"path":"/x","pattern":"(?i)a\\.\\*b","regex":true}"#);
    check("show @workspace", r#"read_file {"path":"/var/log/@workspace"}"#);
}

/// Issue 15: what an operator typed and was misread or not understood.
#[test]
fn sentences_near_to_others_are_understood() {
    let all = all_tools();
    let check = |message: &str, expect: &str| {
        let told = told(message, &all);
        assert!(told.starts_with(expect), "{message}: {told}");
    };
    let timeout = r#"search_files {"path":"/var/log","pattern":"(?i)timeout","regex":true}"#;
    for message in ["grep timeout in the logs", "find timeout in logs", "search the logs for timeout"] {
        check(message, timeout);
    }
    let workspace = r#"list_dir {"path":"/srv/par/workspace"}"#;
    check("list the files in the workspace", workspace);
    check("which files are in the workspace?", workspace);
    check("what is in the nginx folder of the logs?", r#"list_dir {"path":"/var/log/nginx"}"#);
    check("could you tell me how much memory is free?", "memory_usage {}");
    check("show me auth.log", r#"read_file {"path":"/var/log/auth.log"}"#);
    check("show me the errors in syslog", r#"search_files {"path":"/var/log/syslog""#);
    check("tail -n 20 syslog", r#"tail_file {"path":"/var/log/syslog","lines":20}"#);
    check("is port 5432 open?", r#"tcp_probe {"host":"localhost:5432"}"#);
    check("is port 22 open on localhost?", r#"tcp_probe {"host":"localhost:22"}"#);
    check("what listens on port 80?", "listening_ports {}");
    check("what is using the cpu?", r#"process_list {"sort":"cpu""#);
    check("top processes", r#"process_list {"sort":"cpu""#);
    check("free memory", "memory_usage {}");
    check("df -h", "disk_usage {}");
    check("any errors today?", r#"journal_search {"since":"today""#);
    check("errors in syslog since yesterday", r#"search_files {"path":"/var/log/syslog""#);
    check("who got denied today", "who_was_denied {}");
    check("what was denied yesterday?", r#"who_was_denied {"hours":48}"#);
    check("failed logins in the last hour", r#"logins {"hours":1}"#);
    check("who logged in last?", "logins {}");
    check("roll demo back to 1.0.0", r#"deploy {"project":"demo","version":"1.0.0"}"#);
    check("what did I deploy last?", "This is read at a terminal of the server");
    check("what needs my approval?", "This is read at a terminal of the server");
    check("please restart the web server", "Name the service");
    assert_eq!(told("is port 5432 open?", &["listening_ports"]), "listening_ports {}");
}

/// Issue 15: a message that is not understood printed every sentence and every tool. Those that
/// nothing here answers were among them.
#[test]
fn a_message_is_answered_with_the_nearest_sentences() {
    let all = offered(&all_tools());
    let near = |message: &str| super::near(&words(message), &all, 3);
    assert!(near("restart nginx.service and show its log").contains(&"restart nginx"));
    let failed = near("how many logins failed so far");
    assert!(failed.iter().any(|one| one.starts_with("failed logins")), "{failed:?}");
    assert_eq!(near("make me a sandwich").len(), 3);
    let shown: Vec<&str> = sentences().filter(|one| one.is_on(&all)).map(|one| one.example).collect();
    assert!(shown.contains(&"restart nginx"));
    assert!(["rm -rf /", "reboot", "stop nginx"].iter().all(|nothing| !shown.contains(nothing)), "{shown:?}");
}
