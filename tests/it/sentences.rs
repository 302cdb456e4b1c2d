//! The sentences that `offline` understands, on a home as shipped.

use crate::support::{TestHome, text};

/// Each sentence is answered, and each call that it proposes fits the schema of its tool.
#[test]
fn sixty_sentences_become_valid_calls_or_say_what_is_off() {
    let home = TestHome::init();
    let key = home.key("asks", "operator");
    let server = home.serve();
    let sentences: Vec<&str> = include_str!("../../src/llm/offline/sentences.out")
        .lines()
        .filter_map(|line| line.strip_prefix("> "))
        .collect();
    assert!(sentences.len() >= 60, "{} sentences", sentences.len());
    let help = server.run(&key, "help").json()["answer"].as_str().expect("an answer").to_owned();
    for sentence in sentences {
        let reply = server.run(&key, sentence).json();
        let (answer, steps) =
            (reply["answer"].as_str().unwrap_or_default(), reply["steps"].as_array().expect("steps"));
        let is_off = answer.contains("which is not on");
        // What nothing here does is understood, but not offered.
        let is_shown = !is_off && !answer.starts_with("No tool ");
        assert_eq!(is_shown, help.contains(&format!("\n  {sentence}\n")), "{sentence}: {help}");
        assert!(!answer.contains("not understood"), "{sentence}: {answer}");
        let is_answered = [
            "No tool ",
            "Name the version",
            "Name the service",
            "Name both files",
            "This is read at a terminal of the server",
            "offline provider: no model is configured, so",
        ]
        .iter()
        .any(|start| answer.starts_with(start));
        assert_eq!(steps.is_empty(), is_off || is_answered, "{sentence}: {reply}");
        assert!(steps.iter().all(|step| step["decision"] != "invalid"), "{sentence}: {reply}");
    }
}

/// Issue 15: a message that is not understood was answered with about 115 lines, a tool that is not
/// live with a list of the workspace, and a search of the logs searched for another text elsewhere.
#[test]
fn a_sentence_is_answered_to_the_point() {
    let home = TestHome::init();
    let said = |message: &str| {
        let output = home.par(&["run", message]);
        text(&output.stdout).to_owned()
    };
    let unknown = said("restrat nginx");
    assert!(unknown.contains("Did you mean `restart nginx`?"), "{unknown}");
    assert!(unknown.contains("`par run help`") && unknown.lines().count() < 12, "{unknown}");
    assert!(said("help").contains("\n  how is this server doing?\n"));
    let live = said("which version of demo is live?");
    assert!(live.contains("No version of demo is live"), "{live}");
    assert!(!live.contains("list_dir"), "{live}");
    let searched = said("grep Timeout in the logs");
    assert!(searched.contains("pattern=(?i)Timeout regex=true"), "{searched}");
    let listed = said("list the files in the workspace");
    assert!(!listed.contains("not found"), "{listed}");
}
