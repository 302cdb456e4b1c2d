//! Starts that must fail: an error names the file or the place.

use crate::support::{TestHome, text};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn each_error_that_prevents_a_start_names_its_place() {
    let policy = |text: &str| format!("// first line\n{text}\n");
    check_refused_files(&[
        (
            "par.toml",
            "[server]\nlisten = \"127.0.0.1:0\"\nport = 1\n".to_owned(),
            &["etc/par.toml:3", "port"],
        ),
        ("par.toml", "[nothing]\n".to_owned(), &["etc/par.toml:1", "nothing"]),
        ("par.toml", "[server\n".to_owned(), &["etc/par.toml:1"]),
        (
            "par.toml",
            "[llm]\nprovider = \"gpt\"\n[paths]\nlogs = \"/var/log\"\n".to_owned(),
            &["llm.provider", "gpt"],
        ),
        ("policies/50-mine.cedar", policy("@id(\"mine\") permit (principal"), &["50-mine.cedar:"]),
        (
            "policies/50-mine.cedar",
            policy(
                "@id(\"mine\")\npermit (principal, action, resource)\nwhen { principal.colour == \"red\" };",
            ),
            &["50-mine.cedar:", "colour"],
        ),
        (
            "policies/50-mine.cedar",
            policy("@id(\"read-logs\")\nforbid (principal, action, resource);"),
            &["50-mine.cedar:", "read-logs"],
        ),
        (
            "policies/50-mine.cedar",
            policy("@id(\"mine\")\npermit (principal, action == PAR::Action::\"nothing\", resource);"),
            &["50-mine.cedar:", "nothing"],
        ),
    ]);
}

#[test]
fn a_manifest_that_asks_for_too_much_or_says_too_little_is_refused_with_its_line() {
    let good = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d/read_file.toml"),
    )
    .expect("manifest");
    let tool = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace("\"read_file\"\nsummary", "\"mine\"\nsummary").replace(from, to)
    };
    check_refused_files(&[
        (
            "tools.d/mine.toml",
            tool("untrusted_output = true", "untrusted_output = true\ncolour = 1"),
            &["mine.toml:7", "colour"],
        ),
        (
            "tools.d/mine.toml",
            tool("additionalProperties = false\n", ""),
            &["mine.toml:", "additionalProperties"],
        ),
        (
            "tools.d/mine.toml",
            tool("builtin = \"read_file\"", "command = [\"/nonexistent/program\"]\nruntime = \"static\""),
            &["mine.toml:5", "/nonexistent/program"],
        ),
        ("tools.d/mine.toml", tool("\"@workspace\"", "\"@HOME@\""), &["mine.toml:", "no tool may see"]),
        ("tools.d/mine.toml", tool("\"@workspace\"", "\"@HOME@/data\""), &["mine.toml:", "no tool may see"]),
        ("tools.d/mine.toml", tool("\"@workspace\"", "\"/\""), &["mine.toml:", "no tool may see"]),
        ("tools.d/mine.toml", tool("class = \"read\"\n", ""), &["mine.toml:", "class"]),
        (
            "tools.d/mine.toml",
            tool("from = \"/path\"", "from = \"/limit\""),
            &["mine.toml:", "required string"],
        ),
    ]);
}

/// Finding A13: `config check` passed what a start or a call refused later.
#[test]
fn what_a_start_refuses_the_check_finds_too() {
    let logs = "[paths]\nlogs = \"/var/log\"\n";
    let tool =
        include_str!("../../../tools.d/list_dir.toml").replace("\"list_dir\"\nsummary", "\"mine\"\nsummary");
    check_refused_files(&[
        (
            "par.toml",
            format!("{logs}[auth]\nlocal_role = \"root\"\n"),
            &["etc/par.toml: `auth.local_role`", "unknown role `root`"],
        ),
        (
            "par.toml",
            "[paths]\nlogs = \"var/log\"\n".to_owned(),
            &["`paths.logs`: `var/log` is relative: write `/var/log`, or `./var/log`"],
        ),
        ("par.toml", "[paths]\nlogs = \"/var/../log\"\n".to_owned(), &["`paths.logs`", "contains `..`"]),
        (
            "par.toml",
            format!("{logs}[ledger]\nanchor = \"file:/nonexistent/anchor\"\n"),
            &["`[ledger]`", "/nonexistent"],
        ),
        (
            "tools.d/mine.toml",
            tool.replace("\"@logs\", \"@workspace\"", "\"/proc\""),
            &["mine.toml:14", "/proc"],
        ),
    ]);
    let home = TestHome::init();
    let inside = "[paths]\nlogs = \"./workspace\"\nnowhere = \"/nonexistent\"\n[groups]\nrelease = [\"os:nobody-here\"]\n";
    home.configure(inside);
    let told = home.expect(0, &["config", "check"]);
    assert!(told.contains("note  `paths.nowhere`: /nonexistent is not a folder"), "{told}");
    assert!(told.contains("note  `groups.release`: `os:nobody-here`: unknown user"), "{told}");
}

/// Finding A12: a home with `..` was refused with the blame on a shipped manifest.
#[test]
fn a_home_is_found_by_any_path() {
    let home = TestHome::init();
    let mut check = home.command(&["--home", "..", "config", "check"]);
    let output = check.current_dir(home.path("etc")).output().expect("par starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut call = home.command(&["--home", "../etc/..", "tool", "call", "list_dir"]);
    let path = format!("{{\"path\":\"{}\"}}", home.path("workspace").canonicalize().expect("real").display());
    let output = call.arg(path).current_dir(home.path("etc")).output().expect("par starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Each file, on a separate home, keeps the server from starting, and the error says where and why.
fn check_refused_files(cases: &[(&str, String, &[&str])]) {
    for (file, content, expect) in cases {
        let home = TestHome::init();
        home.add(file, &content.replace("@HOME@", home.root().to_str().expect("UTF-8")));
        // A server with broken policies starts closed (see `powers`); only commands that would run
        // something refuse.
        let start = if file.starts_with("policies/") {
            &["run", "how is this server doing?"][..]
        } else {
            &["serve", "--listen", "127.0.0.1:0"]
        };
        for command in [&["config", "check"][..], start] {
            check_refusal(&home, command, &format!("{file}: {content}"), expect);
        }
        assert!(!home.path("data/ledger.db").exists() || home.entries(&["kind:start"]).is_empty());
    }
}

/// The command exits with 2 and says all of `expect` on standard error.
fn check_refusal(home: &TestHome, command: &[&str], what: &str, expect: &[&str]) {
    let output = home.par(command);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{command:?} with {what}\n{said}");
    for part in expect {
        assert!(said.contains(part), "{command:?} with {what}\n`{part}` is not in: {said}");
    }
    assert!(said.starts_with("par: "), "{said}");
}

#[test]
fn places_that_cannot_be_used_are_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("address").to_string();
    let home = TestHome::init();
    check_refusal(&home, &["serve", "--listen", &address], "a port in use", &[&address, "server.listen"]);

    let none = TestHome::empty();
    check_refusal(&none, &["serve"], "no home", &["par init"]);
    check_refusal(&home, &["init"], "a home that is there", &["already"]);

    let open = TestHome::init();
    let mode = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(open.path("etc/policies/10-read.cedar"), mode).expect("mode");
    check_refusal(
        &open,
        &["run", "how is this server doing?"],
        "a policy that others may write",
        &["10-read.cedar"],
    );

    // Not even root can write below /proc.
    let output = home.command(&["init", "--home", "/proc/par-home"]).output().expect("par starts");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("/proc/par-home"), "{}", text(&output.stderr));

    let sealed = TestHome::init();
    let data = sealed.path("data");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o500)).expect("mode");
    if crate::support::is_root() {
        eprintln!("not tested as root: a data folder that its owner may not write to");
    } else {
        check_refusal(&sealed, &["serve", "--listen", "127.0.0.1:0"], "a sealed home", &["data"]);
    }
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).expect("mode");
}
