//! What a tool executes is under its manifest's digest, and only root or the owner of `etc/` can
//! change it (L10).

use crate::model::House;
use crate::support::TestHome;
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const PERMIT: &str = r#"@id("shout")
permit (principal in PAR::Role::"operator", action == PAR::Action::"shout", resource == PAR::Host::"localhost");
"#;

fn manifest(program: &Path) -> String {
    format!(
        r#"name = "shout"
summary = "Prints a word."
class = "read"
risk = "low"
command = ["{}", "hello"]
runtime = "dynamic"
untrusted_output = true
[resource]
type = "Host"
is = "localhost"
[sandbox]
[limits]
wall_ms_max = 5000
output_bytes_max = 65536
memory_bytes_max = 134217728
processes_max = 4
[input]
type = "object"
additionalProperties = false
"#,
        program.display()
    )
}

/// Adds the tool `shout`, with a program of its own next to the home.
fn add(home: &TestHome) -> PathBuf {
    let folder = home.beside("programs");
    std::fs::create_dir(&folder).expect("folder");
    let program = folder.join("shout");
    std::fs::copy("/usr/bin/echo", &program).expect("a program");
    mode(&program, 0o755);
    mode(&folder, 0o755);
    home.add("tools.d/shout.toml", &manifest(&program));
    home.add("policies/60-shout.cedar", PERMIT);
    program
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
}

/// Changes one bit of the byte `from_end` before the end. What lies there is not executed.
fn flip(program: &Path, from_end: usize) {
    let mut bytes = std::fs::read(program).expect("program");
    let at = bytes.len() - from_end;
    bytes[at] ^= 1;
    // Another file in its place, as a package manager writes it.
    let new = program.with_extension("new");
    std::fs::write(&new, &bytes).expect("written");
    mode(&new, 0o755);
    std::fs::rename(&new, program).expect("replaced");
}

fn digest(home: &TestHome) -> String {
    let shown: Value =
        serde_json::from_str(&home.expect(0, &["tool", "show", "shout", "--json"])).expect("JSON");
    shown["digest"].as_str().expect("digest").to_owned()
}

#[test]
fn any_byte_of_a_program_changes_the_digest_of_its_manifest() {
    let home = TestHome::init();
    let program = add(&home);
    let mut seen = vec![digest(&home)];
    for from_end in [1, 64, 4_096] {
        flip(&program, from_end);
        let now = digest(&home);
        assert!(!seen.contains(&now), "a changed byte, {from_end} before the end");
        flip(&program, from_end);
        assert_eq!(digest(&home), seen[0], "the byte as it was");
        seen.push(now);
    }
}

#[test]
fn a_program_that_changed_after_the_load_does_not_run_until_a_reload() {
    let mut program = PathBuf::new();
    let house = House::start(|home| program = add(home));
    let step = || house.calls(&[("shout", "{}".to_owned())]).remove(0);
    let first = step();
    assert_eq!((&first["decision"], &first["status"]), (&"allow".into(), &"ok".into()), "{first}");
    flip(&program, 1);
    let refused = step();
    assert_eq!((&refused["decision"], &refused["class"]), (&"deny".into(), &"host".into()), "{refused}");
    assert!(refused.to_string().contains("a program of the tool changed since it was loaded"), "{refused}");
    house.home.expect(0, &["reload"]);
    let again = step();
    assert_eq!(again["status"], "ok", "{again}");
    let decisions = house.home.entries(&["kind:call.decision", "tool:shout"]);
    let manifests: Vec<&Value> = decisions.iter().map(|entry| &entry["manifest"]).collect();
    assert_eq!(manifests[0], manifests[1]);
    assert_ne!(manifests[1], manifests[2], "what runs is on record");
    house.check_ledger();
}

#[test]
fn a_program_that_others_can_change_is_refused() {
    let home = TestHome::init();
    let program = add(&home);
    let call = |expect: &str| {
        let told = home.expect(3, &["tool", "call", "shout", "{}"]);
        assert!(told.contains(expect), "{told}");
    };
    home.expect(0, &["tool", "call", "shout", "{}"]);
    mode(&program, 0o775);
    call("is writable by others (mode 0775)");
    mode(&program, 0o755);
    let folder = program.parent().expect("folder");
    mode(folder, 0o777);
    call("is writable by others (mode 0777)");
    // With the sticky bit, others cannot replace what they do not own.
    mode(folder, 0o1777);
    home.expect(0, &["tool", "call", "shout", "{}"]);
}

/// Adds the tool `shout`: a shell that reads its lines from a folder of code, and starts a program
/// there.
fn add_folder(home: &TestHome) -> PathBuf {
    let folder = home.beside("code");
    std::fs::create_dir_all(folder.join("lib/deep")).expect("folder");
    std::fs::write(folder.join("main.sh"), ". \"${0%/*}/lib/deep/words.sh\"; \"${0%/*}/say\" \"$WORD\"\n")
        .expect("written");
    std::fs::write(folder.join("lib/deep/words.sh"), "WORD=hello\n").expect("written");
    std::fs::write(folder.join("lib/empty"), "").expect("written");
    std::fs::copy("/usr/bin/echo", folder.join("say")).expect("a program");
    mode(&folder.join("say"), 0o755);
    symlink("lib/deep", folder.join("short")).expect("link");
    for below in ["", "lib", "lib/deep"] {
        mode(&folder.join(below), 0o755);
    }
    for below in ["main.sh", "lib/empty", "lib/deep/words.sh"] {
        mode(&folder.join(below), 0o644);
    }
    write(home, &folder, "");
    home.add("policies/60-shout.cedar", PERMIT);
    folder
}

fn write(home: &TestHome, folder: &Path, more: &str) {
    let text = manifest(Path::new("/bin/sh"))
        .replace("\"hello\"", &format!("{:?}", folder.join("main.sh")))
        .replace("[sandbox]", &format!("[sandbox]\ncode = [{folder:?}]\n{more}"));
    home.add("tools.d/shout.toml", &text);
}

/// What it changes, and the change.
type CodeChange<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// Every change that makes other bytes, or another file, run.
fn changes(folder: &Path) -> Vec<CodeChange<'_>> {
    let bytes = |name: &'static str| std::fs::read(folder.join(name)).expect("read");
    let put = |name: &'static str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("written");
    let mut all: Vec<CodeChange<'_>> = Vec::new();
    for name in ["main.sh", "lib/deep/words.sh"] {
        let was = bytes(name);
        for at in 0..was.len() {
            let mut flipped = was.clone();
            flipped[at] ^= 1;
            all.push((name, Box::new(move || put(name, &flipped))));
        }
        all.push((name, Box::new(move || put(name, &was))));
    }
    all.push(("a file more", Box::new(move || put("lib/more", b""))));
    all.push(("a file less", Box::new(|| std::fs::remove_file(folder.join("lib/more")).expect("removed"))));
    all.push((
        "another name",
        Box::new(|| std::fs::rename(folder.join("lib/empty"), folder.join("lib/other")).expect("renamed")),
    ));
    all.push(("executable", Box::new(|| mode(&folder.join("main.sh"), 0o755))));
    all.push((
        "another target",
        Box::new(|| {
            std::fs::remove_file(folder.join("short")).expect("removed");
            symlink("lib", folder.join("short")).expect("link");
        }),
    ));
    all
}

/// A folder in `code` is part of the digest: each byte, name, type and target of a link in it.
#[test]
fn any_byte_of_a_folder_of_code_changes_the_digest_of_its_manifest() {
    let home = TestHome::init();
    let folder = add_folder(&home);
    let told = home.expect(0, &["tool", "call", "shout", "{}"]);
    assert!(told.contains("hello"), "{told}");
    let was = digest(&home);
    let mut last = was.clone();
    let mut same = 0;
    for (what, change) in changes(&folder) {
        change();
        let now = digest(&home);
        assert_ne!(now, last, "{what}");
        same += usize::from(now == was);
        last = now;
    }
    // The file as it was, and the folder without the file that was added.
    assert_eq!(same, 1 + 1 + 1, "the digest depends on nothing else");
    let shown = home.expect(0, &["tool", "show", "shout", "--json"]);
    assert!(shown.contains("\"code\"") && shown.contains("\"files\""), "{shown}");
}

/// A call reads code as it was loaded, or nothing (L10).
#[test]
fn a_folder_of_code_that_changed_after_the_load_is_not_run_until_a_reload() {
    let mut folder = PathBuf::new();
    let house = House::start(|home| folder = add_folder(home));
    let step = || house.calls(&[("shout", "{}".to_owned())]).remove(0);
    let first = step();
    assert_eq!((&first["decision"], &first["status"]), (&"allow".into(), &"ok".into()), "{first}");
    let words = folder.join("lib/deep/words.sh");
    let was = std::fs::read(&words).expect("read");
    for at in 0..was.len() {
        let mut flipped = was.clone();
        flipped[at] ^= 1;
        std::fs::write(&words, &flipped).expect("written");
        let refused = step();
        assert_eq!((&refused["decision"], &refused["class"]), (&"deny".into(), &"host".into()), "{refused}");
        let told = refused.to_string();
        assert!(told.contains("words.sh` changed since it was loaded: `par reload`"), "{told}");
    }
    std::fs::write(&words, "WORD=again\n").expect("written");
    house.home.expect(0, &["reload"]);
    let again = step();
    assert!(again["status"] == "ok" && again.to_string().contains("again"), "{again}");
    std::fs::write(folder.join("lib/more"), "").expect("written");
    assert_eq!(step()["class"], "host", "a file more");
    house.check_ledger();
}

/// A folder that others can change, that is not closed in itself, or that a tool may change, is
/// refused.
#[test]
fn a_folder_of_code_that_others_could_change_is_refused() {
    let home = TestHome::init();
    let folder = add_folder(&home);
    let call = |expect: &str| {
        let told = home.expect(3, &["tool", "call", "shout", "{}"]);
        assert!(told.contains(expect), "{expect}: {told}");
    };
    for below in ["", "lib/deep", "lib/deep/words.sh"] {
        let path = folder.join(below);
        let before = std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        mode(&path, 0o777);
        call("is writable by others (mode 0777)");
        mode(&path, before);
    }
    let out = folder.join("out");
    for target in ["/etc/passwd", "..", "/nowhere"] {
        symlink(target, &out).expect("link");
        call("`out`: ");
        std::fs::remove_file(&out).expect("removed");
    }
    symlink("/bin/sh", &out).expect("link");
    home.expect(0, &["tool", "call", "shout", "{}"]);
    nix::unistd::mkfifo(&folder.join("pipe"), nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    call("is neither a regular file nor a folder nor a link");
    std::fs::remove_file(folder.join("pipe")).expect("removed");
    let deploy = home.path("etc/tools.d/deploy.toml");
    let was = std::fs::read_to_string(&deploy).expect("read");
    let write = was.lines().find(|line| line.starts_with("write =")).expect("a folder");
    std::fs::write(&deploy, was.replace(write, &format!("write = [{folder:?}]"))).expect("written");
    call("the tool `deploy` may change");
}
