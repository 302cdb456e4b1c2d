//! A home of PAR with one model, and runs in it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const QUESTION: &str = "how is this server doing?";

pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn binary() -> PathBuf {
    if let Some(binary) = std::env::var_os("PAR_TEST_BIN") {
        return binary.into();
    }
    ["debug", "release"]
        .map(|profile| top().join("target").join(profile).join("par"))
        .into_iter()
        .find(|path| path.is_file())
        .expect("a binary of PAR: run `cargo build`, or set PAR_TEST_BIN")
}

/// A home with one model on `wire`, and its server.
pub struct Home {
    folder: tempfile::TempDir,
    serve: Option<Child>,
}

impl Home {
    pub fn new(wire: &str, base_url: &str) -> Self {
        let home = Self { folder: tempfile::tempdir().expect("a folder"), serve: None };
        assert!(home.par(&["init"]).output().expect("par starts").status.success());
        let toml = format!(
            "[llm]\nprovider = \"{wire}\"\nmodel = \"m\"\nbase_url = \"{base_url}\"\n[paths]\nlogs = \"/var/log\"\n"
        );
        std::fs::write(home.folder.path().join("home/etc/par.toml"), toml).expect("written");
        home
    }

    fn par(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.folder.path());
        command.arg("--home").arg(self.folder.path().join("home")).args(args).stdin(Stdio::null());
        command
    }

    /// A run whose model answers whole: its reply.
    pub fn whole(&self) -> Value {
        let told = self.par(&["--json", "run", QUESTION]).output().expect("par starts");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        serde_json::from_slice(&told.stdout).expect("JSON")
    }

    /// A run whose model is asked to stream, because a server reports it as it happens: what it
    /// prints.
    pub fn streamed(&mut self) -> String {
        let mut serve = self.par(&["serve", "--listen", "127.0.0.1:0"]);
        self.serve = Some(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("par starts"));
        let (socket, since) = (self.folder.path().join("home/data/par.sock"), Instant::now());
        while !socket.exists() {
            assert!(since.elapsed() < Duration::from_secs(30), "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let told = self.par(&["run", QUESTION]).output().expect("par starts");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        String::from_utf8(told.stdout).expect("UTF-8")
    }

    /// Checks both kinds of runs: the two calls ran, and the answer is the model's.
    pub fn check(&mut self, which: &str) {
        let reply = self.whole();
        let steps: Vec<String> = reply["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .map(|step| format!("{} {} {}", step["tool"], step["args"], step["status"]))
            .collect();
        let expect = [r#""health_check" {} "ok""#, r#""list_dir" {"path":"/var/log"} "ok""#];
        assert_eq!(steps, expect, "{which}: {reply}");
        assert_eq!(reply["answer"], "All is well.", "{which}");
        let told = self.streamed();
        for words in ["✓ health_check", "✓ list_dir /var/log", "All is well."] {
            assert!(told.contains(words), "{which}, streamed: {told}");
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(serve) = &mut self.serve {
            let _ended = serve.kill();
            let _reaped = serve.wait();
        }
    }
}
