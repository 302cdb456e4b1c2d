//! The sentences that `offline` understands, on a home as shipped.

use crate::support::TestHome;

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
        assert_eq!(is_off, !help.contains(&format!("\n  {sentence}\n")), "{sentence}: {help}");
        assert!(!answer.contains("not understood"), "{sentence}: {answer}");
        let is_answered = [
            "No tool ",
            "Name the version",
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
