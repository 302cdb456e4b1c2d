//! Front and launchers as two users over a socket, on which a service manager would listen.

use super::{Place, refused, succeed};
use crate::support::{Server, TestHome, is_alive, is_root, launcher_binary, text, until};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with,
};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Two uids that no host assigns.
const FRONT: u32 = 61_001;
const TOOLS: u32 = 61_002;

/// An installed home with the launchers' socket, served by this test as systemd would.
struct Halves {
    place: Place,
    front: Option<u32>,
    server: Server,
    /// Process ids of the launchers, as they start.
    launchers: Receiver<u32>,
    notify: UnixDatagram,
    key: String,
}

impl Halves {
    /// With a watchdog of that many seconds.
    fn start(watchdog_s: u32) -> Option<Self> {
        let place = Place::new()?;
        place.install(&[]);
        let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok_and(|o| o.status.success());
        let is_two = is_root() && has_setpriv;
        if !is_two {
            eprintln!("both halves run as one user: two need root and setpriv");
        }
        let [front, tools] = [FRONT, TOOLS].map(|uid| is_two.then_some(uid));
        let data = place.at("var/lib/par/data");
        for path in [data.clone(), data.join("log.key"), data.join("pepper")] {
            chown(path, front, front).expect("owner");
        }
        chown(place.at("var/lib/par/workspace"), tools, tools).expect("owner");
        let journal = place.at("var/lib/par-launcher");
        std::fs::create_dir(&journal).expect("journal");
        std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(0o700)).expect("mode");
        chown(&journal, tools, tools).expect("owner");
        let socket = place.folder.path().join("launcher.sock");
        let launchers = launchers_at(&place, &socket, front, tools);
        let told = place.folder.path().join("notify");
        let notify = UnixDatagram::bind(&told).expect("notify socket");
        notify.set_read_timeout(Some(Duration::from_secs(30))).expect("time-out");
        std::fs::set_permissions(&told, std::fs::Permissions::from_mode(0o777)).expect("mode");
        let key = succeed(&mut place.par(front, &["key", "create", "ops", "--role", "admin"]));
        let socket = socket.display().to_string();
        let mut command = place.par(front, &["serve", "--listen", "127.0.0.1:0", "--launcher", &socket]);
        command.env("NOTIFY_SOCKET", &told).env("WATCHDOG_USEC", format!("{watchdog_s}000000"));
        let server = Server::start(&mut command, place.folder.path().join("serve.log"));
        Some(Self { place, front, server, launchers, notify, key: key.trim().to_owned() })
    }

    fn heard(&self) -> String {
        let mut bytes = [0_u8; 512];
        let read = self.notify.recv(&mut bytes).expect("the service manager hears something");
        text(&bytes[..read])
    }

    fn step(&self, message: &str) -> String {
        let reply = self.server.run(&self.key, message).json();
        let word = |name: &str| reply["steps"][0][name].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", word("tool"), word("decision"), word("status"))
    }
}

/// Listens, and starts a launcher for each connection, which is its descriptor 3.
fn launchers_at(place: &Place, socket: &Path, front: Option<u32>, tools: Option<u32>) -> Receiver<u32> {
    let own = nix::unistd::geteuid().as_raw();
    let user = front.unwrap_or(own).to_string();
    let journal = place.at("var/lib/par-launcher").display().to_string();
    let args = ["--front-user", &user, "--journal", &journal];
    attend_at(socket, front, &place.installed("par-launcher", tools, &args), &[])
}

/// Acts as a service manager: listens on `socket`, which belongs to `front`, and starts `launcher`
/// for each connection. Returns their process ids, as they start.
pub(crate) fn attend_at(
    socket: &Path,
    front: Option<u32>,
    launcher: &Command,
    environment: &'static [(&str, &str)],
) -> Receiver<u32> {
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let listener = listener.expect("socket");
    bind(&listener, &SocketAddrUnix::new(socket).expect("address")).expect("bind");
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600)).expect("mode");
    chown(socket, front, front).expect("owner");
    listen(&listener, 8).expect("listen");
    let words: Vec<_> =
        std::iter::once(launcher.get_program()).chain(launcher.get_args()).map(Into::into).collect();
    let (sender, launchers) = channel();
    std::thread::spawn(move || {
        // Ends with the test's own process; nothing waits for it.
        while let Ok(connection) = accept(&listener) {
            let mut command = on_descriptor_3(connection, &words);
            let mut child = command.envs(environment.iter().copied()).spawn().expect("a launcher");
            let is_heard = sender.send(child.id()).is_ok();
            std::thread::spawn(move || child.wait());
            if !is_heard {
                return;
            }
        }
    });
    launchers
}

fn on_descriptor_3(connection: OwnedFd, words: &[std::ffi::OsString]) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"", "sh"])
        .args(words)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::from(connection));
    command
}

#[test]
fn two_halves_serve_a_governed_run() {
    let Some(halves) = Halves::start(30) else { return };
    assert!(halves.heard().starts_with("READY=1\nSTATUS=listening on http://127.0.0.1:"));
    assert_eq!(halves.heard(), "WATCHDOG=1");
    let log = tempfile::Builder::new().prefix("par-it-").tempfile_in("/var/log");
    let seen = match &log {
        Ok(file) => {
            let open = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(file.path(), open).expect("mode");
            file.path().display().to_string()
        }
        // An ordinary user may not write there; a missing file is decided on all the same.
        Err(_) => "/var/log/par-it-missing".to_owned(),
    };
    assert_eq!(halves.step("health_check()"), "health_check allow ok");
    let expect = if log.is_ok() { "read_file allow ok" } else { "read_file allow error" };
    assert_eq!(halves.step(&format!("read_file(path=\"{seen}\")")), expect);
    assert_eq!(halves.step("read_file(path=\"/etc/shadow\")"), "read_file deny refused");
    launchers_are_no_alarm_while_they_work(&halves);
    let first = halves.launchers.recv().expect("a launcher");
    assert!(halves.server.descendants().is_empty(), "the front has no process below it");
    if let Some(front) = halves.front {
        assert_eq!(uid_of(halves.server.child.id()), front);
        assert_eq!(uid_of(first), TOOLS);
    }
    // A tool of the front has a result that no launcher was ordered to make.
    assert_eq!(halves.step("who_was_denied()"), "who_was_denied allow ok");
    // A launcher that dies is replaced by another connection, and the next call runs.
    nix::sys::signal::kill(launcher_proper(first), nix::sys::signal::Signal::SIGKILL).expect("killed");
    // The call that reaches the dead one may still report it; the one after it has another.
    let next = halves.step("health_check()");
    let again = if next.ends_with(" ok") { next } else { halves.step("health_check()") };
    assert_eq!(again, "health_check allow ok");
    assert_ne!(first, halves.launchers.try_recv().expect("another launcher"));
    let metrics = text(&halves.server.get(&halves.key, "/metrics").body);
    assert!(metrics.contains("\npar_launcher_restarts_total 1\n"), "{metrics}");
    // A reload is a second connection, tested before the first is drained.
    let second = halves.launchers.try_iter().last();
    let rule = halves.place.at("etc/par/policies/50-closed.cedar");
    std::fs::remove_dir_all(halves.place.at("etc/par/policies/tests")).expect("cases that say otherwise");
    std::fs::write(&rule, "@id(\"closed\") forbid (principal, action, resource is PAR::Host) when { context.call.dry_run == false };")
        .expect("rule");
    let told = succeed(&mut halves.place.par(halves.front, &["reload"]));
    assert!(told.ends_with("  + policy closed\n"), "{told}");
    assert_ne!(second, Some(halves.launchers.recv().expect("a launcher of the reload")));
    assert_eq!(halves.step("health_check()"), "health_check deny refused");
    let Halves { place, front, server, notify, .. } = halves;
    assert_eq!(server.stop(), Some(0));
    let mut told = String::new();
    let mut bytes = [0_u8; 512];
    while !told.contains("STOPPING=1") {
        let read = notify.recv(&mut bytes).expect("STOPPING=1");
        told = text(&bytes[..read]);
    }
    let verified = succeed(&mut place.par(front, &["audit", "verify"]));
    assert!(verified.contains("entries: chain, tree"), "{verified}");
    launchers_tell_the_same(&place);
    // A user without access sees that, and not that keys and ledger are missing.
    if front.is_some() {
        let told = place.par(Some(TOOLS), &["doctor", "--quick"]).output().expect("par starts");
        let told = text(&told.stdout);
        assert!(told.contains("only its owner and root") && !told.contains(": does not exist"), "{told}");
    }
}

/// While calls come and go the journals are never reported as different.
fn launchers_are_no_alarm_while_they_work(halves: &Halves) {
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (server, key) = (&halves.server, &halves.key);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    server.run(key, "health_check()");
                }
            });
        }
        let verify = |_| {
            let folder = halves.place.at("var/lib/par-launcher");
            let output = halves.place.par(None, &["audit", "verify", "--launcher"]).arg(&folder).output();
            let output = output.expect("par starts");
            (output.status.code(), text(&output.stdout))
        };
        let said: Vec<_> = (0..12).map(verify).collect();
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(said.iter().all(|(code, _)| *code == Some(0)), "{said:?}");
    });
}

/// What launchers were ordered to start is what was decided, and nothing else.
fn launchers_tell_the_same(place: &Place) {
    let folder = place.at("var/lib/par-launcher");
    let verify = || {
        let output = place.par(None, &["audit", "verify", "--launcher"]).arg(&folder).output();
        let output = output.expect("par starts");
        (output.status.code(), text(&output.stdout))
    };
    let (code, said) = verify();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("the launcher's journal: ") && !said.contains(": 0 orders"), "{said}");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("folder").map(|item| item.expect("item").path()).collect();
    files.sort();
    assert!(files.len() >= 3, "a file for each launcher: {files:?}");
    // A hostile front orders a call that was never decided on.
    let last = files.last().expect("a file");
    let before = std::fs::read_to_string(last).expect("lines");
    let prev = par::types::Digest::sha256(before.lines().last().expect("a line").as_bytes()).hex();
    let digest = "0f".repeat(32);
    let order = format!(
        r#"{{"arguments":"{digest}","at_us":1,"call":99,"decision":0,"manifest":"{digest}","prev":"{prev}","t":"par/launcher/1","tool":"deploy","what":"order"}}"#
    );
    std::fs::write(last, format!("{before}{order}\n")).expect("written");
    let (code, said) = verify();
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("of `deploy` claims an entry that does not allow a call"), "{said}");
    std::fs::write(last, before).expect("as it was");
    assert_eq!(verify().0, Some(0));
    // One line less: its hash is missing, and so is the order.
    let first =
        files.iter().find(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("order")));
    let first = first.expect("an order");
    let text = std::fs::read_to_string(first).expect("lines");
    let order = text.split_inclusive('\n').find(|line| line.contains("order")).expect("an order");
    std::fs::write(first, text.replace(order, "")).expect("written");
    let (code, said) = verify();
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("no launcher was ordered to start it"), "{said}");
}

#[test]
fn a_launcher_that_hangs_is_given_up_within_the_watchdog() {
    let Some(halves) = Halves::start(3) else { return };
    assert!(halves.heard().starts_with("READY=1\n"));
    assert_eq!(halves.heard(), "WATCHDOG=1");
    let stuck = launcher_proper(halves.launchers.recv().expect("a launcher"));
    nix::sys::signal::kill(stuck, nix::sys::signal::Signal::SIGSTOP).expect("stopped");
    halves.launchers.recv_timeout(Duration::from_secs(30)).expect("another launcher");
    assert_eq!(halves.heard(), "WATCHDOG=1");
    assert_eq!(halves.step("health_check()"), "health_check allow ok");
    // Its first stage has ended it; no other process may, because it belongs to another user.
    until("what hung is gone", || !is_alive(stuck.as_raw().unsigned_abs()));
}

/// The process below the first stage of a launcher.
fn launcher_proper(first_stage: u32) -> nix::unistd::Pid {
    let path = format!("/proc/{first_stage}/task/{first_stage}/children");
    let children = std::fs::read_to_string(path).expect("children");
    let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    nix::unistd::Pid::from_raw(child.expect("the launcher proper"))
}

fn uid_of(pid: u32) -> u32 {
    Path::new(&format!("/proc/{pid}")).metadata().expect("process").uid()
}

/// A launcher's command line, with arguments.
type Starter<'a> = dyn Fn(&[&str]) -> Command + 'a;

#[test]
fn a_launcher_takes_no_other_peer_and_no_other_socket() {
    let home = TestHome::init();
    let own = nix::unistd::geteuid().as_raw();
    let launch = |starter: &Starter, front: u32, kind: SocketType| {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("pair");
        let front = front.to_string();
        let command = starter(&["--front-user", &front]);
        let words: Vec<_> =
            std::iter::once(command.get_program()).chain(command.get_args()).map(Into::into).collect();
        let output = on_descriptor_3(theirs, &words).env("PAR_HOME", home.root()).output().expect("par");
        drop(ours);
        output
    };
    // The separate binary, and the argument with which units of the previous release start it.
    let own_binary = |args: &[&str]| {
        let mut command = Command::new(launcher_binary());
        command.args(args).env_clear().env("PAR_HOME", home.root()).stdin(Stdio::null());
        command
    };
    let alias = |args: &[&str]| home.command(&[&["launcher"], args].concat());
    let starters: [&Starter; 2] = [&own_binary, &alias];
    for starter in starters {
        refused(&launch(starter, own + 1, SocketType::SEQPACKET), 1, "the peer runs as uid");
        refused(&launch(starter, own, SocketType::STREAM), 1, "not of type SOCK_SEQPACKET");
        let plain = |args: &[&str]| starter(args).output().expect("starts");
        refused(&plain(&["--front-user", "0"]), 2, "no connection was passed");
        refused(&plain(&["--front-user", "0", "--fd", "2"]), 1, "is a standard stream");
        refused(&plain(&["--front-user", "no-such-user", "--fd", "3"]), 2, "unknown user `no-such-user`");
        refused(&plain(&[]), 2, "--front-user");
    }
    let help = own_binary(&["--help"]).output().expect("starts");
    assert!(text(&help.stdout).contains("--journal <DIR>"), "{}", text(&help.stdout));
    let version = own_binary(&["--version"]).output().expect("starts");
    assert_eq!(text(&version.stdout).replace("par-launcher ", "par "), home.expect(0, &["--version"]));
}
