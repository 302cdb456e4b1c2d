//! The model's key: an error names its setting, and only the front holds it.

use super::{occurrences, private};
use crate::crash::{LOGS, home_with_nap, is_sleep};
use crate::support::{TestHome, descendants, text, until};

/// The command that makes the provider reports it; commands that do not need the key work without.
#[test]
fn an_unreadable_model_key_is_reported_with_its_setting() {
    let home = TestHome::init();
    let file = home.beside("model-key").display().to_string();
    home.configure(&format!(
        "[llm]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_file = \"{file}\"\n{LOGS}"
    ));
    let place = home.path("etc/par.toml").display().to_string();
    let check = |why: &str| {
        let expect = format!("{place}: `llm.api_key_file`: {file}{why}");
        for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["run", "status"], &["config", "check"]] {
            let refused = home.par(command);
            assert_eq!(refused.status.code(), Some(2), "{command:?}");
            assert!(
                text(&refused.stderr).ends_with(&format!("par: {expect}\n")),
                "{}",
                text(&refused.stderr)
            );
        }
        let doctor = home.par(&["doctor", "--quick"]);
        let told = text(&doctor.stdout);
        assert!(
            doctor.status.code() == Some(1) && told.contains(&format!("fail  model           {expect}")),
            "{told}"
        );
        home.expect(0, &["key", "list"]);
        home.expect(0, &["policy", "check"]);
    };
    check(": No such file or directory (os error 2)");
    private(&home.beside("model-key"), "\n");
    check(" is empty");
}

/// As long as providers' keys are.
const LONG_KEY: &str = "sk-proj-Zk3vQ9xTn4LmR8wYc2HdF6gJ1bSp5aUe7oViXtKqWzMyNfBrDhGs0uEjCl";

/// Launchers, starters of tools and tools have no copy of the model's key, wherever it comes from.
#[test]
fn the_front_alone_holds_the_model_key() {
    if !crate::support::is_root() {
        eprintln!("skipped: only root can look into the launcher's memory");
        return;
    }
    let (home, _) = home_with_nap(30);
    private(&home.beside("model-key"), LONG_KEY);
    private(&home.beside("llm_api_key"), LONG_KEY);
    let folder = home.beside("llm_api_key").parent().expect("a folder").display().to_string();
    let of_file = format!("api_key_file = \"{}\"", home.beside("model-key").display());
    let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    for (line, variable, value) in
        [(&*of_file, "UNUSED", ""), ("", "CREDENTIALS_DIRECTORY", &folder), ("", "OPENAI_API_KEY", LONG_KEY)]
    {
        let model = format!("[llm]\nprovider = \"openai\"\nmodel = \"m\"\n{line}\n{LOGS}");
        home.configure(&model);
        let server = home.serve_with(&[(variable, value)]);
        check_holder(&server.descendants(), server.child.id(), None);
        // One that the supervisor forks later.
        let before = server.descendants();
        home.expect(0, &["reload"]);
        until("another launcher is there", || {
            let now = server.descendants();
            now.len() == 3 && now.iter().filter(|pid| !before.contains(pid)).count() == 2
        });
        check_holder(&server.descendants(), server.child.id(), None);
        assert_eq!(server.stop(), Some(0));
        // Without a server the command is the front, and forks the launcher itself.
        let mut command = home.command(&["tool", "call", "nap"]).env(variable, value).spawn().expect("par");
        until("the program runs", || descendants(command.id()).into_iter().any(is_sleep));
        check_holder(&descendants(command.id()), command.id(), Some(command.id()));
        command.kill().expect("killed");
        command.wait().expect("ended");
    }
    home.configure(&toml);
}

/// Among a process and its descendants only the front has the model's key: `front`, or else the
/// sibling of the launcher.
fn check_holder(below: &[u32], top: u32, front: Option<u32>) {
    let launcher = crate::jobs::launcher(below);
    let front =
        front.or_else(|| below.iter().copied().find(|pid| descendants(*pid).is_empty() && *pid != launcher));
    // Freed memory keeps all of it except its beginning.
    let key_end = &LONG_KEY.as_bytes()[LONG_KEY.len() / 2..];
    let all = std::iter::once(&top).chain(below);
    let holders: Vec<u32> = all.copied().filter(|pid| occurrences(*pid, key_end) > 0).collect();
    assert_eq!(holders, Vec::from_iter(front), "{top}, {below:?}, launcher {launcher}");
}
