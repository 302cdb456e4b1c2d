//! A host in trouble.

use crate::approval::os_user;
use crate::bus::connect_to;
use crate::bus::peer::{Bus, FakeUnit, FakeValue};
use crate::probes::certificates::expired_server;
use crate::support::{TestHome, start, text};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The time that stands in place of that of the test.
const AT: &str = "2026-11-24T10:00:00Z";

/// What is wrong with the host, whatever the home: a busy process, an expired certificate, and a
/// port that something listens at.
pub(super) struct TroubledHost {
    busy: Child,
    listener: TcpListener,
    /// The port of the server with the expired certificate, and the authority that issued it.
    tls: (u16, String),
    /// The time now, for lines of logs.
    now: String,
}

impl TroubledHost {
    pub(super) fn start(folder: &TestHome) -> Self {
        let program = folder.beside("busy-report");
        std::fs::copy("/bin/sh", &program).expect("a program");
        // A session of its own, which gets its share of the processors whatever else runs here.
        let mut busy = start(Path::new("setsid"));
        busy.arg(&program).args(["-c", "while :; do :; done"]);
        let busy = busy.spawn().expect("started");
        // An answer shows the lowest ports.
        let ports = [80].into_iter().chain(1..1024);
        let listener = ports.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).next();
        let now = start(Path::new("date")).args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().expect("a time");
        Self {
            busy,
            listener: listener.expect("a low port"),
            tls: expired_server(),
            now: text(&now.stdout).trim().to_owned(),
        }
    }
}

impl Drop for TroubledHost {
    fn drop(&mut self) {
        let _killed = self.busy.kill();
        let _reaped = self.busy.wait();
    }
}

/// What is wrong with a home's folders and services, until it is dropped.
pub(super) struct Trouble {
    /// Whether it has a full file system.
    pub(super) is_full: bool,
    small: PathBuf,
    _bus: Bus,
    /// What is replaced on the page, and by what.
    replaced: Vec<(String, String)>,
    /// The folder that stands for `@logs` and that for `@workspace`.
    folders: [String; 2],
    port: u16,
}

impl Trouble {
    /// `None` with a message if there is no bus. If no file system can be mounted, there is no full
    /// one, and a message says so.
    pub(super) fn make(home: &TestHome, host: &TroubledHost) -> Option<Self> {
        let real = |path: PathBuf| path.canonicalize().expect("real").display().to_string();
        write_files(home, &host.now);
        plant_updates(home);
        let small = home.path("workspace/small");
        std::fs::create_dir(&small).expect("folder");
        let mut mount = start(Path::new("mount"));
        mount.args(["-t", "tmpfs", "-o", "size=4m,nr_inodes=100,mode=0755", "none"]).arg(&small);
        let is_full = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !is_full {
            eprintln!("\nSKIPPED: NO file system can be mounted here: docs/questions.md was not compared\n");
        }
        // Written until nothing more fits.
        let _full = std::fs::write(small.join("upload.bin"), vec![1; 5 << 20]);
        let bus = Bus::start(home)?;
        connect_to(home, bus.socket.to_str().expect("UTF-8"));
        bus.manager(vec![failed_nginx()], &[]);
        let logs = real(home.beside("logs"));
        configure(home, &logs, &host.tls.1);
        let workspace = real(home.path("workspace"));
        let low = host.listener.local_addr().expect("an address").port();
        let pair = |found: String, shown: &str| (found, shown.to_owned());
        let replaced = vec![
            pair(workspace.clone(), "/srv/par/workspace"),
            pair(logs.clone(), "/var/log"),
            pair(host.now.clone(), AT),
            pair(slashes(&host.now), &slashes(AT)),
            pair(format!("localhost:{}", host.tls.0), "localhost:8443"),
            pair(format!("{} busy-report", host.busy.id()), "4242 busy-report"),
            pair(format!("  {low}/tcp at"), "  80/tcp at"),
            pair(os_user(), "os:ana"),
        ];
        Some(Self { is_full, small, _bus: bus, replaced, folders: [logs, workspace], port: host.tls.0 })
    }

    /// `words` with the folders and the port of this host.
    pub(super) fn placed(&self, words: &str) -> String {
        let [logs, workspace] = &self.folders;
        let words = words.replace("@logs", logs).replace("@workspace", workspace);
        words.replace("@port", &self.port.to_string())
    }

    /// `words` without what differs between hosts and runs.
    pub(super) fn settled(&self, words: &str) -> String {
        self.replaced.iter().fold(words.to_owned(), |words, (found, shown)| words.replace(found, shown))
    }
}

impl Drop for Trouble {
    fn drop(&mut self) {
        let _unmounted = start(Path::new("umount")).arg("-l").arg(&self.small).status();
    }
}

/// A time as nginx writes it.
fn slashes(time: &str) -> String {
    time.replace('-', "/").replace('T', " ").replace('Z', "")
}

fn write_files(home: &TestHome, now: &str) {
    let logs = home.beside("logs");
    std::fs::create_dir_all(logs.join("nginx")).expect("folder");
    let write = |path: PathBuf, text: String| std::fs::write(path, text).expect("file");
    let old = "2020-01-01T00:00:00Z shop error: an error of long ago\n";
    write(logs.join("app.log"), format!("{old}{now} shop error: cannot open the queue\n"));
    let upstream = "[error] 7#7: upstream timed out (110: Connection timed out)\n";
    write(logs.join("nginx/error.log"), format!("{} {upstream}", slashes(now)));
    let login = "sshd[9]: Accepted publickey for ana from 192.0.2.7 port 40000 ssh2";
    write(logs.join("auth.log"), format!("{now} web1 {login}\n"));
    let shop = home.path("workspace/shop");
    std::fs::create_dir(&shop).expect("folder");
    write(shop.join("app.conf.old"), "workers = 2\nport = 8080\n".to_owned());
    write(shop.join("app.conf"), "workers = 64\nport = 8080\n".to_owned());
}

/// What dpkg and apt keep: two packages of which a newer version is known.
fn plant_updates(home: &TestHome) {
    let packages = |newer: bool, names: &[&str]| -> String {
        let version = if newer { "3.0.16-1" } else { "3.0.15-1" };
        let status = if newer { "" } else { "Status: install ok installed\n" };
        let one =
            |name: &&str| format!("Package: {name}\n{status}Architecture: amd64\nVersion: {version}\n\n");
        names.iter().map(one).collect()
    };
    let folder = home.beside("packages");
    std::fs::create_dir_all(folder.join("dpkg")).expect("folder");
    std::fs::create_dir(folder.join("lists")).expect("folder");
    let write = |path: &str, text: String| std::fs::write(folder.join(path), text).expect("file");
    write("dpkg/status", packages(false, &["libssl3", "tzdata", "zlib1g"]));
    write("lists/deb_dists_x-security_main_binary-amd64_Packages", packages(true, &["libssl3"]));
    write("lists/deb_dists_x_main_binary-amd64_Packages", packages(true, &["tzdata"]));
    let file = "tools.d/pending_updates.toml";
    let shipped = std::fs::read_to_string(home.path("etc").join(file)).expect("shipped");
    let of_host = "read = [\"/var/lib/dpkg\", \"/var/lib/apt/lists\"]";
    assert!(shipped.contains(of_host), "{shipped}");
    let planted = format!("read = [\"{0}/dpkg\", \"{0}/lists\"]", folder.display());
    home.add(file, &shipped.replace(of_host, &planted));
}

fn failed_nginx() -> FakeUnit {
    let mut nginx = FakeUnit::new("nginx.service", ["loaded", "failed", "failed"]);
    nginx.properties = vec![
        ("UnitFileState", FakeValue::Text("enabled")),
        ("StateChangeTimestamp", FakeValue::Long(1_795_000_000_000_000)),
        ("Result", FakeValue::Text("exit-code")),
        ("ExecMainStatus", FakeValue::Signed(1)),
        ("ExecMainCode", FakeValue::Signed(1)),
        ("NRestarts", FakeValue::Number(5)),
        ("Environment", FakeValue::Text("DB_PASSWORD=ENV-S3CRET")),
    ];
    nginx
}

/// Sets the folder of logs, and the authority of certificates.
fn configure(home: &TestHome, logs: &str, authority: &str) {
    let ca = home.beside("ca.pem");
    std::fs::write(&ca, authority).expect("written");
    let file = home.path("etc/par.toml");
    let before = std::fs::read_to_string(&file).expect("par.toml");
    let ca = format!("[sandbox]\nca_file = \"{}\"\n", ca.display());
    let after = before.replace("logs = \"/var/log\"", &format!("logs = \"{logs}\""));
    assert!(after != before, "{before}");
    let after = match after.contains("[sandbox]\n") {
        true => after.replace("[sandbox]\n", &ca),
        false => format!("{after}{ca}"),
    };
    std::fs::write(file, after).expect("par.toml");
}
