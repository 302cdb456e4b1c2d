//! Several approval requests: from one reply, for two groups, one after the other, and more than
//! fit on one page.

use super::{People, check, grant, key, post, until};
use crate::dashboard::log_in;
use crate::support::text;
use serde_json::{Value, json};

#[test]
fn every_call_of_a_reply_is_answered_before_the_run_resumes() {
    let people = People::new();
    let server = people.home.serve();
    let answer = server.run(&people.asker, &format!("{} {}", people.list(), people.read())).json();
    assert_eq!(answer["status"], "waiting", "{answer}");
    let id = |at: usize| answer["steps"][at]["result"]["approval"].as_str().expect("approval").to_owned();
    let of = |at: usize| server.get(&people.ben, &format!("/approvals/{}", id(at))).json();
    let (first, second) = (of(0), of(1));
    assert_eq!(grant(&server, &people.ben, &first).status, 200);
    let path = format!("/runs/{}", answer["run"].as_str().expect("run"));
    assert_eq!(server.get(&people.viewer, &path).json()["status"], "waiting");
    // The requester's own approval counts if only a confirmation is required, with a key that
    // cannot run.
    let own = key(&people.home, "ana-confirms", "approver", "ana");
    let confirmed = grant(&server, &own, &second);
    assert_eq!(confirmed.status, 200, "{}", text(&confirmed.body));
    let ended = people.ended(&server, &answer);
    let statuses: Vec<&Value> =
        ended["steps"].as_array().expect("steps").iter().map(|s| &s["status"]).collect();
    assert_eq!(statuses, [&json!("ok"), &json!("ok")], "{ended}");
    assert_eq!(ended["steps"][1]["result"]["text"], "the notes\n", "{ended}");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Two groups are asked at once, each about its own call, and one call that two rules gate needs a
/// member of both.
#[test]
fn a_run_waits_for_two_groups_at_once() {
    let people = People::new();
    let night = |id: &str, on: &str| {
        format!(
            "@id(\"{id}\")\n@require_approval(\"night\")\nforbid (principal, action == PAR::Action::\"{on}\", \
             resource in PAR::Path::\"@workspace\")\nunless {{ context.call.approved == \"approved\" }};\n"
        )
    };
    people.home.add("policies/60-night.cedar", &night("night-read", "read_file"));
    let toml = std::fs::read_to_string(people.home.path("etc/par.toml")).expect("par.toml");
    people.home.configure(&format!("{toml}night = [\"dora\", \"carl\"]\n"));
    let [carl, dora] = ["carl", "dora"].map(|name| key(&people.home, name, "approver", name));
    let server = people.home.serve();
    let (run, listing) = people.ask(&server, &format!("{} {}", people.list(), people.read()));
    let open = server.get(&people.ben, "/approvals?state=pending").json();
    let reading = open["items"][1].clone();
    assert_eq!((&listing["groups"], &reading["groups"]), (&json!(["release"]), &json!(["night"])), "{open}");
    check(&grant(&server, &dora, &listing), 403, "not_in_group");
    check(&grant(&server, &people.ben, &reading), 403, "not_in_group");
    // The hash of one call does not approve the other.
    let crossed = json!({ "id": reading["id"], "call_hash": listing["call_hash"] });
    check(&grant(&server, &dora, &crossed), 409, "wrong_call");
    assert_eq!(grant(&server, &dora, &reading).status, 200);
    assert_eq!(people.state(&server, &reading), "granted", "it waits for the other");
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran yet");
    let no = json!({ "answer": "refuse", "call_hash": listing["call_hash"] });
    assert_eq!(post(&server, &people.ben, &listing, &no).status, 200);
    let ended = people.ended(&server, &run);
    let status = |at: usize| ended["steps"][at]["status"].clone();
    assert_eq!((status(0), status(1)), (json!("refused"), json!("ok")), "{ended}");
    assert_eq!(server.stop(), Some(0));

    people.home.add("policies/70-night.cedar", &night("night-list", "list_dir"));
    let server = people.home.serve();
    // Not the folder whose listing was refused: that holds for an hour.
    let other = people.home.path("workspace/other");
    std::fs::create_dir(&other).expect("folder");
    let (run, both) = people.ask(&server, &format!("list_dir(path=\"{}\")", other.display()));
    assert_eq!(both["groups"].as_array().map(Vec::len), Some(2), "{both}");
    for one in [&people.ben, &dora] {
        check(&grant(&server, one, &both), 403, "not_in_group");
    }
    assert_eq!(grant(&server, &carl, &both).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// A call after one that changes something must see the change: its approval is requested only
/// then.
#[test]
fn a_call_behind_a_waiting_change_is_asked_about_after_it() {
    let people = People::new();
    let server = people.home.serve();
    let message = format!("deploy(project=\"demo\", version=\"1.0.1\") {}", people.list());
    let (run, first) = people.ask(&server, &message);
    assert_eq!((run["steps"].as_array().map(Vec::len), &first["tool"]), (Some(1), &json!("deploy")));
    assert_eq!(grant(&server, &people.ben, &first).status, 200);
    let mut open = Value::Null;
    until("the second is asked", || {
        open = server.get(&people.ben, "/approvals?state=pending").json()["items"].clone();
        open.as_array().map(Vec::len) == Some(1) && open[0]["id"] != first["id"]
    });
    assert_eq!((people.state(&server, &first), &open[0]["tool"]), (json!("spent"), &json!("list_dir")));
    assert_eq!(grant(&server, &people.ben, &open[0]).status, 200);
    let ended = people.ended(&server, &run);
    assert_eq!((&ended["status"], ended["steps"].as_array().map(Vec::len)), (&json!("done"), Some(2)));
    assert_eq!(ended["steps"][1]["status"], "ok", "{ended}");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// More approval requests than fit on a page: each of them is on exactly one page, over HTTP, in
/// the dashboard and on the command line.
#[test]
fn a_long_list_is_read_page_by_page() {
    let people = People::new();
    let server = people.home.serve();
    // Each about an object of its own: one question is open for an object at a time.
    let list = |at: usize| {
        let folder = people.home.path(&format!("workspace/{at}"));
        std::fs::create_dir(&folder).expect("folder");
        format!("list_dir(path=\"{}\")", folder.display())
    };
    for run in 0..4 {
        people.ask(&server, &(0..32).map(|at| list(run * 32 + at)).collect::<Vec<_>>().join(" "));
    }
    let asked: Vec<Value> = people.home.entries(&["kind:approval.request"]);
    assert_eq!(asked.len(), 128);
    let walk = |query: &str| {
        let (mut ids, mut pages, mut next) = (Vec::new(), 0, String::new());
        loop {
            let page = server.get(&people.ben, &format!("/approvals?{query}{next}")).json();
            let items = page["items"].as_array().expect("items");
            ids.extend(items.iter().map(|item| item["ledger"].clone()));
            pages += 1;
            match page["next"].as_str() {
                Some(after) => next = format!("&after={after}"),
                None => break (ids, pages),
            }
        }
    };
    let seqs: Vec<Value> = asked.iter().map(|entry| entry["seq"].clone()).collect();
    assert_eq!(walk("state=pending"), (seqs.clone(), 2));
    assert_eq!(walk("state=pending&limit=50"), (seqs.clone(), 3));
    assert_eq!(walk("limit=128"), (seqs.clone(), 1), "a full last page leads nowhere");
    assert_eq!(walk("state=granted&limit=50"), (Vec::new(), 1));
    let listed = people.home.expect(0, &["approval", "list", "--json"]);
    assert_eq!(listed.lines().count(), 128);
    let (login, mut rows, mut next) = (log_in(&server, &people.ben), 0, String::new());
    loop {
        let page = text(&server.send("GET", &format!("/ui/approvals?state=pending{next}"), &login, b"").body);
        rows += page.matches("href=\"/ui/approvals/apr_").count();
        match page.split("&amp;after=").nth(1).and_then(|rest| rest.split('"').next()) {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    assert_eq!(rows, 128);
    assert_eq!(server.stop(), Some(0));
    let listed = people.home.expect(0, &["approval", "list", "--json"]);
    assert_eq!(listed.lines().count(), 128, "and without a server");
    people.verify();
}
