//! Attempts made by calls: by their arguments, by the state of the workspace, or with a process
//! that changes it concurrently.

use super::stage::{Ground, Outcome, SECRET, Stage};
use crate::support::{start, until};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) type Act = fn(&Stage) -> Outcome;

/// Calls concurrent with a process that changes what they read. Enough that, if only names were
/// checked, some would read what they must not.
const RACES: usize = 60;

/// Turns of twenty such calls. The race does not depend on a layer that other grounds are without:
/// there one turn is enough.
fn turns(stage: &Stage) -> usize {
    if stage.ground == Ground::Whole { RACES / 20 } else { 1 }
}

/// Held, if no step has disclosed anything and each has one of these statuses.
fn held(steps: &[Value], statuses: &[&str]) -> Outcome {
    for step in steps {
        let status = step["status"].as_str().expect("a status");
        let told = step["result"].to_string();
        if told.contains(SECRET) || told.contains("root:") || (status == "ok" && !statuses.contains(&"ok")) {
            println!("{step}");
            return Outcome::Succeeded;
        }
        assert!(statuses.contains(&status), "{step}");
    }
    assert!(!steps.is_empty(), "nothing was tried");
    Outcome::Held
}

/// Each path, given to each of the tools that take one.
fn ask(stage: &Stage, tools: &[&str], paths: &[String]) -> Vec<Value> {
    let arguments = |tool: &str, path: &str| match tool {
        "search_files" => json!({ "path": path, "pattern": "e" }),
        "tail_file" => json!({ "path": path, "lines": 5 }),
        _ => json!({ "path": path }),
    };
    let calls =
        tools.iter().flat_map(|tool| paths.iter().map(|path| (*tool, arguments(tool, path).to_string())));
    let calls: Vec<(&str, String)> = calls.collect();
    calls.chunks(30).flat_map(|some| stage.house.calls(some)).collect()
}

const READERS: [&str; 4] = ["read_file", "list_dir", "search_files", "tail_file"];

fn refused(stage: &Stage, paths: &[String]) -> Outcome {
    held(&ask(stage, &READERS, paths), &["refused"])
}

fn outside(stage: &Stage) -> PathBuf {
    stage.home().beside("outside")
}

pub(crate) fn climbs(stage: &Stage) -> Outcome {
    let to = [
        "..",
        "../..",
        "../../outside",
        "../../outside/secret",
        "box/../../../outside/secret",
        "../data/pepper",
    ];
    refused(stage, &to.map(|to| stage.work(to)))
}

pub(crate) fn absolute(stage: &Stage) -> Outcome {
    let secret = outside(stage).join("secret").display().to_string();
    refused(
        stage,
        &[
            secret,
            "/".to_owned(),
            "/etc/shadow".to_owned(),
            "/etc/passwd".to_owned(),
            "//etc//passwd".to_owned(),
        ],
    )
}

/// Plain bytes: names that do not exist.
pub(crate) fn encoded(stage: &Stage) -> Outcome {
    let ways = [
        "%2e%2e/%2e%2e/outside/secret",
        "%2e%2e%2f%2e%2e%2foutside%2fsecret",
        "%252e%252e%252foutside",
        "..%c0%af..%c0%afoutside",
        "..\\..\\outside\\secret",
        "\u{ff0e}\u{ff0e}/\u{ff0e}\u{ff0e}/outside/secret",
        "..\u{2215}..\u{2215}outside",
        "....//....//outside/secret",
        "&#46;&#46;/outside",
    ];
    held(&ask(stage, &["read_file", "list_dir"], &ways.map(|way| stage.work(way))), &["refused", "error"])
}

pub(crate) fn nul(stage: &Stage) -> Outcome {
    let paths = [
        "/etc/passwd\0".to_owned(),
        stage.work("box/inside\0/../../../etc/passwd"),
        "\0/etc/passwd".to_owned(),
    ];
    let mut steps = ask(stage, &READERS, &paths);
    steps.push(stage.taken("taken_static", "words\0"));
    held(&steps, &["refused"])
}

pub(crate) fn long(stage: &Stage) -> Outcome {
    // Short by its name, but it leads deep.
    let workspace = stage.home().path("workspace");
    let deep = workspace.join("d/".repeat(200));
    std::fs::create_dir_all(&deep).expect("folders");
    std::fs::write(deep.join("file"), "deep").expect("file");
    symlink(&deep, workspace.join("near")).expect("link");
    let paths = [
        stage.work(&"n".repeat(300)),
        stage.work(&"d/".repeat(3_000)),
        stage.work(&"d/".repeat(200)),
        stage.work("near/file"),
        format!("/{}", "a/".repeat(1_900)),
    ];
    refused(stage, &paths)
}

pub(crate) fn links(stage: &Stage) -> Outcome {
    refused(stage, &["box/out", "box/folder/secret", "box/folder"].map(|link| stage.work(link)))
}

/// While a process swaps a file for a link to the secret, and back.
pub(crate) fn swapped_file(stage: &Stage) -> Outcome {
    let folder = stage.home().path("workspace/swapped");
    std::fs::create_dir(&folder).expect("folder");
    std::fs::write(folder.join("plain"), "plain").expect("file");
    symlink(outside(stage).join("secret"), folder.join("link")).expect("link");
    let name = folder.join("name");
    let swap = |turn: usize| {
        let next = folder.join(format!("next-{turn}"));
        if turn.is_multiple_of(2) {
            std::fs::hard_link(folder.join("plain"), &next).expect("link");
        } else {
            symlink(outside(stage).join("secret"), &next).expect("link");
        }
        std::fs::rename(&next, &name).expect("renamed");
    };
    swap(0);
    let steps = meanwhile(swap, || {
        let path = [name.display().to_string()];
        (0..turns(stage))
            .flat_map(|_| ask(stage, &["read_file", "tail_file"], &vec![path[0].clone(); 10]))
            .collect()
    });
    held(&steps, &["ok", "refused", "error"])
}

/// While a process swaps a searched folder for a link to the folder outside, and back.
pub(crate) fn swapped_folder(stage: &Stage) -> Outcome {
    let top = stage.home().path("workspace/walked");
    std::fs::create_dir_all(top.join("a/b")).expect("folders");
    std::fs::write(top.join("a/b/secret"), "plain secret-like words").expect("file");
    let swap = |turn: usize| {
        if turn.is_multiple_of(2) {
            std::fs::rename(top.join("a/b"), top.join("real")).expect("renamed");
            symlink(outside(stage), top.join("a/b")).expect("link");
        } else {
            std::fs::remove_file(top.join("a/b")).expect("removed");
            std::fs::rename(top.join("real"), top.join("a/b")).expect("renamed");
        }
    };
    let search = json!({ "path": top.display().to_string(), "pattern": "secret" }).to_string();
    let steps = meanwhile(swap, || {
        let calls = vec![("search_files", search.clone()); 20];
        (0..turns(stage)).flat_map(|_| stage.house.calls(&calls)).collect()
    });
    held(&steps, &["ok", "refused", "error"])
}

/// Repeats `change`, an even number of times, until `calls` returns.
fn meanwhile(change: impl Fn(usize) + Sync, calls: impl FnOnce() -> Vec<Value>) -> Vec<Value> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while turn % 2 != 0 || !is_over.load(Ordering::SeqCst) {
                change(turn);
                turn += 1;
            }
        });
        let _over = Over(&is_over);
        calls()
    })
}

/// Also ends if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) fn loops(stage: &Stage) -> Outcome {
    let folder = stage.home().path("workspace/loops");
    std::fs::create_dir(&folder).expect("folder");
    for (to, link) in [("one", "two"), ("two", "one"), ("self", "self"), ("nowhere", "dangling")] {
        symlink(to, folder.join(link)).expect("link");
    }
    let paths = ["one", "self", "self/x", "dangling"].map(|link| stage.work(&format!("loops/{link}")));
    held(&ask(stage, &["read_file", "list_dir", "search_files"], &paths), &["refused", "error"])
}

pub(crate) fn own_proc(stage: &Stage) -> Outcome {
    let secret = outside(stage).join("secret").display().to_string();
    let ways =
        ["/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root"].map(|way| format!("{way}{secret}"));
    refused(stage, &ways)
}

pub(crate) fn other_proc(stage: &Stage) -> Outcome {
    let mut pids = stage.house.server.descendants();
    pids.push(1);
    let below = ["root/etc/passwd", "cwd", "environ", "cmdline", "fd"];
    let paths: Vec<String> =
        pids.iter().flat_map(|pid| below.map(|name| format!("/proc/{pid}/{name}"))).collect();
    refused(stage, &paths)
}

pub(crate) fn own_descriptors(stage: &Stage) -> Outcome {
    let paths: Vec<String> = (0..10).map(|fd| format!("/proc/self/fd/{fd}")).collect();
    refused(stage, &paths)
}

/// With root's rights or with capabilities it would say so, and it does if nothing holds it.
fn lent(stage: &Stage, name: &str) -> Outcome {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    use std::os::unix::process::CommandExt as _;
    let program = stage.programs.join(name);
    let lends = !statvfs(&program).expect("a mount").f_flag.contains(StatVfsMountFlags::NOSUID);
    if lends && crate::support::is_root() {
        let unheld = start(&program).arg("privileged").uid(65_534).gid(65_534).output().expect("starts");
        assert_eq!(unheld.stdout, b"privileged\n");
    }
    let step = stage.taken(&format!("taken_{name}"), "privileged");
    // The kernel may refuse to start it if it could not lend what it says.
    let is_held = step["status"] == "refused" || step["result"]["stdout"] == "plain\n";
    if is_held { Outcome::Held } else { Outcome::Succeeded }
}

pub(crate) fn set_id(stage: &Stage) -> Outcome {
    lent(stage, "set_id")
}

pub(crate) fn capable(stage: &Stage) -> Outcome {
    lent(stage, "capable")
}

pub(crate) fn flags(stage: &Stage) -> Outcome {
    let words = ["-x", "--", "--output=/etc/passwd", "-exec"];
    let mut steps: Vec<Value> = words.iter().map(|word| stage.taken("taken_static", word)).collect();
    steps.push(stage.call("taken_static", &json!({ "what": "words", "stranger": -1 })));
    steps.push(stage.call("taken_static", &json!({ "what": "words", "word": "-rf" })));
    held(&steps, &["refused"])
}

/// The file is named by its whole path.
pub(crate) fn file_named_flag(stage: &Stage) -> Outcome {
    std::fs::write(stage.work("-n"), "named like a flag\n").expect("file");
    let step = stage.call("tail", &json!({ "path": stage.work("-n"), "lines": 1 }));
    if step["result"]["stdout"] == "named like a flag\n" { Outcome::Held } else { Outcome::Succeeded }
}

pub(crate) fn long_arguments(stage: &Stage) -> Outcome {
    let long = "x".repeat(20_001);
    let steps = [
        stage.taken("taken_static", &long),
        stage.call("taken_static", &json!({ "what": "words", "word": "x".repeat(70_000) })),
        stage.call("taken_static", &json!({ "what": vec!["words"; 10_000] })),
    ];
    held(&steps, &["refused"])
}

/// Calls of others, while one has as many processes as it may have.
pub(crate) fn others_go_on(stage: &Stage) -> Outcome {
    let both = [("taken_static", json!({ "what": "forks" }).to_string()), ("health_check", "{}".to_owned())];
    let calls: Vec<_> = both.iter().cycle().take(8).cloned().collect();
    let refuses = stage.refuses_programs().is_some();
    let goes_on = |step: &Value| {
        step["status"] == if refuses && step["tool"] != "health_check" { "refused" } else { "ok" }
    };
    if stage.house.calls(&calls).iter().all(goes_on) { Outcome::Held } else { Outcome::Succeeded }
}

/// If the tests' own core limit is zero, the launcher cannot set the limit to 1: then it is not
/// reported.
pub(crate) fn no_core(_: &Stage) -> Outcome {
    let most = rustix::process::getrlimit(rustix::process::Resource::Core).maximum;
    if most == Some(0) { Outcome::Held } else { Outcome::NotApplicable }
}

/// The call ends as its program does, and no process of it remains.
fn nothing_left(stage: &Stage, what: &str, says: &str) -> Outcome {
    let step = stage.taken("taken_static", what);
    assert_eq!((&step["status"], &step["result"]["stdout"]), (&json!("ok"), &json!(says)), "{step}");
    let program = stage.programs.join("static");
    until("no process of the call is left", || super::stage::find(&program).is_none());
    Outcome::Held
}

pub(crate) fn zombies(stage: &Stage) -> Outcome {
    nothing_left(stage, "orphans", "reaped\n")
}

pub(crate) fn keeps_pipe(stage: &Stage) -> Outcome {
    nothing_left(stage, "keep_pipe", "kept\n")
}

pub(crate) fn outlives(stage: &Stage) -> Outcome {
    nothing_left(stage, "outlive", "outlived\n")
}

/// No character has an effect on the reader's terminal.
pub(crate) fn escapes(stage: &Stage) -> Outcome {
    let step = stage.taken("taken_static", "escapes");
    let told = step["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{step}"));
    let result = stage.home().entry(step["ledger"]["result"].as_u64().expect("a number")).to_string();
    let hidden = ['\u{1b}', '\u{7}', '\r', '\u{202e}', '\u{200b}'];
    assert!(told.contains("{\"role\":\"system\"") && told.contains("\\u{202e}"), "{told}");
    if told.contains(hidden) || result.contains(hidden) { Outcome::Succeeded } else { Outcome::Held }
}

pub(crate) fn bytes(stage: &Stage) -> Outcome {
    let step = stage.taken("taken_static", "bytes");
    let told = step["result"]["stdout_base64"].as_str();
    if told == Some("//4AgCBieXRlcw==") { Outcome::Held } else { panic!("{step}") }
}

pub(crate) fn fifo(stage: &Stage) -> Outcome {
    let fifo = stage.home().path("workspace/fifo");
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o644);
    nix::unistd::mkfifo(&fifo, mode).expect("fifo");
    let steps = ask(stage, &["read_file", "list_dir", "search_files"], &[fifo.display().to_string()]);
    assert!(steps.iter().all(|step| step["status"] == "error"), "{steps:?}");
    // In a folder it is skipped.
    let all = ask(stage, &["search_files"], &[stage.work("")]).remove(0);
    if all["status"] == "ok" { Outcome::Held } else { panic!("{all}") }
}

pub(crate) fn endless(stage: &Stage) -> Outcome {
    refused(stage, &["/dev/zero", "/dev/urandom", "/dev/tty", "/dev/full"].map(str::to_owned))
}

/// The read is bounded by what was asked for, not by the end of the file.
pub(crate) fn grows(stage: &Stage) -> Outcome {
    let path = stage.home().path("workspace/grows");
    std::fs::write(&path, vec![b'x'; 100_000]).expect("file");
    let file = std::fs::File::options().append(true).open(&path).expect("file");
    let arguments = json!({ "path": path.display().to_string(), "limit": 8_192 }).to_string();
    let steps = meanwhile(
        |turn| {
            // Not for ever: this test must not fill the disk.
            if turn < 2_000 {
                std::io::Write::write_all(&mut &file, &[b'y'; 4_096]).expect("written");
            }
        },
        || stage.house.calls(&vec![("read_file", arguments); 20]),
    );
    let is_bounded = |step: &Value| step["status"] == "ok" && step["result"]["bytes"] == 8_192;
    if steps.iter().all(is_bounded) { Outcome::Held } else { panic!("{steps:?}") }
}

/// A read that ends early is an answer; memory that vanished would be a signal.
pub(crate) fn shrinks(stage: &Stage) -> Outcome {
    let path = stage.home().path("workspace/shrinks");
    std::fs::write(&path, vec![b'e'; 1_000]).expect("file");
    let file = std::fs::File::options().write(true).open(&path).expect("file");
    let steps = meanwhile(
        |turn| {
            file.set_len(if turn.is_multiple_of(2) { 0 } else { 1_000 }).expect("cut");
            file.write_all_at(b"ends", 0).expect("written");
        },
        || {
            let paths = vec![path.display().to_string(); 10];
            ask(stage, &["read_file", "search_files"], &paths)
        },
    );
    held(&steps, &["ok", "error"])
}

pub(crate) fn names(stage: &Stage) -> Outcome {
    let folder = stage.home().path("workspace/names");
    std::fs::create_dir(&folder).expect("folder");
    let names = [&b"new\nline"[..], b"esc\x1b[2J", b"bad\xff\xfe", b"-rf", "bidi\u{202e}x".as_bytes()];
    for name in names {
        std::fs::write(folder.join(std::ffi::OsStr::from_bytes(name)), "named").expect("file");
    }
    let steps = ask(stage, &["list_dir", "search_files"], &[folder.display().to_string()]);
    let told = steps.iter().map(|step| step["result"].to_string()).collect::<String>();
    assert!(told.contains("name_base64") && told.contains("-rf"), "{told}");
    if told.contains(['\u{1b}', '\u{202e}']) { Outcome::Succeeded } else { Outcome::Held }
}

/// Nested folders whose path becomes longer than any call accepts.
pub(crate) fn deep(stage: &Stage) -> Outcome {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    let top = stage.home().path("workspace/deep");
    std::fs::create_dir(&top).expect("folder");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = rustix::fs::open(&top, flags, Mode::empty()).expect("folder");
    let name = "d".repeat(200);
    for _ in 0..40 {
        mkdirat(&at, name.as_str(), Mode::from_raw_mode(0o755)).expect("folder");
        at = openat(&at, name.as_str(), flags, Mode::empty()).expect("folder");
    }
    let arguments = json!({ "path": top.display().to_string(), "pattern": "x", "depth": 32 });
    let step = stage.call("search_files", &arguments);
    let passed_over =
        ["folders_skipped", "files_skipped"].map(|what| step["result"][what].as_u64().unwrap_or(0));
    if step["status"] == "ok" && passed_over != [0, 0] { Outcome::Held } else { panic!("{step}") }
}

/// An overwritten program is detected; a replaced one does not run.
pub(crate) fn replaced(stage: &Stage) -> Outcome {
    let program = stage.programs.join("replaced");
    let says = |stage: &Stage| stage.taken("taken_replaced", "words");
    assert_eq!(says(stage)["result"]["stdout"], "words\n");
    compile_other(&program.with_extension("new"));
    std::fs::rename(program.with_extension("new"), &program).expect("renamed");
    let renamed = says(stage);
    // This overwrites the file that the launcher has open, through another name for it.
    if renamed["result"]["stdout"] != "words\n" && renamed["status"] != "refused" {
        return Outcome::Succeeded;
    }
    let other = stage.programs.join("sibling");
    let bytes = std::fs::read(&program).expect("program");
    std::fs::write(&other, bytes).expect("written");
    let step = stage.taken("taken_sibling", "words");
    held(&[step], &["refused"])
}

fn compile_other(to: &Path) {
    let source = to.with_extension("c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"replaced\"); return 0; }\n")
        .expect("source");
    let made = start(Path::new("cc")).arg("-static").arg("-o").arg(to).arg(&source).output().expect("cc");
    assert!(made.status.success(), "{made:?}");
}
