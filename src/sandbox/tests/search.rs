//! What a recursive call leaves out, against real trees.

use super::{Stage, World};
use crate::call::{Beneath, End, Exclusion, Execution, Object, PathObject};
use crate::types::limits::PREPARE_MS_MAX;
use nix::mount::MsFlags;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rustix::fs::Mode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

fn words(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// Every claim below the object, as if all of it were denied.
fn all(object: &Object) -> Vec<Exclusion> {
    let Object::Path(path) = object else { panic!("{object:?}") };
    assert!(path.unseen.is_empty(), "{object:?}");
    let one = |one: &Beneath| Exclusion { canonical: one.canonical.clone(), id: one.id };
    path.beneath.iter().map(one).collect()
}

fn answer(execution: &Execution) -> Value {
    assert_eq!(execution.end, End::Exit { code: 0 }, "{execution:?}");
    serde_json::from_slice(&execution.stdout).expect("JSON")
}

impl Stage {
    /// Searches `folder` without all of `named`; `between` runs between prepare and go.
    async fn search(&self, folder: &Path, named: &[PathBuf], more: Value, between: impl FnOnce()) -> Value {
        let mut arguments = json!({ "path": words(folder), "pattern": "MARK", "limit": 1000, "depth": 32 });
        arguments.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        let mut ask = self.ask("search_files", &arguments);
        ask.named = named.iter().map(|path| words(path)).collect();
        let prepared = self.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect("prepared");
        let exclusions = all(&prepared.object);
        between();
        answer(&self.run_without("search_files", &arguments, prepared, exclusions).await)
    }

    async fn object_among(&self, tool: &str, folder: &Path, named: &[String]) -> Result<PathObject, String> {
        let arguments = match tool {
            "search_files" => json!({ "path": words(folder), "pattern": "x" }),
            _ => json!({ "path": words(folder) }),
        };
        let mut ask = self.ask(tool, &arguments);
        ask.named = named.to_vec();
        match self.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.map_err(|e| e.to_string())?.object {
            Object::Path(path) => Ok(path),
            other => panic!("{other:?}"),
        }
    }
}

fn marks(answer: &Value) -> BTreeSet<String> {
    let matches = answer["matches"].as_array().expect("a list").iter();
    matches.map(|one| one["text"].as_str().expect("text").to_owned()).collect()
}

fn set(marks: &[&str]) -> BTreeSet<String> {
    marks.iter().map(|mark| (*mark).to_owned()).collect()
}

pub(super) fn finds_lines_below_a_folder() {
    let world = World::new();
    let workspace = world.workspace();
    std::fs::create_dir_all(workspace.join("a/b/c")).expect("made");
    world.write("workspace/one.log", b"MARK 1\nnothing\nMARK 2");
    world.write("workspace/a/two.txt", b"x MARK 3 \x1b[31m\n");
    world.write("workspace/a/b/c/deep.log", b"MARK 4");
    world.write("workspace/a/binary", b"\0MARK 5");
    world.write("outside/away", b"MARK 6");
    symlink(world.path("outside"), workspace.join("out")).expect("linked");
    symlink(world.path("outside/away"), workspace.join("away")).expect("linked");
    symlink(&workspace, workspace.join("a/loop")).expect("linked");
    nix::unistd::mkfifo(&workspace.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o644))
        .expect("fifo");
    world.with(|stage| async move {
        let found = stage.search(&workspace, &[], json!({}), || ()).await;
        assert_eq!(marks(&found), set(&["MARK 1", "MARK 2", "x MARK 3 \u{1b}[31m", "MARK 4"]), "{found}");
        let numbers = ["files_read", "files_skipped", "folders_skipped", "excluded"].map(|name| &found[name]);
        assert_eq!(numbers, [&json!(3), &json!(5), &json!(0), &json!(0)], "{found}");
        assert_eq!(found["files_skipped_by"], json!({ "not_text": 1, "special": 4 }), "{found}");
        assert_eq!(found["matches"][3]["line"], 3, "{found}");
        let found = stage.search(&workspace, &[], json!({ "depth": 1 }), || ()).await;
        assert!(!found.to_string().contains("MARK 4") && found["folders_skipped"] == 1, "{found}");
        assert_eq!(found["folders_skipped_by"], json!({ "too_deep": 1 }), "{found}");
        let found = stage.search(&workspace, &[], json!({ "name": "*.log" }), || ()).await;
        assert_eq!(marks(&found), set(&["MARK 1", "MARK 2", "MARK 4"]), "{found}");
        let more = json!({ "pattern": r"^x|\d$", "regex": true, "limit": 2 });
        let found = stage.search(&workspace, &[], more, || ()).await;
        assert_eq!((marks(&found).len(), &found["stopped_by"]), (2, &json!("limit")), "{found}");
        // By time: the files above have none.
        let new = stage.search(&workspace, &[], json!({ "since": "2026-11-24T10:00:00Z" }), || ()).await;
        assert_eq!((marks(&new).len(), &new["files_without_time"]), (0, &json!(3)), "{new}");
        std::fs::write(
            workspace.join("timed"),
            "2026-11-24T09:59:59Z MARK old\nMARK of old\n2026/11/24 10:00:00 MARK new\n  MARK of new\n",
        )
        .expect("written");
        let timed = workspace.join("timed");
        let new = stage.search(&timed, &[], json!({ "since": "2026-11-24T10:00:00Z" }), || ()).await;
        assert_eq!(marks(&new), set(&["2026/11/24 10:00:00 MARK new", "  MARK of new"]), "{new}");
        let east =
            json!({ "since": "2026-11-24T10:00:00Z", "utc_offset": "+02:00", "time_format": "slashes" });
        let none = stage.search(&timed, &[], east, || ()).await;
        assert_eq!((marks(&none).len(), &none["files_without_time"]), (0, &json!(0)), "{none}");
        std::fs::remove_file(&timed).expect("removed");
        // One file is an object too.
        let found = stage.search(&workspace.join("one.log"), &[], json!({}), || ()).await;
        assert_eq!(marks(&found), set(&["MARK 1", "MARK 2"]), "{found}");
        let fifo = stage
            .answer("search_files", json!({ "path": words(&workspace.join("fifo")), "pattern": "x" }))
            .await;
        assert!(fifo.0 == 1 && fifo.1["error"].as_str().is_some_and(|e| e.contains("neither")), "{fifo:?}");
    });
}

/// Each path around an exclusion.
pub(super) fn leaves_out_what_is_excluded() {
    let world = World::new();
    let workspace = world.workspace();
    for folder in ["open", "secret/inner", "open/sub"] {
        std::fs::create_dir_all(workspace.join(folder)).expect("made");
    }
    world.write("workspace/open/plain", b"MARK plain");
    world.write("workspace/secret/s", b"MARK secret");
    world.write("workspace/secret/inner/t", b"MARK inner");
    world.write("workspace/open/key", b"MARK key");
    world.write("outside/elsewhere", b"MARK elsewhere");
    symlink(workspace.join("secret"), workspace.join("open/link")).expect("linked");
    symlink(workspace.join("secret"), world.path("outside/alias")).expect("linked");
    std::fs::hard_link(workspace.join("open/key"), workspace.join("open/sub/second")).expect("linked");
    std::fs::hard_link(world.path("outside/elsewhere"), workspace.join("open/third")).expect("linked");
    let plain = set(&["MARK plain"]);
    world.with(|stage| async move {
        let at = |name: &str| workspace.join(name);
        let outside = workspace.parent().expect("a parent").join("outside");
        // Under its name, by a link from elsewhere, and a file that lies elsewhere and has a second
        // name here.
        let named = vec![outside.join("alias"), at("open/key"), outside.join("elsewhere")];
        let found = stage.search(&workspace, &named, json!({}), || ()).await;
        assert_eq!(marks(&found), plain, "{found}");
        assert_eq!((&found["excluded"], found.to_string().contains("secret")), (&json!(4), false), "{found}");
        let found = stage.search(&at("open"), &named, json!({}), || ()).await;
        assert_eq!(marks(&found), plain, "a sibling folder: {found}");

        // Renamed in between: the folder, the file, and the file under its second name.
        let found = stage
            .search(&workspace, &named, json!({}), || {
                std::fs::rename(at("secret"), at("public")).expect("moved");
                std::fs::rename(at("open/key"), at("open/no-key")).expect("moved");
            })
            .await;
        assert_eq!(marks(&found), plain, "{found}");
        std::fs::rename(at("public"), at("secret")).expect("moved back");
        std::fs::rename(at("open/no-key"), at("open/key")).expect("moved back");

        // Another file under the name in between, as a rotation makes one; and a file that did not
        // exist before.
        let absent = vec![at("open/key"), at("open/new"), at("secret"), outside.join("elsewhere")];
        let found = stage
            .search(&workspace, &absent, json!({}), || {
                std::fs::rename(at("open/key"), at("open/key.1")).expect("moved");
                std::fs::write(at("open/key"), "MARK rotated").expect("written");
                std::fs::write(at("open/new"), "MARK new").expect("written");
            })
            .await;
        assert_eq!(marks(&found), plain, "{found}");
    });
}

/// Which claims are made, and which calls are refused early.
pub(super) fn reports_named_paths_below() {
    let world = World::new();
    let workspace = world.workspace();
    for folder in ["a/b", "closed/in", "c"] {
        std::fs::create_dir_all(workspace.join(folder)).expect("made");
    }
    world.write("workspace/c/file", b"x");
    symlink(workspace.join("a"), world.path("outside/alias")).expect("linked");
    reads_all(&world);
    let is_root = rustix::process::geteuid().is_root();
    world.with(|stage| async move {
        let root = words(&workspace);
        let outside = workspace.parent().expect("a parent").join("outside");
        let at = |name: &str| format!("{root}/{name}");
        let alias = words(&outside.join("alias"));
        let mut named = vec!["/".to_owned(), root.clone(), "/etc".to_owned(), alias.clone()];
        named.extend(["a", "a/b", "nope", "nope/x", "c/file/below", "c"].map(at));
        named.push(format!("{alias}/gone"));
        let found = stage.object_among("search_files", &workspace, &named).await.expect("an object");
        let told = |found: &PathObject| -> Vec<(String, String, bool)> {
            let one = |one: &Beneath| (one.name.clone(), one.canonical.clone(), one.id.is_some());
            found.beneath.iter().filter(|one| !one.name.starts_with("/etc")).map(one).collect()
        };
        let expect: Vec<(String, String, bool)> = [
            (alias.clone(), at("a"), true),
            (at("a"), at("a"), true),
            (at("a/b"), at("a/b"), true),
            (at("nope"), at("nope"), false),
            (at("nope/x"), at("nope/x"), false),
            (at("c/file/below"), at("c/file/below"), false),
            (at("c"), at("c"), true),
            (format!("{alias}/gone"), at("a/gone"), false),
        ]
        .into();
        assert_eq!(told(&found), expect);
        let within = &found.beneath.iter().find(|one| one.name == at("a/b")).expect("a/b").within;
        assert_eq!(*within, ["/".to_owned(), root.clone(), alias.clone(), at("a"), at("a/b")]);
        // For a tool that does not read below its object nothing is reported there; nor for a file.
        let found = stage.object_among("list_dir", &workspace, &named).await.expect("an object");
        assert_eq!(found.beneath, []);
        let found = stage.object_among("search_files", &workspace.join("c/file"), &named).await.expect("one");
        assert_eq!(found.beneath, []);
        // A name beyond a folder that the tool may not enter.
        rustix::fs::chmod(workspace.join("closed"), Mode::empty()).expect("mode");
        let closed = [at("closed"), at("closed/in")];
        let found = stage.object_among("search_files", &workspace, &closed).await.expect("an object");
        assert_eq!((told(&found).len(), &found.unseen), (1, &vec![at("closed/in")]), "{found:?}");
        let elsewhere = stage.object_among("search_files", &workspace.join("a"), &closed).await.expect("one");
        assert_eq!((elsewhere.beneath, elsewhere.unseen), (vec![], vec![]));
        rustix::fs::chmod(workspace.join("closed"), Mode::RWXU).expect("mode");
        let many: Vec<String> = (0..300).map(|name| at(&format!("many/{name}"))).collect();
        let refused = stage.object_among("search_files", &workspace, &many).await.expect_err("refused");
        assert!(refused.contains("more than 256 paths"), "{refused}");
        let long: Vec<String> = (0..40).map(|name| at(&format!("{}/{name}", "x/".repeat(1_000)))).collect();
        let refused = stage.object_among("search_files", &workspace, &long).await.expect_err("refused");
        assert!(refused.contains("exceed the size of a message"), "{refused}");

        // An exclusion that was not found below is not an exclusion of this call; a program can
        // leave out nothing.
        let arguments = json!({ "path": root, "pattern": "x" });
        let made_up = Exclusion { canonical: at("c"), id: None };
        let prepared = stage.prepare("search_files", &arguments).await.expect("prepared");
        let ended = stage.run_without("search_files", &arguments, prepared, vec![made_up]).await;
        let reason = "the permitted exclusions are not those that were prepared".to_owned();
        assert_eq!(ended.end, End::Refused { reason });
        let arguments = json!({ "path": root });
        let mut ask = stage.ask("reads_all", &arguments);
        ask.named = vec![at("c")];
        let prepared = stage.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect("prepared");
        let exclusions = all(&prepared.object);
        let ended = stage.run_without("reads_all", &arguments, prepared, exclusions).await;
        let reason = "a program cannot leave out what lies below its folder".to_owned();
        assert_eq!(ended.end, End::Refused { reason }, "as root: {is_root}");
    });
}

/// Through a bind mount the same folder has other names, which no link above it reveals.
pub(super) fn stays_on_its_mount() {
    let world = World::new();
    let workspace = world.workspace();
    for folder in
        ["workspace/sub/secret", "workspace/mnt", "workspace/open", "outside/vault/inner", "outside/view"]
    {
        std::fs::create_dir_all(world.path(folder)).expect("made");
    }
    world.write("workspace/open/plain", b"MARK plain");
    world.write("workspace/file", b"");
    world.write("workspace/sub/secret/s", b"MARK secret");
    world.write("outside/vault/inner/v", b"MARK vault");
    world.write("outside/key", b"MARK key");
    reads_all(&world);
    // For this thread, and the launcher that it forks.
    let private = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).and_then(|()| {
        mount(None, Path::new("/"), MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
        mount(Some(&world.path("outside/vault/inner")), &world.path("workspace/mnt"), MsFlags::MS_BIND)?;
        mount(Some(&world.path("outside/key")), &world.path("workspace/file"), MsFlags::MS_BIND)?;
        mount(Some(&world.path("workspace/sub")), &world.path("outside/view"), MsFlags::MS_BIND)
    });
    if let Err(e) = private {
        return println!("skipped: mounting is refused: {e}");
    }
    world.with(|stage| async move {
        let outside = workspace.parent().expect("a parent").join("outside");
        // A folder inside what is named, a file, and a name that leads through a mount of a part of
        // the folder.
        let named = [outside.join("vault"), outside.join("key"), outside.join("view/secret")];
        let found = stage.search(&workspace, &named, json!({}), || ()).await;
        assert_eq!(marks(&found), set(&["MARK plain"]), "{found}");
        // The one on this mount; the walk does not enter the others.
        assert_eq!((&found["excluded"], &found["folders_skipped"]), (&json!(1), &json!(1)), "{found}");
        let refused = stage.object_among("reads_all", &workspace, &[]).await.expect_err("refused");
        assert!(refused.contains("mounted below"), "{refused}");
        stage
            .object_among("reads_all", &workspace.join("open"), &[])
            .await
            .expect("nothing is mounted there");
    });
}

fn mount(from: Option<&Path>, to: &Path, flags: MsFlags) -> nix::Result<()> {
    nix::mount::mount(from, to, None::<&Path>, flags, None::<&Path>)
}

/// What lies below a folder was decided on only if the manifest says that it is read.
pub(super) fn programs_read_below_only_if_their_manifest_says_so() {
    let world = World::new();
    let workspace = world.workspace();
    std::fs::create_dir(workspace.join("sub")).expect("made");
    let file = world.write("workspace/sub/f", b"MARK below\n");
    let tail = include_str!("../../../tests/it/tools/tail.toml").replace("/usr/bin/tail", "/usr/bin/grep");
    let command = tail.lines().find(|line| line.starts_with("command")).expect("a command").to_owned();
    let tail = tail.replace(&command, r#"command = ["/usr/bin/grep", "-r", "MARK", "--", "{path}"]"#);
    world.tool("greps", &tail.replace("\"tail\"", "\"greps\""));
    let below =
        tail.replace("\"tail\"", "\"greps_below\"").replace("[resource]", "recursive = true\n[resource]");
    world.tool("greps_below", &below);
    world.with(|stage| async move {
        let call = async |tool: &str, path: &Path| {
            let ended = stage.call(tool, json!({ "path": words(path), "lines": 1 })).await;
            String::from_utf8_lossy(&ended.stdout).into_owned()
        };
        assert_eq!(call("greps", Path::new(&file)).await, "MARK below\n");
        assert_eq!(call("greps", &workspace).await, "");
        assert!(call("greps_below", &workspace).await.ends_with("MARK below\n"));
    });
}

/// A program that reads below its resource.
fn reads_all(world: &World) {
    let tail = include_str!("../../../tests/it/tools/tail.toml");
    let tail =
        tail.replace("\"tail\"", "\"reads_all\"").replace("[resource]", "recursive = true\n[resource]");
    let tail = tail.replace("\"lines\", ", "").replace(", \"lines\"", "").replace("\"{lines}\"", "\"1\"");
    world.tool("reads_all", &tail);
}

/// What one step of making a tree adds.
#[derive(Clone, Debug)]
enum TreeStep {
    Folder(usize),
    File(usize),
    Link(usize, usize),
    HardLink(usize, usize),
}

/// How an excluded node is named to prepare.
#[derive(Clone, Copy, Debug)]
enum Spelling {
    Plain,
    ByLink,
    ByHardLink,
}

fn steps() -> impl Strategy<Value = Vec<TreeStep>> {
    let place = || 0..64_usize;
    let step = prop_oneof![
        3 => place().prop_map(TreeStep::Folder),
        4 => place().prop_map(TreeStep::File),
        1 => (place(), place()).prop_map(|(at, to)| TreeStep::Link(at, to)),
        2 => (place(), place()).prop_map(|(at, to)| TreeStep::HardLink(at, to)),
    ];
    prop::collection::vec(step, 1..40)
}

fn excluded() -> impl Strategy<Value = Vec<(usize, Spelling)>> {
    let spelling = prop::sample::select(vec![Spelling::Plain, Spelling::ByLink, Spelling::ByHardLink]);
    prop::collection::vec((0..64_usize, spelling), 0..6)
}

/// Random trees with random exclusions: each line that may be found is found, and no other.
pub(super) fn no_excluded_byte_is_found() {
    const CASES: usize = 48;
    let world = World::new();
    let workspace = world.workspace();
    let mut runner = TestRunner::deterministic();
    let mut case = || (steps(), excluded()).new_tree(&mut runner).expect("a case").current();
    let cases: Vec<_> = (0..CASES).map(|_| case()).collect();
    world.with(|stage| async move {
        let (mut left_out, mut found_all) = (0, 0);
        for (at, (steps, excluded)) in cases.into_iter().enumerate() {
            let top = workspace.join(format!("case-{at}"));
            let (folders, files) = plant(&top, &steps);
            let nodes: Vec<&PathBuf> = folders.iter().skip(1).chain(&files).collect();
            let named = name(&nodes, &excluded, &workspace.parent().expect("a parent").join("outside"), at);
            let mut expect = BTreeSet::new();
            let ids = named
                .iter()
                .map(|path| std::fs::metadata(path).expect("there"))
                .map(|meta| (meta.dev(), meta.ino()));
            may_be_found(&top, &ids.collect(), &mut expect);
            let found = stage.search(&top, &named, json!({}), || ()).await;
            assert_eq!(marks(&found), expect, "{steps:?} without {named:?}: {found}");
            left_out += found["excluded"].as_u64().expect("a number");
            found_all += expect.len();
        }
        assert!(left_out > 20 && found_all > 50, "{left_out} {found_all}");
    });
}

/// Makes the tree; returns its folders, itself first, and its files under every name.
fn plant(top: &Path, steps: &[TreeStep]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    std::fs::create_dir(top).expect("made");
    let (mut folders, mut files) = (vec![top.to_owned()], Vec::new());
    for (at, step) in steps.iter().enumerate() {
        let below = |folders: &[PathBuf], place: usize| folders[place % folders.len()].join(format!("n{at}"));
        match *step {
            TreeStep::Folder(place) => {
                let path = below(&folders, place);
                // The walk's own limit on depth.
                if path.components().count() < top.components().count() + 30 {
                    std::fs::create_dir(&path).expect("made");
                    folders.push(path);
                }
            }
            TreeStep::File(place) => {
                let path = below(&folders, place);
                std::fs::write(&path, format!("a\nMARK-{at}-\n")).expect("written");
                files.push(path);
            }
            TreeStep::Link(place, to) => {
                let target = folders[to % folders.len()].clone();
                symlink(target, below(&folders, place)).expect("linked");
            }
            TreeStep::HardLink(_, _) if files.is_empty() => {}
            TreeStep::HardLink(place, to) => {
                let path = below(&folders, place);
                std::fs::hard_link(&files[to % files.len()], &path).expect("linked");
                files.push(path);
            }
        }
    }
    (folders, files)
}

/// The names that are given for what is excluded.
fn name(nodes: &[&PathBuf], excluded: &[(usize, Spelling)], outside: &Path, case: usize) -> Vec<PathBuf> {
    let mut named = Vec::new();
    for (at, (place, spelling)) in excluded.iter().enumerate().filter(|_| !nodes.is_empty()) {
        let node = nodes[place % nodes.len()];
        let other = outside.join(format!("{case}-{at}"));
        named.push(match spelling {
            Spelling::ByHardLink if node.is_file() => {
                std::fs::hard_link(node, &other).expect("linked");
                other
            }
            Spelling::Plain => node.clone(),
            Spelling::ByLink | Spelling::ByHardLink => {
                symlink(node, &other).expect("linked");
                other
            }
        });
    }
    named
}

/// The lines that a walk finds which follows no link and leaves out what has one of the ids.
fn may_be_found(folder: &Path, without: &BTreeSet<(u64, u64)>, into: &mut BTreeSet<String>) {
    for item in std::fs::read_dir(folder).expect("a folder") {
        let path = item.expect("an entry").path();
        let meta = std::fs::symlink_metadata(&path).expect("there");
        if without.contains(&(meta.dev(), meta.ino())) || meta.is_symlink() {
            continue;
        }
        if meta.is_dir() {
            may_be_found(&path, without, into);
        } else {
            let text = std::fs::read_to_string(&path).expect("text");
            into.extend(text.lines().filter(|line| line.contains("MARK")).map(str::to_owned));
        }
    }
}
