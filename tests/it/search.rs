//! A search below a folder of which a part is excluded, from the command line: what it returns,
//! what is recorded, and what an approver sees.

use crate::forge::forge;
use crate::model::House;
use crate::replay::{copy, replay};
use crate::support::{TestHome, text};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A home with a labelled folder in its workspace.
fn home_with_a_secret() -> (TestHome, PathBuf) {
    let home = TestHome::init();
    for folder in ["workspace/demo/secret", "workspace/demo/open"] {
        std::fs::create_dir_all(home.path(folder)).expect("made");
    }
    std::fs::write(home.path("workspace/demo/secret/s"), "MARK-secret\n").expect("written");
    std::fs::write(home.path("workspace/demo/open/o"), "MARK-open\n").expect("written");
    let labels = home.path("etc/policies/entities.toml");
    let secret = home.path("workspace/demo/secret").canonicalize().expect("real");
    let mut text_of = std::fs::read_to_string(&labels).expect("labels");
    text_of.push_str(&format!("\n[path.{:?}]\nlabels = [\"secret\"]\n", secret.to_str().expect("UTF-8")));
    std::fs::write(&labels, text_of).expect("labels");
    (home, secret)
}

/// What a search leaves out follows from its record too.
#[test]
fn exclusions_that_were_edited_are_found() {
    let (home, secret) = home_with_a_secret();
    let arguments = json!({ "path": home.path("workspace/demo"), "pattern": "MARK" }).to_string();
    let reply: Value =
        serde_json::from_str(&home.expect(0, &["tool", "call", "search_files", &arguments, "--json"]))
            .expect("JSON");
    let result = &reply["steps"][0]["result"];
    assert_eq!(result["matches"][0]["text"], "MARK-open", "{reply}");
    assert_eq!((result["matches"].as_array().map(Vec::len), &result["excluded"]), (Some(1), &json!(1)));
    assert!(!reply.to_string().contains("secret"), "{reply}");
    let seq = home.entries(&["kind:call.decision"])[0]["seq"].as_u64().expect("seq");
    let payload = home.entry(seq)["payload"].clone();
    assert_eq!(payload["exclusions"][0]["canonical"], json!(secret), "{payload}");
    assert_eq!(payload["beneath"][1]["policies"], json!(["no-secrets"]), "{payload}");
    assert_eq!(replay(&home, 0, &[])["as_recorded"], 1);

    type Change<'a> = &'a dyn Fn(&mut Value);
    let left_out = "the recorded exclusions below the object are not those of the rules";
    let changes: [(&str, Change<'_>); 6] = [
        (left_out, &|payload| payload["exclusions"] = json!([])),
        (left_out, &|payload| payload["exclusions"][0]["ino"] = json!("1")),
        (left_out, &|payload| payload["beneath"] = json!([])),
        ("recorded `allow` for", &|payload| {
            payload["beneath"][1]["decision"] = json!("allow");
            payload["exclusions"] = json!([]);
        }),
        ("the rules say `deny`", &|payload| payload["beneath"][1]["policies"] = json!(["no-login-records"])),
        ("cannot be read", &|payload| payload["beneath"][1]["entities"] = json!(7)),
    ];
    for (what, change) in changes {
        let copy = copy(&home);
        forge(&copy, seq, |_, payload| change(payload));
        let told = replay(&copy, 5, &[]);
        let found = told["differences"][0]["what"].as_str().expect("a difference");
        assert!(found.contains(what), "{what}: {told}");
    }
}

/// An approver sees what is left out even after approval.
#[test]
fn an_approver_sees_what_is_left_out() {
    let (home, secret) = home_with_a_secret();
    home.add(
        "policies/50-ask.cedar",
        "@id(\"ask-first\")\n@require_confirm(\"\")\nforbid (principal, action == PAR::Action::\"search_files\", resource)\n\
         unless { context.call.approved == \"confirmed\" || context.call.approved == \"approved\" };\n",
    );
    let arguments = json!({ "path": home.path("workspace/demo"), "pattern": "MARK" }).to_string();
    home.expect(4, &["tool", "call", "search_files", &arguments]);
    let asked = home.entries(&["kind:approval.request"])[0]["seq"].as_u64().expect("seq");
    let payload = home.entry(asked)["payload"].clone();
    assert_eq!(payload["resource"]["exclusions"][0]["canonical"], json!(secret), "{payload}");
    let shown = home.par(&["approval", "show", payload["id"].as_str().expect("id")]);
    assert!(
        text(&shown.stdout).contains(&format!("leaves out {}", secret.display())),
        "{}",
        text(&shown.stdout)
    );
}

/// A random tree: what each step adds to which folder, and which of its nodes are excluded.
fn a_tree() -> impl Strategy<Value = (Vec<(u8, usize)>, BTreeSet<usize>)> {
    (prop::collection::vec((0..4_u8, 0..64_usize), 8..20), prop::collection::btree_set(0..20_usize, 1..4))
}

/// Folders, files and links of one tree, each with whether it is excluded or inside an excluded
/// one.
#[derive(Default)]
struct Tree {
    folders: Vec<(PathBuf, bool)>,
    /// With their contents, each of them unique.
    files: Vec<(PathBuf, bool, String)>,
    links: Vec<PathBuf>,
    excluded: Vec<PathBuf>,
}

impl Tree {
    fn plant(top: &Path, steps: &[(u8, usize)], excluded: &BTreeSet<usize>) -> Self {
        std::fs::create_dir(top).expect("folder");
        let mut tree = Self { folders: vec![(top.to_owned(), false)], ..Self::default() };
        for (at, (kind, place)) in steps.iter().enumerate() {
            let (folder, is_below) = tree.folders[place % tree.folders.len()].clone();
            let path = folder.join(format!("n{at}"));
            let is_out = is_below || (excluded.contains(&at) && *kind != 3);
            if excluded.contains(&at) && *kind != 3 {
                tree.excluded.push(path.clone());
            }
            match kind {
                0 => {
                    std::fs::create_dir(&path).expect("folder");
                    tree.folders.push((path, is_out));
                }
                3 => {
                    let to = &tree.folders[at % tree.folders.len()].0;
                    let to = tree.files.last().map_or(to, |(file, ..)| if at % 2 == 0 { file } else { to });
                    symlink(to, &path).expect("link");
                    tree.links.push(path);
                }
                _ => {
                    let name = top.file_name().expect("a name").to_string_lossy();
                    let mark = format!("MARK-{name}-{at}-");
                    std::fs::write(&path, format!("first\n{mark}\n")).expect("file");
                    tree.files.push((path, is_out, mark));
                }
            }
        }
        tree
    }

    /// By every tool, under every name.
    fn calls(&self) -> Vec<(&'static str, String)> {
        let folders = self.folders.iter().map(|(path, _)| path);
        let files = self.files.iter().map(|(path, ..)| path);
        let around = |path: &PathBuf| path.join("..").join(path.file_name().expect("a name"));
        let all: Vec<PathBuf> = folders.chain(files).chain(&self.links).cloned().collect();
        let all = all.iter().cloned().chain(all.iter().map(around));
        let calls = all.flat_map(|path| {
            [
                ("read_file", json!({ "path": path })),
                ("list_dir", json!({ "path": path })),
                ("search_files", json!({ "path": path, "pattern": "MARK", "limit": 1000, "depth": 32 })),
                ("tail_file", json!({ "path": path, "lines": 10 })),
            ]
        });
        calls.map(|(tool, arguments)| (tool, arguments.to_string())).collect()
    }
}

/// Random trees that rules exclude in part: no byte of what is excluded is in any result, error,
/// reason or claim, of any tool, under any name; and each byte of the rest is found.
#[test]
fn no_excluded_byte_is_disclosed() {
    let mut runner = TestRunner::deterministic();
    let mut trees = Vec::new();
    let house = House::start(|home| {
        let workspace = home.path("workspace").canonicalize().expect("real");
        let labels = home.path("etc/policies/entities.toml");
        let mut text = std::fs::read_to_string(&labels).expect("labels");
        for at in 0..4 {
            let (steps, excluded) = a_tree().new_tree(&mut runner).expect("a tree").current();
            let tree = Tree::plant(&workspace.join(format!("t{at}")), &steps, &excluded);
            for path in &tree.excluded {
                text.push_str(&format!(
                    "\n[path.{:?}]\nlabels = [\"secret\"]\n",
                    path.to_str().expect("UTF-8")
                ));
            }
            trees.push(tree);
        }
        std::fs::write(&labels, text).expect("labels");
    });
    for some in trees.iter().flat_map(Tree::calls).collect::<Vec<_>>().chunks(30) {
        house.calls(some);
    }
    let told = house.all_that_was_told();
    let files: Vec<_> = trees.iter().flat_map(|tree| &tree.files).collect();
    for (path, is_out, mark) in &files {
        assert_eq!(told.contains(mark), !is_out, "{}: {mark}", path.display());
    }
    let out = files.iter().filter(|(_, is_out, _)| *is_out).count();
    assert!(out > 3 && files.len() - out > 10, "{out} of {}", files.len());
}

/// A1: a file of another group in a permitted folder is not a denial by the rules, and a search
/// that passes over it says so.
#[test]
fn a_file_that_the_tools_user_may_not_read_is_reported_as_that() {
    let home = TestHome::init();
    let folder = home.path("workspace/nginx");
    std::fs::create_dir(&folder).expect("made");
    for (name, mode) in [("access.log", 0o000), ("error.log", 0o644)] {
        let file = folder.join(name);
        std::fs::write(&file, "secret\n").expect("written");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("mode");
    }
    let closed = folder.join("access.log").canonicalize().expect("real");
    for (tool, more) in [("read_file", json!({})), ("tail_file", json!({ "lines": 1 }))] {
        let mut arguments = more;
        arguments["path"] = json!(closed);
        let output = home.par(&["tool", "call", tool, &arguments.to_string(), "--json"]);
        let reply: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let step = &reply["steps"][0];
        assert_eq!((&step["decision"], &step["class"]), (&json!("deny"), &json!("host")), "{reply}");
        let error = step["result"]["error"].as_str().expect("a reason");
        let start = format!("`{}` may not be read by the tools' user, uid ", closed.display());
        assert!(error.starts_with(&start), "{error}");
    }
    assert_eq!(home.entries(&["decision:deny status:host"]).len(), 2);
    assert_eq!(home.entries(&["decision:deny status:policy"]).len(), 0);

    let found = home.par(&["run", &format!("search_files(path={folder:?}, pattern=\"secret\")")]);
    let said = text(&found.stdout);
    assert!(said.contains("1 file may not be read") && !said.contains("access.log"), "{said}");
    // Also in the line of the call and in the answer to "what filled the disk?".
    let inner = folder.join("closed");
    std::fs::create_dir(&inner).expect("made");
    std::fs::set_permissions(&inner, PermissionsExt::from_mode(0o000)).expect("mode");
    let found = home.par(&["run", &format!("largest_paths(path={folder:?})")]);
    let said = text(&found.stdout);
    assert_eq!(said.matches("1 path may not be read").count(), 2, "{said}");
    // For a path that the rules deny, there is one answer.
    let away = home.par(&["run", "read_file(path=\"/etc/shadow\")"]);
    let said = text(&away.stdout);
    assert!(said.contains(" deny   policy ") && said.contains("not permitted or not found"), "{said}");
    let one = home.par(&["run", &format!("read_file(path={closed:?})")]);
    let (said, note) = (text(&one.stdout), text(&one.stderr));
    assert!(said.contains(" deny   host ") && note.contains("`par doctor path FILE`"), "{said}{note}");
    home.expect(0, &["audit", "verify"]);
}

/// The stranger's stumble 14: `tool:deply` gave an empty table. A tool that does not exist and that
/// no entry names is refused, with what was meant; a name that a model made up is found.
#[test]
fn a_misspelled_tool_in_a_query_is_refused_with_what_was_meant() {
    let home = TestHome::init();
    home.expect(0, &["run", "list_dir(/var/log); kernl()"]);
    let meant = "`tool:deply`: unknown tool `deply`, did you mean `deploy`? expected one of ";
    for args in [&["audit", "show", "tool:deply"][..], &["runs", "list", "tool:deply"]] {
        let refused = home.par(args);
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(meant), "{args:?}: {said}");
    }
    assert!(home.expect(0, &["audit", "show", "tool:kernl"]).contains("kernl"));
    home.expect(0, &["audit", "show", "tool:deploy", "tool:list_*"]);

    let (viewer, asks) = (home.key("sees", "viewer"), home.key("asks", "operator"));
    let server = home.serve();
    for path in ["/audit?q=tool:deply", "/runs?q=tool:deply"] {
        let answer = server.get(&viewer, path);
        let (status, told) = (answer.status, answer.json());
        assert!(status == 422 && told["detail"].as_str().is_some_and(|why| why.contains(meant)), "{told}");
    }
    // A caller who may not use a tool does not learn of it here either.
    let answer = server.get(&asks, "/runs?q=tool:deply");
    let (status, told) = (answer.status, answer.json());
    let why = told["detail"].as_str().unwrap_or_default();
    assert!(status == 422 && why.contains("deploy") && !why.contains("service_restart"), "{told}");
}

/// Issue 15, finding 11: on a server, a search for a tool or a key that does not exist found
/// nothing, with exit code 0. Finding 12: a query of entries refused the name of a key whose id it
/// knew. Finding 13: a rule's name is not the digest of all rules.
#[test]
fn on_a_server_a_query_names_keys_by_name_and_refuses_what_does_not_exist() {
    let home = TestHome::init();
    let (viewer, asks) = (home.key("sees", "viewer"), home.key("asks", "operator"));
    let server = home.serve();
    server.run(&asks, "list_dir(/var/log)");
    for (args, meant) in [
        (&["runs", "list", "tool:list_dri"][..], "unknown tool `list_dri`, did you mean `list_dir`?"),
        (&["runs", "list", "key:askz"], "unknown key `askz`, did you mean `asks`?"),
        (&["audit", "show", "key:askz"], "unknown key `askz`, did you mean `asks`?"),
        (&["audit", "show", "policy:few-lines"], "search for \"forbidden by few-lines\""),
    ] {
        let refused = home.par(args);
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.contains(meant), "{args:?}: {said}");
    }
    for path in ["/runs?q=key:askz", "/audit?q=key:askz"] {
        let told = server.get(&viewer, path).json();
        assert!(told["detail"].as_str().is_some_and(|why| why.contains("did you mean `asks`?")), "{told}");
    }
    for args in [&["audit", "show", "key:asks", "kind:call.decision"][..], &["runs", "list", "key:asks"]] {
        let said = home.expect(0, args);
        assert!(said.contains("list_dir"), "{args:?}: {said}");
    }
    let page = server.get(&viewer, "/audit?q=key:asks%20kind:call.decision").json();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
}

/// The stranger's stumble about logs that a host does not have: the answer says which there are.
#[test]
fn a_sentence_about_an_absent_log_is_answered_with_what_is_there() {
    let home = TestHome::init();
    let logs = home.beside("log");
    std::fs::create_dir(&logs).expect("folder");
    std::fs::write(logs.join("mail.log"), "a line\n").expect("file");
    home.configure(&format!("[paths]\nlogs = \"{}\"\n", logs.display()));
    let told = home.expect(0, &["run", "errors in nginx"]);
    assert!(told.contains("nothing of that name") && told.contains("mail.log"), "{told}");
    let told = home.expect(0, &["run", "errors in mail.log"]);
    assert!(!told.contains("nothing of that name"), "{told}");
    // A call is what a person typed, and no more.
    let told = home.expect(0, &["run", &format!("read_file({}/nginx)", logs.display())]);
    assert!(!told.contains("nothing of that name") && !told.contains("list_dir"), "{told}");
}
