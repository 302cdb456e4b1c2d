//! The overview and the runs page of a server with many entries.
//!
//! `cargo bench --bench pages` fills a home with 200,000 entries (`--entries N`), starts the server
//! on it, and prints the median time of 30 requests for each page, over the loopback with the HTTP
//! around it, and of `par audit show` with its newest 50 entries, as a process of its own. The old
//! way is measured in the same run: the overview's walk over the headers of its window, and the
//! replies that a list of 100 runs read for their counts.

#![expect(clippy::disallowed_methods, reason = "a bench starts the product's own binary")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

#[path = "ledger/entries.rs"]
#[expect(dead_code, reason = "the other benches use the rest")]
mod entries;
#[path = "ledger/floors.rs"]
#[expect(dead_code, reason = "only what `entries` needs of it")]
mod floors;

use par::ledger::payload::RunReplyPayload;
use par::ledger::{Filter, Order, Reader};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 30;
const PROOF: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

fn main() {
    let mut args = std::env::args().skip(1);
    let mut entries = 200_000;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--entries" => entries = args.next().and_then(|n| n.parse().ok()).expect("--entries N"),
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    let below = tempfile::Builder::new().prefix("par-bench-").tempdir().expect("temporary folder");
    let home = below.path().join("home");
    par(&home, &["init"]);
    let key = par(&home, &["key", "create", "looker", "--role", "viewer"]).trim().to_owned();
    fill(&home.join("data"), entries);
    par(&home, &["audit", "index"]);
    println!("{entries} entries; median of {ROUNDS} requests\n");
    let mut server = Server::start(&home);
    let cookie = server.log_in(&key);
    for (name, path) in [
        ("overview, 24 hours", "/ui/"),
        ("overview, 7 days", "/ui/?hours=168"),
        ("runs", "/ui/runs"),
        ("runs, a word", "/ui/runs?q=Accepted"),
        ("runs, a tool", "/ui/runs?q=tool%3Aread_file"),
        ("runs, no match", "/ui/runs?q=tool%3Anone"),
        ("audit", "/ui/audit"),
    ] {
        println!("{name:24} {:>9.1?}", median(|| server.get(path, &cookie)));
    }
    server.stop();
    let shown = median(|| assert!(par(&home, &["audit", "show"]).lines().count() >= 50));
    println!("{:24} {shown:>9.1?}", "par audit show, 50");
    let reader = Reader::open(&home.join("data/ledger.db")).expect("ledger");
    println!("{:24} {:>9.1?}", "old: every header", median(|| walk(&reader)));
    println!("{:24} {:>9.1?}", "old: 100 replies", median(|| replies(&reader)));
}

fn fill(data: &Path, entries: u64) {
    let ledger = entries::open(data);
    let mut batch = Vec::new();
    while ledger.head().size < entries {
        let next = ledger.head().size;
        while batch.len() < 2_000 {
            batch.extend(entries::run(next + batch.len() as u64 + 2));
        }
        let _receipts = ledger.append_blocking(std::mem::take(&mut batch)).expect("appended");
    }
}

/// What the overview read before: every header of its window.
fn walk(reader: &Reader) {
    let (mut from, mut seen) = (Some(u64::MAX), 0);
    while let Some(at) = from {
        let (headers, next) =
            reader.headers(&Filter::default(), at, Order::Descending, 1_000, 1_000).expect("read");
        seen += headers.len();
        from = next;
    }
    assert!(seen > 0);
}

/// What the list of runs read before: the whole reply of each run.
fn replies(reader: &Reader) {
    let filter = Filter::parse("kind:run.reply").expect("a query");
    let (headers, _) = reader.headers(&filter, u64::MAX, Order::Descending, 100, usize::MAX).expect("read");
    for header in headers {
        let stored = reader.entry(header.seq).expect("read").expect("there");
        let _reply: Option<RunReplyPayload> = stored.payload();
    }
}

fn median(mut work: impl FnMut()) -> Duration {
    work();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn par(home: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_par")).arg("--home").arg(home).args(args).output();
    let output = output.expect("par starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(home: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_par"))
            .arg("--home")
            .arg(home)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("par starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines().map_while(Result::ok);
        let said = lines.find_map(|line| {
            let rest = line.strip_prefix("par: listening on http://")?;
            rest.split_once(',').map(|(address, _)| address.to_owned())
        });
        // The rest of its log is read, so that the server never waits for it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: said.expect("par serve reports its address") }
    }

    fn log_in(&self, key: &str) -> String {
        let form = format!("key={key}&proof={PROOF}");
        let more = format!(
            "Sec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            form.len()
        );
        let answer = self.send("POST", "/ui/login", &more, &form);
        let set = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        format!("Cookie: {}\r\n", set.split(';').next().unwrap_or_default())
    }

    fn get(&self, path: &str, cookie: &str) {
        let answer = self.send("GET", path, cookie, "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n", self.address);
        stream.write_all((head + body).as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("answered");
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
        self.child.wait().expect("ended");
    }
}
