//! The service: installed into a folder, its two halves as two users over a socket, what it tells the
//! service manager and those who watch it.

#![expect(clippy::disallowed_methods, reason = "tests start the product's own binary and its installer")]

use crate::support::{
    Server, TestHome, binary, copy_folder, is_alive, is_root, launcher_binary, text, until,
};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with,
};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Two users whom no host has.
const FRONT: u32 = 61_001;
const TOOLS: u32 = 61_002;

/// A folder with a copy of what `install.sh` needs, readable by all, and a folder to install into.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Option<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        if !source.join("install.sh").is_file() {
            eprintln!("skipped: the source is not where this test was built");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("par-it-").tempdir().expect("folder");
        open_up(folder.path());
        let shipped = folder.path().join("shipped");
        copy_folder(&source.join("systemd"), &shipped.join("systemd"));
        std::fs::copy(source.join("install.sh"), shipped.join("install.sh")).expect("install.sh");
        // A link where that is possible: the binary is large.
        for (name, built) in [("par", binary()), ("par-launcher", launcher_binary())] {
            let to = shipped.join(name);
            std::fs::hard_link(&built, &to).or_else(|_| std::fs::copy(&built, &to).map(drop)).expect(name);
        }
        // Tools by name, and a `systemctl` that nothing may call below a root.
        std::fs::create_dir(folder.path().join("bin")).expect("bin");
        let systemctl = folder.path().join("bin/systemctl");
        std::fs::write(&systemctl, "#!/bin/sh\nexit 99\n").expect("systemctl");
        open_up(&systemctl);
        Some(Self { folder })
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn at(&self, below: &str) -> PathBuf {
        self.root().join(below)
    }

    fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.at(below)).unwrap_or_else(|e| panic!("{below}: {e}"))
    }

    fn script(&self, args: &[&str]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg(self.folder.path().join("shipped/install.sh")).args(args);
        command.arg("--root").arg(self.root()).env_clear().stdin(Stdio::null());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display()));
        command
    }

    /// Runs the installer, which must succeed, and returns what it said.
    fn install(&self, args: &[&str]) -> String {
        succeed(&mut self.script(args))
    }

    fn home(&self) -> [String; 4] {
        let word = |below: &str| self.at(below).display().to_string();
        ["--home".to_owned(), word("var/lib/par"), "--etc".to_owned(), word("etc/par")]
    }

    /// The installed binary on the installed home, as another user where `uid` is given.
    fn par(&self, uid: Option<u32>, args: &[&str]) -> Command {
        self.installed("par", uid, args)
    }

    /// As [`Place::par`], of the binary called `name`.
    fn installed(&self, name: &str, uid: Option<u32>, args: &[&str]) -> Command {
        let mut command = as_user(uid, self.at("usr/bin").join(name));
        command.args(self.home()).args(args).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    }

    /// Every file with its bytes, mode and owner.
    fn files(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32, u32)> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for item in std::fs::read_dir(folder).expect("folder") {
                let path = item.expect("entry").path();
                let meta = path.symlink_metadata().expect("meta");
                if meta.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).expect("bytes");
                    found.insert(path, (bytes, meta.mode(), meta.uid()));
                }
            }
        }
        found
    }
}

fn open_up(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

fn as_user(uid: Option<u32>, program: PathBuf) -> Command {
    let Some(uid) = uid else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    let uid = uid.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--no-new-privs", "--"]).arg(program);
    command
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{command:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn refused(output: &Output, code: i32, why: &str) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    assert!(told.contains(why), "{told}");
}

#[test]
fn installs_into_a_folder_and_again_without_harm() {
    let Some(place) = Place::new() else { return };
    let said = place.install(&[]);
    assert!(said.contains("Units and users") && said.ends_with("Done.\n"), "{said}");
    for file in [
        "usr/bin/par",
        "usr/bin/par-launcher",
        "usr/lib/systemd/system/par.service",
        "usr/lib/systemd/system/par-launcher.socket",
        "usr/lib/systemd/system/par-launcher@.service",
        "usr/lib/sysusers.d/par.conf",
        "usr/lib/tmpfiles.d/par.conf",
        "usr/share/man/man1/par.1",
        "usr/share/man/man1/par-serve.1",
        "usr/share/bash-completion/completions/par",
        "etc/par/policies/10-read.cedar",
        "etc/par/tools.d/read_file.toml",
        "var/lib/par/data/log.key",
    ] {
        assert!(place.at(file).is_file(), "{file}");
    }
    assert_eq!(place.at("var/lib/par/data").metadata().expect("data").mode() & 0o777, 0o700);
    succeed(&mut place.par(None, &["config", "check"]));
    let before = place.files();
    place.install(&[]);
    assert_eq!(before, place.files(), "a second run changes nothing");
}

#[test]
fn an_update_keeps_what_a_person_edited() {
    let Some(place) = Place::new() else { return };
    place.install(&[]);
    let write = |below: &str, text: &str| std::fs::write(place.at(below), text).expect("file");
    // As if an older version had shipped other texts; one was edited since, and one removed.
    let shipped = place.read("etc/par/par.toml");
    let older = "usr/share/par/etc";
    write(&format!("{older}/par.toml"), "# older\n");
    write(
        "etc/par/par.toml",
        "# mine\n[server]\nlisten = \"127.0.0.1:7200\"\n[paths]\nlogs = \"/var/log\"\n",
    );
    write(&format!("{older}/tools.d/list_dir.toml"), "# older\n");
    write("etc/par/tools.d/list_dir.toml", "# older\n");
    std::fs::remove_file(place.at("etc/par/tools.d/tail_file.toml")).expect("removed");
    write("etc/par/policies/50-mine.cedar", "// mine\n");
    let said = place.install(&[]);
    assert!(place.read("etc/par/par.toml").starts_with("# mine\n"));
    assert_eq!(place.read("etc/par/par.toml.new"), shipped);
    assert!(said.contains("par.toml: edited here, and kept; the shipped one is"), "{said}");
    assert!(place.read("etc/par/tools.d/list_dir.toml").contains("list_dir"), "brought up to date");
    assert!(!place.at("etc/par/tools.d/tail_file.toml").exists(), "what was removed stays away");
    assert_eq!(place.read("etc/par/policies/50-mine.cedar"), "// mine\n");
    succeed(&mut place.par(None, &["config", "check"]));
    // Cases of the shipped policies are not put beside edited ones, which they would refuse.
    let cases = "etc/par/policies/tests/90-never.toml";
    let shipped = place.read(cases);
    for edited in ["// nothing is forbidden\n", ""] {
        write("etc/par/policies/90-never.cedar", edited);
        write(cases, "# older\n");
        write(&format!("{older}/policies/tests/90-never.toml"), "# older\n");
        let said = place.install(&[]);
        assert!(said.contains("the policies are edited here; the cases of the shipped ones are"), "{said}");
        assert_eq!(
            (place.read(cases).as_str(), place.read(&format!("{cases}.new"))),
            ("# older\n", shipped.clone())
        );
        succeed(&mut place.par(None, &["config", "check"]));
    }
}

#[test]
fn a_dry_run_says_the_steps_and_does_none() {
    let Some(place) = Place::new() else { return };
    let said = place.install(&["--dry-run"]);
    assert!(said.contains("would: put") && said.contains("Home:"), "{said}");
    assert!(!place.root().exists(), "{:?}", place.files());
    place.install(&[]);
    let before = place.files();
    place.install(&["--dry-run"]);
    place.install(&["--dry-run", "--uninstall"]);
    assert_eq!(before, place.files());
}

#[test]
fn an_uninstall_keeps_the_ledger_and_says_where() {
    let Some(place) = Place::new() else { return };
    place.install(&[]);
    succeed(&mut place.par(None, &["key", "create", "one", "--role", "viewer"]));
    let ledger = std::fs::read(place.at("var/lib/par/data/ledger.db")).expect("ledger");
    let said = place.install(&["--uninstall"]);
    assert!(said.contains(&format!("{}: the ledger", place.at("var/lib/par/data").display())), "{said}");
    assert_eq!(std::fs::read(place.at("var/lib/par/data/ledger.db")).expect("ledger"), ledger);
    assert!(place.at("etc/par/par.toml").is_file());
    let left: Vec<_> = place.files().into_keys().filter(|path| path.starts_with(place.at("usr"))).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    // And back again, over what was kept.
    place.install(&[]);
    succeed(&mut place.par(None, &["audit", "verify"]));
}

#[test]
fn without_rights_nothing_is_done_and_it_says_so() {
    let Some(place) = Place::new() else { return };
    let mut command = if is_root() {
        std::fs::create_dir(place.root()).expect("root");
        open_up(&place.root());
        let mut command = as_user(Some(65_534), "/bin/sh".into());
        command.arg(place.folder.path().join("shipped/install.sh")).arg("--root").arg(place.root());
        command
    } else {
        let mut command = Command::new("/bin/sh");
        command.arg(place.folder.path().join("shipped/install.sh")).args(["--root", "/usr/share"]);
        command
    };
    refused(&command.output().expect("sh"), 1, "Nothing was changed.");
    if is_root() {
        assert!(place.files().is_empty());
    }
}

#[test]
fn a_host_without_systemd_gets_no_units_and_is_told_how_to_run() {
    let Some(place) = Place::new() else { return };
    // Only what the script needs, and no `systemctl`.
    let bin = place.folder.path().join("few");
    std::fs::create_dir(&bin).expect("bin");
    for name in ["cat", "chmod", "cmp", "cp", "dirname", "find", "id", "mkdir", "mktemp", "mv", "rm", "sort"]
    {
        let tool = ["/usr/bin", "/bin"].iter().map(|at| Path::new(at).join(name)).find(|tool| tool.exists());
        std::os::unix::fs::symlink(tool.expect(name), bin.join(name)).expect("link");
    }
    let said = succeed(place.script(&[]).env("PATH", &bin));
    assert!(said.contains("does not run systemd"), "{said}");
    assert!(said.contains(&format!("{} --home", place.at("usr/bin/par").display())), "{said}");
    assert!(said.contains(" serve\n"), "{said}");
    assert!(!place.at("usr/lib").exists());
}

#[test]
fn the_units_are_in_order() {
    let Some(place) = Place::new() else { return };
    let version = Command::new("systemd-analyze").arg("--version").output();
    let Some(version) = version.ok().filter(|o| o.status.success()).map(|o| text(&o.stdout)) else {
        eprintln!("skipped: systemd-analyze is not there");
        return;
    };
    place.install(&[]);
    let units = place.at("usr/lib/systemd/system");
    for name in ["par.service", "par-launcher@.service"] {
        let unit = std::fs::read_to_string(units.join(name)).expect("unit");
        let bin = place.at("usr/bin/").display().to_string();
        assert!(name == "par.service" || unit.contains("ExecStart=/usr/bin/par-launcher "), "{unit}");
        std::fs::write(units.join(name), unit.replace("/usr/bin/", &bin)).expect("unit");
    }
    let at = |name: &str| units.join(name).display().to_string();
    let files = [at("par.service"), at("par-launcher.socket"), at("par-launcher@.service")];
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .args(&files)
        .env("MANPATH", place.at("usr/share/man"))
        .output()
        .expect("systemd-analyze");
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    assert_eq!(text(&verified.stderr), "");
    for (name, most) in [("par.service", "15"), ("par-launcher@.service", "27")] {
        let scored = Command::new("systemd-analyze")
            .args(["security", "--offline=yes", &format!("--threshold={most}"), "--no-pager", &at(name)])
            .output()
            .expect("systemd-analyze");
        let last = text(&scored.stdout).lines().last().unwrap_or_default().to_owned();
        assert!(scored.status.success(), "{name} is above {most}: {last}");
        eprintln!("{last}");
        // Another systemd measures otherwise.
        if version.starts_with("systemd 252 ") {
            // Without the word and the face behind the figure.
            let told = last.trim_end_matches(|c: char| !c.is_ascii_digit());
            let install = include_str!("../../docs/install.md");
            assert!(install.contains(&format!("{told} ")), "docs/install.md says otherwise than `{told}`");
        }
    }
}

/// An installed home with the socket of the launchers, served by this test as systemd would.
struct Halves {
    place: Place,
    front: Option<u32>,
    server: Server,
    /// Process numbers of the launchers, as they come.
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

/// As a service manager: listens at `socket`, which is `front`'s, and starts `launcher` for each connection. Returns their
/// process numbers, as they come.
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
        // An ordinary user has no place there; a file that is missing is decided all the same.
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
    // A launcher that dies is replaced by another connection, and the next call runs.
    nix::sys::signal::kill(launcher_proper(first), nix::sys::signal::Signal::SIGKILL).expect("killed");
    // The call that meets the dead one may still be told so; the one after it has another.
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
    // Who may not look is told so, and not that keys and ledger are not there.
    if front.is_some() {
        let told = place.par(Some(TOOLS), &["doctor", "--quick"]).output().expect("par starts");
        let told = text(&told.stdout);
        assert!(told.contains("only its owner and root") && !told.contains("is not there"), "{told}");
    }
}

/// Beside calls that come and go the journals are never called another story.
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
    // A front that was taken over orders a call that nobody decided on.
    let last = files.last().expect("a file");
    let before = std::fs::read_to_string(last).expect("lines");
    let prev = par::types::Digest::of(before.lines().last().expect("a line").as_bytes()).hex();
    let digest = "0f".repeat(32);
    let order = format!(
        r#"{{"arguments":"{digest}","at_us":1,"call":99,"decision":0,"manifest":"{digest}","prev":"{prev}","t":"par/launcher/1","tool":"deploy","what":"order"}}"#
    );
    std::fs::write(last, format!("{before}{order}\n")).expect("written");
    let (code, said) = verify();
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("of `deploy` claims an entry that allows no call"), "{said}");
    std::fs::write(last, before).expect("as it was");
    assert_eq!(verify().0, Some(0));
    // One line less: its hash is missed, and so is the order.
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
    // Its first stage has ended it, since nobody else may: it is another user's.
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
    // The binary of its own, and the word by which units of the release before start it.
    let own_binary = |args: &[&str]| {
        let mut command = Command::new(launcher_binary());
        command.args(args).env_clear().env("PAR_HOME", home.root()).stdin(Stdio::null());
        command
    };
    let alias = |args: &[&str]| home.command(&[&["launcher"], args].concat());
    let starters: [&Starter; 2] = [&own_binary, &alias];
    for starter in starters {
        refused(&launch(starter, own + 1, SocketType::SEQPACKET), 1, "the peer runs as uid");
        refused(&launch(starter, own, SocketType::STREAM), 1, "is no SOCK_SEQPACKET");
        let plain = |args: &[&str]| starter(args).output().expect("starts");
        refused(&plain(&["--front-user", "0"]), 2, "no connection was passed");
        refused(&plain(&["--front-user", "0", "--fd", "2"]), 1, "is a standard stream");
        refused(&plain(&["--front-user", "no-such-user", "--fd", "3"]), 2, "no user `no-such-user`");
        refused(&plain(&[]), 2, "--front-user");
    }
    let help = own_binary(&["--help"]).output().expect("starts");
    assert!(text(&help.stdout).contains("--journal <DIR>"), "{}", text(&help.stdout));
    let version = own_binary(&["--version"]).output().expect("starts");
    assert_eq!(text(&version.stdout).replace("par-launcher ", "par "), home.expect(0, &["--version"]));
}

#[test]
fn metrics_are_openmetrics_and_count() {
    let home = TestHome::init();
    let key = home.key("watch", "admin");
    let server = home.serve();
    server.run(&key, "read_file(path=\"/etc/shadow\")");
    server.run(&key, "made_up_by_a_model()");
    assert_eq!(server.get("par_wrong", "/metrics").status, 401);
    let answer = server.get(&key, "/metrics");
    assert!(answer.head.contains("application/openmetrics-text"), "{}", answer.head);
    let told = text(&answer.body);
    assert!(told.ends_with("# EOF\n"), "{told}");
    let mut families = BTreeMap::new();
    for line in told.lines().filter(|line| *line != "# EOF") {
        match line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            Some((name, kind)) => assert!(families.insert(name, kind).is_none(), "{name} twice"),
            None if line.starts_with("# HELP ") => {}
            None => {
                let (series, value) = line.rsplit_once(' ').expect("a sample");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = series.split('{').next().unwrap_or_default();
                assert!(families.keys().any(|family| name.starts_with(family)), "{line} has no family");
            }
        }
    }
    for sample in [
        "par_calls_total{tool=\"read_file\",decision=\"deny\",status=\"refused\"} 1",
        "par_auth_refused_total 1",
        "par_http_requests_total{code=\"401\"} 1",
        "par_launcher_restarts_total 0",
        "par_ledger_obstacle 0",
    ] {
        assert!(told.lines().any(|line| line == sample), "{sample}\n{told}");
    }
    for database in ["ledger", "state", "index"] {
        let bytes = format!("par_ledger_wal_bytes{{database=\"{database}\"}} ");
        assert!(told.lines().any(|line| line.starts_with(&bytes)), "{bytes}\n{told}");
    }
    assert!(!told.contains("made_up"), "a model's words are no label: {told}");
}

#[test]
fn json_logs_carry_the_run() {
    let home = TestHome::init();
    let key = home.key("log", "operator");
    let server = home.serve_with(&[("PAR_SERVER__LOG", "json")]);
    let run = server.run(&key, "health_check()").json()["run"].as_str().expect("a run").to_owned();
    let line = server.log().lines().find(|line| line.contains("the run was answered")).map(str::to_owned);
    let line: serde_json::Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
    assert_eq!(line["run"], run.as_str());
    assert_eq!(line["status"], "done");
    let entries = home.entries(&["kind:run.reply"]);
    assert_eq!(entries.last().expect("a reply")["run"], run.as_str());
    let seq = entries.last().and_then(|entry| entry["seq"].as_u64()).expect("a number");
    assert_eq!(home.entry(seq)["payload"]["status"], "done");
}

#[test]
fn the_doctor_names_what_is_wrong() {
    let home = TestHome::init();
    home.key("one", "viewer");
    let words = |told: &str| -> Vec<String> {
        let line = |line: &str| {
            line.split("  ")
                .filter(|cell| !cell.is_empty())
                .map(str::trim)
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        };
        told.lines().map(line).collect()
    };
    let told = home.expect(0, &["doctor"]);
    let shown: Vec<String> = words(&told).into_iter().filter(|line| !line.starts_with("warn")).collect();
    let expect = [
        "ok protections",
        "ok level",
        "ok configuration",
        "ok files of etc/",
        "ok files of data/",
        "ok secrets",
        "ok ledger",
        "ok anchor",
        "ok clock",
        "ok disk",
        "ok model",
        "ok server",
    ];
    assert_eq!(shown, expect, "{told}");
    assert!(told.contains("entries verified") && told.contains("offline: no model, no network"), "{told}");
    for line in home.expect(0, &["doctor", "--json", "--quick"]).lines() {
        let check: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(["ok", "warn"].contains(&check["level"].as_str().expect("level")), "{check}");
    }
    home.configure("[llm]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let mode = |below: &str, mode| {
        std::fs::set_permissions(home.path(below), std::fs::Permissions::from_mode(mode)).expect("mode");
    };
    mode("etc/tools.d/read_file.toml", 0o666);
    mode("data/pepper", 0o644);
    std::fs::remove_file(home.path("data/log.key")).expect("removed");
    let told = home.expect(1, &["doctor"]);
    for wrong in [
        "tools.d/read_file.toml: is writable by others",
        "data/pepper: mode 0644 lets others in",
        "data/log.key: is not there",
        "http://127.0.0.1:1/v1: ",
    ] {
        assert!(told.lines().any(|line| line.starts_with("fail") && line.contains(wrong)), "{wrong}\n{told}");
    }
}

#[test]
fn completions_and_manual_come_from_the_commands() {
    let home = TestHome::empty();
    for (shell, sign) in [("bash", "complete -F _par"), ("zsh", "#compdef par"), ("fish", "complete -c par")]
    {
        let script = home.expect(0, &["completion", shell]);
        assert!(script.contains(sign) && script.contains("quickstart"), "{shell}");
        assert!(!script.contains("launcher --fd"), "{shell} offers what is for the service manager");
    }
    let page = home.expect(0, &["man"]);
    assert!(page.contains(".TH par 1") && page.contains("par\\-doctor"), "{page}");
    refused(&home.par(&["completion", "nosuchshell"]), 2, "nosuchshell");
}
