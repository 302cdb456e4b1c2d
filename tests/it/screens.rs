//! What people see on terminals of four widths, and what a pipe gets.

use crate::support::{TestHome, text};
use crate::terminal::next_chunk;
use nix::pty::{Winsize, openpty};
use regex::Regex;
use std::fs::File;
use std::process::{Command, Stdio};

const WIDTHS: [Option<u16>; 5] = [Some(40), Some(80), Some(120), Some(200), None];

/// Everything that a command writes to standard output on a terminal of `columns`, or to a pipe.
/// Without colours.
fn shown(home: &TestHome, columns: Option<u16>, args: &[&str]) -> String {
    seen(home.command(args).env("NO_COLOR", "1"), columns)
}

fn seen(command: &mut Command, columns: Option<u16>) -> String {
    command.env("TZ", "UTC");
    let Some(columns) = columns else {
        return text(&command.output().expect("par starts").stdout);
    };
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).expect("a pseudo-terminal");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(pty.slave))
        .stderr(Stdio::null())
        .spawn()
        .expect("par starts");
    command.stdout(Stdio::null());
    let (mut master, mut seen) = (File::from(pty.master), Vec::new());
    while let Some(chunk) = next_chunk(&mut master) {
        seen.extend(chunk);
    }
    let status = child.wait().expect("ends");
    assert!(status.code().is_some(), "{status}: {}", text(&seen));
    text(&seen).replace("\r\n", "\n")
}

/// A home on which a call was allowed, one was denied and one waits.
fn home() -> TestHome {
    let home = TestHome::init();
    std::fs::write(home.path("workspace/notes"), "the notes\n").expect("file");
    std::fs::create_dir(home.path("workspace/shop")).expect("folder");
    home.expect(0, &["key", "create", "ops-ci", "--role", "operator", "--user", "ben", "--expires", "90d"]);
    home.expect(0, &["run", r#"list_dir(path="/var/log")"#]);
    home.expect(0, &["run", r#"read_file(path="/etc/shadow")"#]);
    home.expect(4, &["run", r#"deploy(project="demo", version="1.0.1")"#]);
    home
}

/// Replaces what changes from run to run by text of the same width.
fn stable(words: &str, home: &TestHome) -> String {
    let user =
        text(&crate::support::start(std::path::Path::new("id")).arg("-un").output().expect("id").stdout);
    // Which labelled paths exist differs between hosts.
    let is_of_host = |line: &&str| line.starts_with("note") && line.ends_with("does not exist");
    let kept: Vec<&str> = words.split_inclusive('\n').filter(|line| !is_of_host(&line.trim_end())).collect();
    let mut words = kept
        .concat()
        .replace(&home.root().display().to_string(), "HOME")
        .replace(&format!("os:{}", user.trim()), "os:USER");
    for (pattern, put) in [
        (r"(run|apr|ses|call)_[0-9A-Z]{26}", "${1}_01JD0000000000000000000000"),
        (r"run_[0-9A-Z]{23}\n +[0-9A-Z]{3}", "run_… on two lines"),
        (r"key:[0-9A-Za-z]{8}", "key:Ab3dEf9h"),
        (r"(?m)^(id +)?[0-9A-Za-z]{8}(  ops-ci|$)", "${1}Ab3dEf9h$2"),
        (r"[0-9a-f]{12}…", "0123456789ab…"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"bundle [0-9a-f]{12}\b", "bundle 0123456789ab"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "2026-11-24T14:03:07.000000Z"),
        (r"\d\d:\d\d:\d\d\b", "14:03:07"),
        (r"\d\d:\d\d, (now|\d+ (s|min) ago)", "14:03, 1 s ago"),
        (r"\d\d:\d\d, in \d+ min", "14:03, in 14 min"),
        (r"\d{1,2} [A-Z][a-z]{2} (\d{4} )?\d\d:\d\d", "22 Feb 14:03"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "22 Feb 14:03"),
        (r"in (89|90) d", "in 89 d"),
        // A column of times is as wide as its widest one.
        (r"(\S) {3,}", "$1  "),
    ] {
        words = Regex::new(pattern).expect("pattern").replace_all(&words, put).into_owned();
    }
    words
}

/// The width of a line, for the text of these tests.
fn width(line: &str) -> usize {
    line.chars().count()
}

/// C4, C5: tables fit the terminal, and a pipe gets every value whole with times in UTC.
#[test]
fn tables_fit_the_terminal_and_a_pipe_gets_everything() {
    let home = home();
    let denied = home.entries(&["decision:deny"])[0]["seq"].to_string();
    let mut found = String::new();
    let commands: [&[&str]; 10] = [
        &["tool", "list"],
        &["key", "list"],
        &["approval", "list"],
        &["audit", "show", "kind:call.*"],
        &["audit", "show", &denied],
        &["policy", "explain", "read_file", r#"{"path":"/etc/shadow"}"#],
        &["policy", "check"],
        &["runs", "list"],
        &["run", r#"read_file(path="/etc/a-folder-with-a-name/and-another-one/below-it/no-such-file.conf")"#],
        &["run", r#"deploy(project="shop", version="1.4.2")"#],
    ];
    for args in commands {
        for columns in WIDTHS {
            let seen = shown(&home, columns, args);
            let name = columns.map_or("a pipe".to_owned(), |columns| format!("{columns} columns"));
            if let Some(columns) = columns {
                let wide: Vec<&str> =
                    seen.lines().filter(|line| width(line) > usize::from(columns)).collect();
                // The answer of a run is the model's text, as it is.
                assert!(args[0] == "run" || wide.is_empty(), "{args:?} at {columns}: {wide:?}");
            }
            found.push_str(&format!("$ par {} → {name}\n{}\n", args.join(" "), stable(&seen, &home)));
        }
    }
    let golden = include_str!("golden/screens.txt");
    if found != golden {
        let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("screens.txt");
        std::fs::write(&place, &found).expect("written");
        panic!("tests/it/golden/screens.txt is not {}", place.display());
    }
}

/// C5: doctor's lines fit too. What they say depends on the host. C10: no literal `\n` in them.
#[test]
fn doctor_fits_the_terminal() {
    let home = home();
    home.add("policies/50-broken.cedar", "permit (\n");
    for columns in [40, 80, 120] {
        let seen = shown(&home, Some(columns), &["doctor", "--quick"]);
        let wide: Vec<&str> = seen.lines().filter(|line| width(line) > usize::from(columns)).collect();
        assert!(wide.is_empty(), "at {columns}: {wide:?}");
        assert!(seen.contains("50-broken.cedar") || columns == 40, "{seen}");
        assert!(!seen.contains("\\n"), "{seen}");
    }
}

/// C5: colour is for terminals, and `NO_COLOR` is respected.
#[test]
fn decisions_have_a_colour_on_a_terminal_only() {
    let home = home();
    let args = ["audit", "show", "decision:deny"];
    assert!(!shown(&home, Some(80), &args).contains('\u{1b}'));
    assert!(!shown(&home, None, &args).contains('\u{1b}'));
    let colored = seen(&mut home.command(&args), Some(80));
    assert!(colored.contains("\u{1b}[31mdeny"), "{colored}");
    assert!(!seen(&mut home.command(&args), None).contains('\u{1b}'));
}
