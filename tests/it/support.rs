//! A home in a temporary folder, the built binary on it, and a server with helper methods.

#![expect(clippy::disallowed_methods, reason = "tests start the product's own binary")]

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A new home.
pub(crate) struct TestHome {
    folder: TempDir,
}

impl TestHome {
    /// Made by `par init`.
    pub(crate) fn init() -> Self {
        let home = Self::empty();
        let made = home.par(&["init"]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        home
    }

    /// A folder that has no home yet. Readable by all, so that tools under another uid can read it.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::Builder::new().prefix("par-it-").tempdir().expect("temporary folder");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("mode");
        Self { folder }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root().join(below)
    }

    /// A path next to the home, which no manifest grants.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of `etc/`. The shipped cases do not apply to a test's own rules.
    pub(crate) fn add(&self, below: &str, text: &str) {
        if below.ends_with(".cedar") {
            self.drop_cases();
        }
        std::fs::write(self.path("etc").join(below), text).expect("file of etc/");
    }

    /// Removes the cases that each load checks the shipped policies with, for rules that answer
    /// differently.
    pub(crate) fn drop_cases(&self) {
        match std::fs::remove_dir_all(self.path("etc/policies/tests")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => panic!("the cases stay: {e}"),
            _ => {}
        }
    }

    /// Sets keys of `par.toml`: the whole file is replaced.
    pub(crate) fn configure(&self, toml: &str) {
        std::fs::write(self.path("etc/par.toml"), toml).expect("par.toml");
    }

    /// A command on this home, without the caller's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_by(&[], args)
    }

    /// Like [`TestHome::command`], started by the last of `starters`, which the one before it
    /// starts.
    pub(crate) fn command_by(&self, starters: &[&OsStr], args: &[&str]) -> Command {
        let par = binary();
        let mut words = starters.iter().copied().chain([par.as_os_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(args);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("PAR_HOME", self.root());
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn par(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("par starts")
    }

    /// Runs a command that must end with `code`, and returns its standard output.
    pub(crate) fn expect(&self, code: i32, args: &[&str]) -> String {
        let output = self.par(args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "par {args:?}\nstdout: {}\nstderr: {}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// The end of the digest that an approval repeats, as its card shows it.
    pub(crate) fn card(&self, id: &str) -> String {
        let shown: Value =
            serde_json::from_str(&self.expect(0, &["approval", "show", id, "--json"])).expect("JSON");
        let digest = shown["card"].as_str().or_else(|| shown["call_hash"].as_str()).expect("digest");
        digest[digest.len() - 4..].to_owned()
    }

    /// Runs `par approval approve` without a terminal.
    pub(crate) fn approve(&self, id: &str, more: &[&str]) -> Output {
        self.par(&[&["approval", "approve", id, "--card", &self.card(id)], more].concat())
    }

    /// Creates a key; returns its text.
    pub(crate) fn key(&self, name: &str, role: &str) -> String {
        self.expect(0, &["key", "create", name, "--role", role]).trim().to_owned()
    }

    /// Entries of the ledger that match, as header objects.
    pub(crate) fn entries(&self, query: &[&str]) -> Vec<Value> {
        let args = [&["audit", "show", "--json", "--limit", "100000"], query].concat();
        self.expect(0, &args).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Header and payload of an entry.
    pub(crate) fn entry(&self, seq: u64) -> Value {
        serde_json::from_str(&self.expect(0, &["audit", "show", "--json", &seq.to_string()])).expect("JSON")
    }

    /// Starts `par serve` on a free port and waits until it answers.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// Like [`TestHome::serve`], at an address.
    pub(crate) fn serve_at(&self, address: &str) -> Server {
        Server::start(
            &mut self.command(&["serve", "--listen", address]),
            self.folder.path().join("serve.log"),
        )
    }

    /// Like [`TestHome::serve`], with variables in its environment.
    pub(crate) fn serve_with(&self, environment: &[(&str, &str)]) -> Server {
        self.serve_by(&[], environment)
    }

    /// Like [`TestHome::serve_with`], started as by [`TestHome::command_by`].
    pub(crate) fn serve_by(&self, starters: &[&OsStr], environment: &[(&str, &str)]) -> Server {
        self.try_serve_by(starters, environment)
            .unwrap_or_else(|(code, log)| panic!("par serve ended with {code:?}: {log}"))
    }

    /// Like [`TestHome::serve_by`]; the error is that of [`Server::try_start`].
    pub(crate) fn try_serve_by(
        &self,
        starters: &[&OsStr],
        environment: &[(&str, &str)],
    ) -> Result<Server, (Option<i32>, String)> {
        let mut command = self.command_by(starters, &["serve", "--listen", "127.0.0.1:0"]);
        command.envs(environment.iter().copied());
        Server::try_start(&mut command, self.folder.path().join("serve.log"))
    }
}

/// A running server: the supervisor's process, and the address of its front.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) child: Child,
    log: PathBuf,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", text(&self.body)))
    }
}

impl Server {
    /// Starts a command that serves, and waits until it reports its address.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Self {
        Self::try_start(command, log)
            .unwrap_or_else(|(code, log)| panic!("par serve ended with {code:?}: {log}"))
    }

    /// Like [`Server::start`]; the error is the exit code of one that ends early, and its output.
    pub(crate) fn try_start(command: &mut Command, log: PathBuf) -> Result<Self, (Option<i32>, String)> {
        let stderr = std::fs::File::create(&log).expect("log");
        let child = command.stdout(Stdio::null()).stderr(stderr);
        let mut child = child.spawn().expect("par starts");
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let written = std::fs::read_to_string(&log).unwrap_or_default();
            let told = written.lines().find_map(|line| line.strip_prefix("par: listening on http://"));
            if let Some((address, _)) = told.and_then(|rest| rest.split_once(',')) {
                return Ok(Self { address: address.to_owned(), child, log });
            }
            if let Some(status) = child.try_wait().expect("child") {
                return Err((status.code(), std::fs::read_to_string(&log).unwrap_or_default()));
            }
            assert!(Instant::now() < until, "par serve did not answer: {written}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Posts a run and returns the answer, whatever its status.
    pub(crate) fn run(&self, key: &str, message: &str) -> Answer {
        self.post(key, serde_json::json!({ "message": message }).to_string().as_bytes())
    }

    pub(crate) fn post(&self, key: &str, body: &[u8]) -> Answer {
        let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
        self.send("POST", "/agent/run", &headers, body)
    }

    pub(crate) fn get(&self, key: &str, path: &str) -> Answer {
        self.send("GET", path, &format!("Authorization: Bearer {key}\r\n"), b"")
    }

    /// Sends a request with header lines that each end in CRLF, and reads the answer to its end.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        send(&self.address, method, path, headers, body).unwrap_or_else(|head| panic!("no answer: {head:?}"))
    }

    /// Like [`Server::send`], for a server that may have ended.
    pub(crate) fn try_send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Option<Answer> {
        send(&self.address, method, path, headers, body).ok()
    }

    /// Posts a run in a separate thread; `None` if the server ends before it answers.
    pub(crate) fn run_aside(&self, key: &str, message: &str) -> std::thread::JoinHandle<Option<Answer>> {
        let (address, key) = (self.address.clone(), key.to_owned());
        let body = serde_json::json!({ "message": message }).to_string();
        std::thread::spawn(move || {
            let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
            send(&address, "POST", "/agent/run", &headers, body.as_bytes()).ok()
        })
    }

    /// Ends the server by SIGTERM, and waits for it.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.end()
    }

    /// Like [`Server::stop`], for a server that is not consumed.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        self.child.wait().expect("ends").code()
    }

    pub(crate) fn signal(&self, sent: nix::sys::signal::Signal) {
        signal(self.child.id(), sent);
    }

    /// Ends every process of the server at one moment, as a power cut would: all are stopped before
    /// the first is killed, or one that is left would see the end of another and record it.
    pub(crate) fn kill(mut self) -> Vec<u32> {
        use nix::sys::signal::Signal;
        let mut all = vec![self.child.id()];
        signal(self.child.id(), Signal::SIGSTOP);
        for pid in self.descendants() {
            signal(pid, Signal::SIGSTOP);
            all.push(pid);
        }
        // Processes that were started before their parent was stopped.
        let late: Vec<u32> = self.descendants().into_iter().filter(|pid| !all.contains(pid)).collect();
        late.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
        all.extend(late);
        all.iter().for_each(|pid| await_stopped(*pid));
        // From the top: a launcher that ends takes its namespace along.
        for pid in &all {
            signal(*pid, Signal::SIGKILL);
        }
        let _status = self.child.wait();
        all.split_off(1)
    }

    /// Process ids of the supervisor's descendants.
    pub(crate) fn descendants(&self) -> Vec<u32> {
        descendants(self.child.id())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Process ids of a process's descendants.
pub(crate) fn descendants(of: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children: Vec<u32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        found.extend(&children);
        next.extend(children);
    }
    found
}

/// Signals a process; one that has already ended is fine for a kill.
pub(crate) fn signal(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("pid"));
    match nix::sys::signal::kill(pid, signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
        Err(error) => panic!("{pid}: {error}"),
    }
}

/// Waits until no thread of a process runs any more: a signal that stops it returns before it has
/// stopped.
fn await_stopped(pid: u32) {
    let until = Instant::now() + Duration::from_secs(10);
    let runs = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
        let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
        state.is_some_and(|state| !"TtZX".contains(state))
    };
    while std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|mut tasks| tasks.any(runs)) {
        assert!(Instant::now() < until, "process {pid} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended is fine: what counts is that nothing is left behind.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Sends one request; the error is what came instead of an answer.
fn send(address: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<Answer, String> {
    let mut stream = TcpStream::connect(address).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).map_err(|e| e.to_string())?;
    // A server that has already refused may close before it has read the whole body.
    let _sent = stream.write_all(body);
    let mut bytes = Vec::new();
    let _read = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = text(&bytes[..end]);
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| head.clone())?;
    let body = bytes.get(end + 4..).unwrap_or_default().to_vec();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunk(&body) } else { body };
    Ok(Answer { status, head, body })
}

/// A program other than PAR, by its name on the usual path or by its whole path.
pub(crate) fn start(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Waits at most half a minute for a condition.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process runs: it exists, and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The binary under test: `PAR_TEST_BIN` if another user runs the tests from a copy.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("PAR_TEST_BIN").map_or_else(|| env!("CARGO_BIN_EXE_par").into(), PathBuf::from)
}

/// `par-launcher`, next to it.
pub(crate) fn launcher_binary() -> PathBuf {
    let beside = |par: std::ffi::OsString| PathBuf::from(par).with_file_name("par-launcher");
    std::env::var_os("PAR_TEST_BIN").map_or_else(|| env!("CARGO_BIN_EXE_par-launcher").into(), beside)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the tests run as root: some protections differ.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Copies a folder with all its content.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("folder");
    for item in std::fs::read_dir(from).expect("folder") {
        let item = item.expect("entry");
        let target = to.join(item.file_name());
        match item.file_type().expect("type") {
            kind if kind.is_dir() => copy_folder(&item.path(), &target),
            kind if kind.is_file() => {
                let copied = std::fs::copy(item.path(), target);
                // SQLite's index of a log is rebuilt by the process that opens it, and removed with
                // the last one that closes it.
                let is_index = item.file_name().to_string_lossy().ends_with("-shm");
                assert!(is_index || copied.is_ok(), "{}: {copied:?}", item.path().display());
            }
            // A socket of a server that has ended.
            _ => {}
        }
    }
}

fn dechunk(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|hex| usize::from_str_radix(hex.trim(), 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { break };
        out.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    out
}
