//! An approval answered on its page, and what is refused there.

use crate::approval::{self, People};
use crate::support::{Answer, Server, text};
use serde_json::{Value, json};

const OWN: &str = "Sec-Fetch-Site: same-origin\r\n";
/// Made by the page's script at login, and kept in the tab.
const PROOF: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

#[test]
fn a_question_is_answered_on_its_page_and_only_there() {
    let people = People::new();
    let server = people.home.serve();
    let (run, asked) = people.ask(&server, &people.list());
    let page = format!("/ui/approvals/{}", asked["id"].as_str().expect("id"));
    let hash = asked["call_hash"].as_str().expect("hash");
    let login = log_in(&server, &people.ben);
    let shown = server.send("GET", &page, &login, b"");
    assert_eq!(shown.status, 200, "{}", text(&shown.body));
    let shown = text(&shown.body);
    assert!(
        shown.contains(hash) && shown.contains("release-list") && shown.contains("Approve once"),
        "{shown}"
    );
    let token = shown.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    // What another server on the loopback address has (the browser sends it the same cookie), and
    // what it has not.
    let stolen = format!("answer=grant&call_hash={hash}&reason=seen&token={}", token.expect("token"));
    assert!(!shown.contains(PROOF), "no page holds it: {shown}");
    let yes = format!("{stolen}&proof={PROOF}");
    let other = yes.replace(hash, &"0".repeat(64));
    for (name, from, fields, status) in [
        ("another site", "Sec-Fetch-Site: cross-site\r\n", yes.as_str(), 403),
        ("no word of where from", "", &yes, 403),
        ("no token", OWN, &format!("answer=grant&call_hash={hash}"), 403),
        ("the cookie alone", OWN, &stolen, 403),
        ("the cookie alone, for a refusal", OWN, &stolen.replace("grant", "refuse"), 403),
        ("another tab", OWN, &yes.replace("proof=5a", "proof=a5"), 403),
        ("no answer", OWN, &yes.replace("grant", "perhaps"), 422),
        ("another call", OWN, &other, 409),
    ] {
        let refused = post(&server, &page, &format!("{login}{from}"), fields);
        assert_eq!(refused.status, status, "{name}: {}", text(&refused.body));
    }
    // Without a login, with a key that runs, and with one that only reads.
    assert_eq!(post(&server, &page, OWN, &yes).status, 401);
    let viewer = log_in(&server, &people.viewer);
    assert_eq!(post(&server, &page, &format!("{viewer}{OWN}"), &yes).status, 403);
    let granted = post(&server, &page, &format!("{login}{OWN}"), &yes);
    assert_eq!(granted.status, 303, "{}", text(&granted.body));
    assert_eq!(people.ended(&server, &run)["status"], "done");
    let again = post(&server, &page, &format!("{login}{OWN}"), &yes);
    assert_eq!(again.status, 409, "an approval is given once");
}

/// Issue 15, finding A5: the list of entries and the head of an entry said only `deny`, whatever
/// refused.
#[test]
fn a_refusal_has_its_class_on_the_pages() {
    let people = People::new();
    let server = people.home.serve();
    let refused = server.run(&people.asker, "deploy(project=\"shop\", version=\"1.4.2\")").json();
    let seq = refused["steps"][0]["ledger"]["decision"].as_u64().expect("an entry");
    let login = log_in(&server, &people.viewer);
    let page = |path: &str| text(&server.send("GET", path, &login, b"").body);
    let list = page("/ui/audit");
    assert!(list.contains(">deny policy</a>"), "{list}");
    let entry = page(&format!("/ui/audit/{seq}"));
    assert!(entry.contains("policy: the rules do not permit it"), "{entry}");
    // How often a person refused is a figure of its own.
    assert!(page("/ui/").contains("Refused by a person"));
}

/// What a model may put into the arguments of a call: markup, escapes, text that runs backwards,
/// and endless words of the characters that grow most when escaped.
#[test]
fn hostile_arguments_are_visible_text_on_a_bounded_page_and_in_a_terminal() {
    let people = People::new();
    people.add_note();
    let server = people.home.serve();
    let login = log_in(&server, &people.ben);
    let look = |path: &str| {
        let page = server.send("GET", path, &login, b"");
        assert_eq!(page.status, 200, "{path}: {}", text(&page.body));
        let page = text(&page.body);
        assert!(page.len() < 100_000, "{path} has {} bytes", page.len());
        clean(path, &page);
        for markup in ["<script>alert", "<img", "<iframe", "onerror=alert(1)>"] {
            assert!(!page.contains(markup), "{path}: {markup}");
        }
        page
    };
    // All are about this host, and one question is open for an object at a time: each is refused
    // before the next is asked, and the first of the list stays open.
    let mut before: Option<Value> = None;
    for words in hostile().into_iter().rev() {
        if let Some(asked) = before.take() {
            let no = json!({ "answer": "refuse", "card": asked["card"] });
            assert_eq!(approval::post(&server, &people.ben, &asked, &no).status, 200);
        }
        let message = format!("note(words={})", json!(words));
        let (_, asked) = people.ask(&server, &message);
        assert_eq!(asked["arguments"]["words"], words, "the data itself is whole");
        let id = asked["id"].as_str().expect("id");
        let page = look(&format!("/ui/approvals/{id}"));
        assert!(page.contains("This exact call would run"), "{page}");
        let is_cut = page.contains("cut here: ");
        assert_eq!(is_cut, words.len() > 16_000, "what is not shown is said: {}", words.len());
        assert_eq!(page.contains(&format!("par approval show {id}")), is_cut, "where the rest is");
        let shown = people.home.expect(0, &["approval", "show", id]);
        clean("approval show", &shown);
        assert!(shown.len() > words.chars().count(), "a person sees all of it");
        before = Some(asked);
    }
    let list = look("/ui/approvals");
    assert!(list.contains("&lt;script&gt;alert(1)"), "{list}");
    for args in [&["approval", "list"][..], &["approval", "list", "--all"]] {
        let listed = people.home.expect(0, args);
        clean("approval list", &listed);
        assert!(listed.lines().all(|line| line.len() < 1_000), "{listed}");
    }
    // Arguments that are too long for a call need no approval.
    for (length, status) in [(70_000, 200), (1 << 20, 413)] {
        let message = format!("note(words={})", json!("x".repeat(length)));
        let answer = server.run(&people.asker, &message);
        assert_eq!(answer.status, status, "{length}: {}", answer.head);
    }
    let asked = people.home.entries(&["kind:approval.request"]);
    assert_eq!(asked.len(), hostile().len());
    assert_eq!(server.stop(), Some(0));
}

fn hostile() -> Vec<String> {
    vec![
        "<script>alert(1)</script><img src=x onerror=alert(1)>'\"--></pre>".to_owned(),
        "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{8}".to_owned(),
        "\u{202e}gnp.exe\u{2066}\u{200b}\u{feff}\u{2028}\n\t".to_owned(),
        "word-without-an-end".repeat(3_000),
        "&".repeat(60_000),
        "<".repeat(60_000),
        "\u{202e}".repeat(20_000),
        "\\\"".repeat(15_000),
    ]
}

/// Nothing in it moves a cursor, or hides or reorders text.
fn clean(place: &str, shown: &str) {
    let is_hidden = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let found: Vec<char> = shown.chars().filter(is_hidden).collect();
    assert!(found.is_empty(), "{place} has {found:?}");
}

pub(crate) fn log_in(server: &Server, key: &str) -> String {
    let answer = post(server, "/ui/login", OWN, &format!("key={key}&proof={PROOF}"));
    assert_eq!(answer.status, 303, "{}", text(&answer.body));
    let set = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("cookie");
    format!("Cookie: {}\r\n", set.split(';').next().expect("pair"))
}

fn post(server: &Server, path: &str, headers: &str, fields: &str) -> Answer {
    let headers = format!("{headers}Content-Type: application/x-www-form-urlencoded\r\n");
    server.send("POST", path, &headers, fields.as_bytes())
}

/// Asking and answering are two logins: the one that answers is opened by a link of `par login`,
/// after the question was asked.
#[test]
fn a_login_link_answers_what_was_asked_before_it() {
    let people = People::new();
    let server = people.home.serve();
    let link = || {
        let link = people.home.expect(0, &["login"]);
        let (address, code) = link.trim().split_once('#').expect("a fragment");
        assert_eq!(address, format!("http://{}/ui/login", server.address));
        code.to_owned()
    };
    let early = link();
    let before = log_in(&server, &early);
    let (run, asked) = people.ask(&server, &people.list());
    let page = format!("/ui/approvals/{}", asked["id"].as_str().expect("id"));
    let hash = asked["call_hash"].as_str().expect("hash");
    let answer = |login: &str| {
        let shown = text(&server.send("GET", &page, login, b"").body);
        let token = shown.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        let fields = format!("answer=grant&call_hash={hash}&proof={PROOF}&token={}", token.expect("a token"));
        post(&server, &page, &format!("{login}{OWN}"), &fields)
    };
    let shown = text(&server.send("GET", &page, &before, b"").body);
    assert!(shown.contains("older than the question") && !shown.contains("Approve once"), "{shown}");
    let refused = answer(&before);
    assert_eq!(refused.status, 403, "{}", text(&refused.body));
    assert!(text(&refused.body).contains("older than the question"), "{}", text(&refused.body));
    assert_eq!(people.state(&server, &asked), "pending");
    let late = link();
    let after = log_in(&server, &late);
    assert_eq!(post(&server, "/ui/login", OWN, &format!("key={late}")).status, 401, "once");
    let granted = answer(&after);
    assert_eq!(granted.status, 303, "{}", text(&granted.body));
    assert_eq!(people.ended(&server, &run)["status"], "done");
    let grant = people.home.entries(&["kind:approval.grant"]).pop().expect("granted");
    assert!(grant["principal"].as_str().is_some_and(|by| by.starts_with("os:")), "{grant}");
    let entry = people.home.entry(grant["seq"].as_u64().expect("seq"));
    assert_eq!(entry["payload"]["power"]["request"]["context"]["via"], "page", "{entry}");
    for code in [&early, &late] {
        assert!(!server.log().contains(code.as_str()), "the log holds a code");
    }
    assert_eq!(server.stop(), Some(0));
    people.home.expect(0, &["audit", "verify"]);
}

/// Finding B2: an approver saw neither the question nor the run that they answer for. They see
/// that, and nothing of others.
#[test]
fn an_approver_sees_the_run_that_asks_and_no_other() {
    let people = People::new();
    let server = people.home.serve();
    let (run, asked) = people.ask(&server, &people.list());
    let other = server.run(&people.asker, "health_check()").json();
    let login = log_in(&server, &people.ben);
    let look = |path: &str| server.send("GET", path, &login, b"");
    let id = asked["id"].as_str().expect("id");
    for view in ["", "?view=reader", "?view=json"] {
        let page = look(&format!("/ui/approvals/{id}/run{view}"));
        assert_eq!(page.status, 200, "{view}: {}", text(&page.body));
        assert!(text(&page.body).contains("list_dir"), "{view}: {}", text(&page.body));
    }
    let word = |run: &serde_json::Value| run["run"].as_str().expect("run").to_owned();
    for path in [
        "/ui/runs".to_owned(),
        format!("/ui/runs/{}", word(&run)),
        format!("/ui/runs/{}", word(&other)),
        "/ui/audit".to_owned(),
        "/ui/audit/1".to_owned(),
        "/ui/events".to_owned(),
        "/ui/tools".to_owned(),
        "/ui/health".to_owned(),
    ] {
        assert_eq!(look(&path).status, 403, "{path}");
    }
    assert_eq!(look("/ui/approvals/apr_01JD0000000000000000000000/run").status, 404);
    let granted = crate::approval::grant(&server, &people.ben, &asked);
    assert_eq!(granted.status, 200, "{}", text(&granted.body));
    people.ended(&server, &run);
    let page = text(&look(&format!("/ui/approvals/{id}/run")).body);
    assert!(page.contains("Answer"), "the answer is there once the run has one: {page}");
}
