//! A run that waits while its runbook is edited or removed.

use super::{People, grant};
use serde_json::json;

const NOTE: &str = "+++
when = [\"look at the box\"]
tools = [\"list_dir\"]
+++
# The box

1. `list_dir(path=\"@workspace/box\")`

Tell the operator.
";

/// The run resumes with the text that it was given. The rules are others by then, so approval is
/// requested again.
#[test]
fn a_waiting_run_keeps_the_runbook_that_it_was_given() {
    let other = NOTE.replace("Tell the operator.", "Keep it.");
    for edited in [Some(NOTE), Some(other.as_str()), None] {
        let people = People::new();
        let file = people.home.path("etc/runbooks.d/box.md");
        std::fs::write(&file, NOTE).expect("runbook");
        let server = people.home.serve();
        let (run, approval) = people.ask(&server, "look at the box");
        assert_eq!(run["runbook"], "box", "{run}");
        assert_eq!(server.stop(), Some(0));
        match edited {
            Some(text) => std::fs::write(&file, text).expect("runbook"),
            None => std::fs::remove_file(&file).expect("removed"),
        }
        let server = people.home.serve();
        let open = match edited {
            Some(text) if text == NOTE => approval,
            _ => people.asked_again(&server, &approval),
        };
        assert_eq!(grant(&server, &people.ben, &open).status, 200);
        let ended = people.ended(&server, &run);
        assert_eq!((&ended["status"], &ended["runbook"]), (&json!("done"), &json!("box")), "{ended}");
        let answer = ended["answer"].as_str().expect("an answer");
        assert!(answer.contains("1 entry: ticket"), "{answer}");
        assert!(answer.contains("What the runbook says next:\nTell the operator."), "{answer}");
        assert_eq!(server.stop(), Some(0));
        people.verify();
    }
}
