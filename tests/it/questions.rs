//! `docs/questions.md`: ten questions of an operator's day on a host with real trouble, with
//! `offline` and with a scripted model. What varies from host to host and from run to run is
//! replaced, and the page is compared with what this test makes.

use crate::model::{House, Reply};
use crate::support::{TestHome, start, text};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A question, and what a person and a model see.
struct AskedQuestion {
    title: &'static str,
    /// The message to `offline`.
    message: &'static str,
    /// Lines of the answer that are about the trouble: a word in them, and where they are cut.
    keep: &'static [(&'static str, &'static str)],
    /// The calls of the scripted model; `@logs`, `@workspace` are folders.
    calls: &'static [(&'static str, &'static str)],
    /// Words that are in the results of these calls.
    shows: &'static [&'static str],
    says: &'static str,
}

const QUESTIONS: [AskedQuestion; 10] = [
    AskedQuestion {
        title: "Why is this server slow?",
        message: "why is this server slow?",
        keep: &[("busy-report", "of a core")],
        calls: &[("health_check", "{}"), ("process_list", r#"{"sort":"cpu","limit":10}"#)],
        shows: &["busy-report"],
        says: "The process `busy-report` uses a whole processor all the time.",
    },
    AskedQuestion {
        title: "What filled the disk?",
        message: "what filled the disk?",
        keep: &[("workspace/small tmpfs", "used"), ("upload.bin", "")],
        calls: &[("disk_usage", "{}"), ("largest_paths", r#"{"path":"@workspace/small"}"#)],
        shows: &["workspace/small", "upload.bin", "\"used_percent\":100"],
        says: "The file system at `workspace/small` is full: `upload.bin` takes all of it.",
    },
    AskedQuestion {
        title: "Is nginx healthy?",
        message: "errors of nginx",
        keep: &[("upstream timed out", "")],
        calls: &[("search_files", r#"{"path":"@logs/nginx","pattern":"error"}"#)],
        shows: &["upstream timed out"],
        says: "nginx reports that its upstream timed out once.",
    },
    AskedQuestion {
        title: "Errors of the last hour",
        message: "errors in the logs",
        keep: &[("app.log", ""), ("upstream timed out", "")],
        calls: &[("search_files", r#"{"path":"@logs","pattern":"(?i)error|fatal","regex":true}"#)],
        shows: &["cannot open the queue"],
        says: "The app cannot open its queue, and nginx lost its upstream.",
    },
    AskedQuestion {
        title: "Who logged in?",
        message: "search auth.log for Accepted publickey",
        keep: &[("auth.log", "")],
        calls: &[("search_files", r#"{"path":"@logs/auth.log","pattern":"Accepted"}"#)],
        shows: &["Accepted publickey for ana"],
        says: "ana logged in once, with a key, from 192.0.2.7.",
    },
    AskedQuestion {
        title: "What listens here?",
        message: "what listens here?",
        keep: &[],
        calls: &[("listening_ports", "{}")],
        shows: &["\"ports_found\":"],
        says: "These ports are open; those at every address can be reached from outside.",
    },
    AskedQuestion {
        title: "What changed in this config?",
        message: "compare app.conf.old with app.conf in @workspace/shop",
        keep: &[],
        calls: &[("diff_files", r#"{"path":"@workspace/shop","old":"app.conf.old","new":"app.conf"}"#)],
        shows: &["workers = 2", "workers = 64"],
        says: "`workers` was raised from 2 to 64.",
    },
    AskedQuestion {
        title: "What is set in this config?",
        message: "show config @workspace/shop/app.toml",
        keep: &[],
        calls: &[("read_config", r#"{"path":"@workspace/shop/app.toml"}"#)],
        shows: &["\"port\":8080"],
        says: "The shop listens on port 8080; its password is left out of what I was shown.",
    },
    AskedQuestion {
        title: "Did this server run out of memory?",
        message: "what uses the most memory?",
        keep: &[],
        calls: &[("memory_usage", "{}"), ("process_list", r#"{"sort":"memory","limit":5}"#)],
        shows: &["available_percent"],
        says: "Memory is available, and no process was ended for the lack of it.",
    },
    AskedQuestion {
        title: "What was denied today?",
        message: "read_file(/etc/shadow); who_was_denied()",
        keep: &[],
        calls: &[("read_file", r#"{"path":"/etc/shadow"}"#), ("who_was_denied", "{}")],
        shows: &["read_file"],
        says: "One call was denied: `read_file`, which no rule permits there.",
    },
];

/// A host in trouble, until it is dropped.
struct Trouble {
    small: PathBuf,
    busy: Child,
    _listener: TcpListener,
}

impl Trouble {
    /// Makes it in `home`; `None` if this host does not permit a small file system.
    fn make(home: &TestHome) -> Option<Self> {
        let logs = home.beside("logs");
        std::fs::create_dir_all(logs.join("nginx")).expect("folder");
        let write = |path: PathBuf, text: &str| std::fs::write(path, text).expect("file");
        write(logs.join("app.log"), "2026-11-24T10:00:00Z shop error: cannot open the queue\n");
        write(
            logs.join("nginx/error.log"),
            "2026/11/24 10:00:01 [error] 7#7: upstream timed out (110: Connection timed out)\n",
        );
        write(
            logs.join("auth.log"),
            "2026-11-24T09:00:00 host sshd[9]: Accepted publickey for ana from 192.0.2.7 port 40000 ssh2\n",
        );
        let shop = home.path("workspace/shop");
        std::fs::create_dir(&shop).expect("folder");
        write(shop.join("app.conf.old"), "workers = 2\nport = 8080\n");
        write(shop.join("app.conf"), "workers = 64\nport = 8080\n");
        write(shop.join("app.toml"), "port = 8080\npassword = \"planted-S3CRET\"\n");
        let small = home.path("workspace/small");
        std::fs::create_dir(&small).expect("folder");
        let mut mount = start(Path::new("mount"));
        mount.args(["-t", "tmpfs", "-o", "size=4m,mode=0755", "none"]).arg(&small);
        if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return None;
        }
        // Written until nothing more fits.
        let _full = std::fs::write(small.join("upload.bin"), vec![1; 5 << 20]);
        let program = home.beside("busy-report");
        std::fs::copy("/bin/sh", &program).expect("a program");
        let busy = start(&program).args(["-c", "while :; do :; done"]).spawn().expect("started");
        Some(Self { small, busy, _listener: TcpListener::bind("127.0.0.1:0").expect("a port") })
    }
}

impl Drop for Trouble {
    fn drop(&mut self) {
        let _killed = self.busy.kill();
        let _reaped = self.busy.wait();
        let _unmounted = start(Path::new("umount")).arg("-l").arg(&self.small).status();
    }
}

/// Sets the folder of logs.
fn with_logs(home: &TestHome) {
    let file = home.path("etc/par.toml");
    let before = std::fs::read_to_string(&file).expect("par.toml");
    let logs = format!("logs = \"{}\"", home.beside("logs").canonicalize().expect("real").display());
    let after = before.replace("logs = \"/var/log\"", &logs);
    assert!(after != before, "{before}");
    std::fs::write(file, after).expect("par.toml");
}

/// `words` with the folders of this home.
fn placed(words: &str, home: &TestHome) -> String {
    let real = |path: PathBuf| path.canonicalize().expect("real").display().to_string();
    words.replace("@logs", &real(home.beside("logs"))).replace("@workspace", &real(home.path("workspace")))
}

/// `words` without what varies.
fn settled(words: &str, home: &TestHome) -> String {
    let real = |path: PathBuf| path.canonicalize().expect("real").display().to_string();
    let words =
        words.replace(&real(home.beside("logs")), "LOGS").replace(&real(home.path("workspace")), "WORKSPACE");
    let mut out = String::new();
    for c in words.chars() {
        match c {
            c if c.is_ascii_digit() && out.ends_with('N') => {}
            c if c.is_ascii_digit() => out.push('N'),
            c => out.push(c),
        }
    }
    for unit in ["bytes", "KiB", "MiB", "GiB", "TiB"] {
        out = out.replace(&format!("N {unit}"), "SIZE");
    }
    out
}

/// A call as the page shows it.
fn step(step: &Value, home: &TestHome) -> String {
    let word = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
    let arguments = settled(&step["args"].to_string(), home);
    format!("  {} {arguments}  → {}, {}\n", word("tool"), word("decision"), word("status"))
}

/// An answer of `offline`: the lines that say the same on every host, and those about the trouble.
fn answer(words: &str, question: &AskedQuestion, home: &TestHome) -> String {
    let mut out = String::new();
    for line in words.lines() {
        let kept = question.keep.iter().find(|(word, _)| line.contains(word));
        let line = match kept {
            Some((_, end)) => match line.find(end).filter(|_| !end.is_empty()) {
                Some(at) => settled(line.get(..at + end.len()).expect("the end"), home),
                None => settled(line, home),
            },
            None if line.starts_with("  ") => "  …".to_owned(),
            None if line.starts_with("health_check: ") => "health_check: …".to_owned(),
            None if line.starts_with("offline provider: ") => continue,
            None => settled(line, home),
        };
        let line = line.replace("largest_paths: SIZE below WORKSPACE", "largest_paths: SIZE below WORKSPACE");
        if !(line == "  …" && out.ends_with("  …\n")) {
            out += &format!("{line}\n");
        }
    }
    out
}

/// The part of the page about one question.
fn section(question: &AskedQuestion, offline: &TestHome, house: &House) -> String {
    let message = placed(question.message, offline);
    let told = offline.par(&["run", "--json", &message]);
    let run: Value =
        serde_json::from_slice(&told.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&told.stderr)));
    let steps = |run: &Value, home: &TestHome| -> String {
        run["steps"].as_array().expect("steps").iter().map(|one| step(one, home)).collect()
    };
    let mut out = format!(
        "## {}\n\n```text\n$ par run '{}'\n{}{}```\n\n",
        question.title,
        settled(&message, offline),
        steps(&run, offline),
        answer(run["answer"].as_str().expect("an answer"), question, offline)
    );
    let calls: Vec<(String, String)> = question
        .calls
        .iter()
        .map(|(tool, arguments)| ((*tool).to_owned(), placed(arguments, &house.home)))
        .collect();
    house.model.play([Reply::Calls(calls), Reply::Say(question.says.to_owned())]);
    let run = house.server.run(&house.key, question.title).json();
    assert_eq!((&run["status"], &run["answer"]), (&json!("done"), &json!(question.says)), "{run}");
    let results = run["steps"].to_string();
    for word in question.shows {
        assert!(results.contains(word), "{}: {word} is not in {results}", question.title);
    }
    assert!(!results.contains("S3CRET"), "{results}");
    out += &format!("```text\n{}{}\n```\n\n", steps(&run, &house.home), question.says);
    out
}

#[test]
fn ten_questions_are_answered_on_a_host_in_trouble() {
    let offline = TestHome::init();
    let Some(_trouble) = Trouble::make(&offline) else {
        eprintln!("no small file system can be mounted here: the page is not compared");
        return;
    };
    with_logs(&offline);
    let mut trouble = None;
    let house = House::start(|home| {
        trouble = Trouble::make(home);
        with_logs(home);
    });
    let head = "# Ten questions\n\n\
                `tests/it/questions.rs` makes this page and compares it: on a host with a full file system, a busy \
                process and\nerrors in its logs, each question is first put to `offline` and then to a scripted model, \
                which makes the\ncalls and says the sentence shown. Numbers are `N`, sizes are `SIZE`, and lines that \
                differ between hosts\nare `…`.\n\n";
    let mut page = head.to_owned();
    for question in &QUESTIONS {
        page += &section(question, &offline, &house);
    }
    let page = page.trim_end().to_owned() + "\n";
    drop(trouble);
    let golden = include_str!("../../docs/questions.md");
    if page != golden {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("questions.md");
        std::fs::write(&new, &page).expect("written");
        panic!("docs/questions.md is not {}:\n{page}", new.display());
    }
}
