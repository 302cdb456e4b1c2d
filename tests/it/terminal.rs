//! Questions on a real terminal: a pseudo-terminal whose other end this test holds.

use crate::approval::People;
use crate::support::{TestHome, text, until};
use nix::errno::Errno;
use nix::pty::{Winsize, openpty};
use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

/// What a person saw, what went to a file, and how the command ended.
pub(crate) struct Seen {
    pub(crate) code: Option<i32>,
    pub(crate) screen: String,
    stdout: String,
}

/// Runs a command on a terminal, with its standard output there or in a pipe, and types `keys` once
/// it prints `prompt`.
pub(crate) fn on_terminal(home: &TestHome, args: &[&str], is_piped: bool, prompt: &str, keys: &str) -> Seen {
    let pty = openpty(None, None).expect("a pseudo-terminal");
    let end = || Stdio::from(pty.slave.try_clone().expect("descriptor"));
    let mut command = home.command(args);
    let stdout = if is_piped { Stdio::piped() } else { end() };
    let mut child = command.stdin(end()).stdout(stdout).stderr(end()).spawn().expect("par starts");
    // With the last of them closed, reading ends when the command does.
    drop((command, pty.slave));
    let screen = typed(pty.master, prompt, keys);
    let mut told = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut told).expect("standard output");
    }
    Seen { code: child.wait().expect("ends").code(), screen, stdout: told }
}

/// All output on a terminal, with `keys` typed after the first `prompt`.
fn typed(master: OwnedFd, prompt: &str, keys: &str) -> String {
    let mut master = File::from(master);
    let (mut seen, mut left) = (Vec::new(), Some(keys));
    while let Some(chunk) = next_chunk(&mut master) {
        seen.extend(chunk);
        if let Some(keys) = left.take_if(|_| text(&seen).contains(prompt)) {
            master.write_all(keys.as_bytes()).expect("typed");
        }
    }
    assert!(left.is_none(), "never asked: {}", text(&seen));
    text(&seen)
}

/// What is written next on a terminal; `None` once no command holds its other end: then a read
/// gives an I/O error, not an end.
pub(crate) fn next_chunk(master: &mut File) -> Option<Vec<u8>> {
    let mut chunk = vec![0_u8; 4096];
    loop {
        match master.read(&mut chunk) {
            Ok(read) => {
                assert!(read > 0, "a terminal has no end of file");
                chunk.truncate(read);
                return Some(chunk);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::EIO as i32), "{error}");
                return None;
            }
        }
    }
}

/// What was typed before the card was there is discarded, even if it is the right answer.
#[test]
fn what_was_typed_ahead_approves_nothing() {
    let people = People::new();
    let home = &people.home;
    let server = home.serve();
    let (_, approval) = people.ask(&server, &people.list());
    let id = approval["id"].as_str().expect("id");
    let pty = openpty(None, None).expect("a pseudo-terminal");
    let end = || Stdio::from(pty.slave.try_clone().expect("descriptor"));
    let mut master = File::from(pty.master.try_clone().expect("descriptor"));
    master.write_all(format!("{}\n", home.card(id)).as_bytes()).expect("typed ahead");
    let mut command = home.command(&["approval", "approve", id]);
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("par starts");
    drop((command, pty.slave));
    let screen = typed(pty.master, PROMPT, "\u{4}");
    assert_eq!(child.wait().expect("ends").code(), Some(1), "{screen}");
    assert!(screen.contains("not approved"), "{screen}");
    assert_eq!(people.state(&server, &approval), "pending");
}

/// The stranger's stumble 27, with law L5: on a terminal of 20 lines a long card is shown page by
/// page. The question for the digest comes only after the last page, next to the call again; a
/// person who ends before has answered nothing.
#[test]
fn a_long_card_is_shown_to_its_end_before_it_can_be_answered() {
    let home = TestHome::empty();
    home.expect(0, &["init", "--people", "one"]);
    home.expect(4, &["run", r#"deploy(project="demo", version="1.0.1")"#]);
    let open = pending(&home);
    let id = open[0]["id"].as_str().expect("id");
    let size = Winsize { ws_row: 20, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let run = |args: &[&str], answers: &[(&str, &str)]| {
        let pty = openpty(&size, None).expect("a pseudo-terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("descriptor"));
        let mut command = home.command(args);
        let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("par starts");
        drop((command, pty.slave));
        let (mut master, mut seen) = (File::from(pty.master), Vec::new());
        let mut from = 0;
        while let Some(chunk) = next_chunk(&mut master) {
            seen.extend(chunk);
            let screen = text(&seen);
            let asked = answers.iter().find_map(|(prompt, keys)| {
                screen.get(from..).filter(|new| new.contains(prompt)).map(|_| *keys)
            });
            if let Some(keys) = asked {
                from = screen.len();
                master.write_all(keys.as_bytes()).expect("typed");
            }
        }
        let status = child.wait().expect("ends");
        assert!(status.code().is_some(), "{status}: {}", text(&seen));
        (status.code(), text(&seen).replace("\r\n", "\n"))
    };
    let more = "Enter shows more";
    let (code, screen) = run(&["approval", "approve", id], &[(more, "q\n")]);
    assert!(code == Some(1) && screen.contains("was not shown to its end"), "{screen}");
    assert!(!screen.contains(PROMPT), "{screen}");
    assert_eq!(pending(&home).len(), 1, "nothing was answered");
    let (code, screen) = run(&["approval", "approve", id], &[(more, "\n"), (PROMPT, "zzzz\n")]);
    assert!(code == Some(1) && screen.contains("not approved"), "{code:?} {screen}");
    assert!(screen.matches(more).count() > 2, "{screen}");
    let script = open[0]["shown"]["script"]["text"].as_str().expect("script");
    let folded = screen.replace("\n  > ", "");
    for line in script.lines().filter(|line| !line.trim().is_empty()) {
        assert!(folded.contains(line), "{line} is missing: {screen}");
    }
    let at_end = screen.rfind("card       ").expect("the digest");
    assert!(screen.get(at_end..).is_some_and(|end| end.contains("tool       deploy")), "{screen}");

    // `show` is short on a terminal, and has no digest to answer with; `--full` has.
    let card = open[0]["card"].as_str().expect("card");
    let (code, short) = run(&["approval", "show", id], &[]);
    assert_eq!(code, Some(0), "{short}");
    assert!(short.contains("are left out here") && !short.contains(card), "{short}");
    let (code, full) = run(&["approval", "show", id, "--full"], &[]);
    assert_eq!(code, Some(0), "{full}");
    assert!(full.contains(card) && !full.contains("are left out here"), "{full}");

    let digits = format!("{}\n", home.card(id));
    let (code, screen) = run(&["approval", "approve", id], &[(more, "\n"), (PROMPT, &digits)]);
    assert!(code == Some(0) && screen.contains("granted"), "{code:?} {screen}");
}

fn pending(home: &TestHome) -> Vec<Value> {
    let listed = home.expect(0, &["approval", "list", "--json"]);
    listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const PROMPT: &str = "type the last four characters of `card`, the last line of the card: ";

/// Only the end of the digest that was shown approves; an end of input, nothing, a yes or anything
/// else is a refusal that leaves the request open.
#[test]
fn only_the_end_of_the_digest_approves_at_a_terminal() {
    let people = People::new();
    let home = &people.home;
    let server = home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let id = approval["id"].as_str().expect("id");
    let approve = ["approval", "approve", id];
    let card = home.card(id);
    let (longer, erased) = (format!("0{card}\n"), format!("{card}\u{15}\n"));
    for keys in ["n\n", "\n", "\u{4}", "y\n", "yes\n", "zzzz\n", "\u{1b}[Ay\n", &longer, &erased] {
        let seen = on_terminal(home, &approve, false, PROMPT, keys);
        assert_eq!(seen.code, Some(1), "{keys:?}: {}", seen.screen);
        assert!(seen.screen.contains("not approved"), "{keys:?}: {}", seen.screen);
        assert!(seen.screen.contains("release-list"), "the call is shown first: {}", seen.screen);
        assert_eq!(people.state(&server, &approval), "pending", "{keys:?}");
    }
    // With --json the person sees the call too, and standard output contains one object.
    let approve = ["--json", "approval", "approve", id];
    let seen = on_terminal(home, &approve, true, PROMPT, "n\n");
    assert_eq!((seen.code, seen.stdout.as_str()), (Some(1), ""), "{}", seen.screen);
    assert!(seen.screen.contains("list_dir") && seen.screen.contains("release-list"), "{}", seen.screen);
    let seen = on_terminal(home, &approve, true, PROMPT, &format!("{card}\n"));
    assert_eq!(seen.code, Some(0), "{}", seen.screen);
    let told: Value = serde_json::from_str(&seen.stdout).expect("one object");
    assert_eq!(told["id"], approval["id"], "{told}");
    assert_eq!(people.ended(&server, &run)["status"], "done");
    for spelt in [str::to_ascii_uppercase, str::to_ascii_lowercase] {
        let (run, approval) = people.ask(&server, &people.list());
        let id = approval["id"].as_str().expect("id");
        let keys = format!(" {} \n", spelt(&home.card(id)));
        let seen = on_terminal(home, &["approval", "approve", id], false, PROMPT, &keys);
        assert!(seen.code == Some(0) && seen.screen.contains("granted"), "{keys:?}: {}", seen.screen);
        assert_eq!(people.ended(&server, &run)["status"], "done");
    }
    assert_eq!(server.stop(), Some(0));
}

/// A run on a terminal asks nothing there: a call to be confirmed is confirmed outside the run, by
/// name.
#[test]
fn a_run_on_a_terminal_waits_and_its_confirmation_is_asked_beside_it() {
    let people = People::new();
    let home = &people.home;
    let seen = on_terminal(home, &["run", &people.read()], false, "waiting for approval", "y\ny\n");
    assert_eq!(seen.code, Some(4), "{}", seen.screen);
    let open = pending(home);
    let id = open[0]["id"].as_str().expect("id");
    assert!(seen.screen.contains(&format!("par approval show {id}")), "{}", seen.screen);
    assert!(home.entries(&["kind:call.result"]).is_empty(), "what was typed there does not approve");
    let no = on_terminal(home, &["approval", "approve", id], false, PROMPT, "\u{4}");
    assert_eq!((no.code, pending(home).len()), (Some(1), 1), "{}", no.screen);
    let card = format!("{}\n", home.card(id));
    let yes = on_terminal(home, &["approval", "approve", id], false, PROMPT, &card);
    assert_eq!(yes.code, Some(0), "{}", yes.screen);
    assert!(yes.screen.contains("the notes"), "the run went on here: {}", yes.screen);
    until("it is answered", || pending(home).is_empty());
    home.expect(0, &["audit", "verify"]);
}
