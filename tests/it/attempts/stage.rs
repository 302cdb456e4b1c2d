//! A server with hostile tools: the programs of `taken/`, built here, each with a manifest. It is
//! restarted on each ground, with all targets in their original state.

use crate::model::{House, Reply};
use crate::service::halves::attend_at;
use crate::support::{Server, TestHome, launcher_binary, start, text, until};
use crate::withheld::Withhold;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

/// Content of the file that no manifest grants.
pub(crate) const SECRET: &str = "secret-4c1d-outside-the-roots";
/// The sources, embedded in the test binary: its user may not be able to read them.
const SOURCES: [(&str, &str); 8] = [
    ("taken.h", include_str!("taken/taken.h")),
    ("main.c", include_str!("taken/main.c")),
    ("files.c", include_str!("taken/files.c")),
    ("box.c", include_str!("taken/box.c")),
    ("outward.c", include_str!("taken/outward.c")),
    ("network.c", include_str!("taken/network.c")),
    ("kernel.c", include_str!("taken/kernel.c")),
    ("bounds.c", include_str!("taken/bounds.c")),
];
/// The tools that make the attempts: a static program, a dynamic one, and a dynamic one with a
/// folder that it may change.
pub(crate) const TOOLS: [&str; 3] = ["taken_static", "taken_dynamic", "taken_writer"];
/// In the server's environment, and must not be in a tool's.
const ENVIRONMENT: [(&str, &str); 3] =
    [("LD_AUDIT", "/nonexistent"), ("BASH_ENV", "/nonexistent"), ("TOKEN", SECRET)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Succeeded,
    /// The tool that should make it was refused by name.
    Refused,
    Held,
    NotApplicable,
}

/// What the kernel offers the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Everything that this machine has.
    Whole,
    /// No right of a later version of Landlock.
    Landlock(u32),
    /// No mount namespace, and no right of a later version of Landlock, if one is named.
    NoView(Option<u32>),
    /// For an ordinary user no user namespace, and so no other; for root, who needs none, no other.
    NoNamespaces,
}

/// In the order of the file's columns.
pub(crate) const GROUNDS: [Ground; 8] = [
    Ground::Whole,
    Ground::Landlock(6),
    Ground::Landlock(4),
    Ground::Landlock(2),
    Ground::Landlock(1),
    Ground::NoView(None),
    Ground::NoView(Some(1)),
    Ground::NoNamespaces,
];

impl Ground {
    pub(crate) fn title(self) -> String {
        match self {
            Self::Whole => "whole".to_owned(),
            Self::Landlock(abi) => format!("abi {abi}"),
            Self::NoView(None) => "no view".to_owned(),
            Self::NoView(Some(abi)) => format!("no view abi {abi}"),
            Self::NoNamespaces => "no spaces".to_owned(),
        }
    }

    /// What is withheld from the server.
    fn withheld(self) -> Option<&'static str> {
        match self {
            Self::Whole | Self::Landlock(_) => None,
            Self::NoView(_) => Some("mount"),
            Self::NoNamespaces if crate::support::is_root() => Some("namespaces"),
            Self::NoNamespaces => Some("user"),
        }
    }
}

/// Listeners outside the calls, for as long as this lives.
pub(crate) struct Listeners {
    tcp: TcpListener,
    _udp: UdpSocket,
    _hidden: UnixListener,
    /// A name that only this stage uses.
    pub(crate) hidden: String,
}

/// The server, and the programs' findings.
pub(crate) struct Stage {
    pub(crate) house: House,
    pub(crate) programs: PathBuf,
    pub(crate) listeners: Listeners,
    pub(crate) ground: Ground,
    withhold: Withhold,
    /// par.toml without a ground's additions.
    settings: String,
    _named: UnixListener,
    /// Launchers that were started for a connection.
    launchers: Option<Mutex<Receiver<u32>>>,
    /// Attempt → its outcome in each tool that made it.
    found: BTreeMap<String, BTreeMap<&'static str, Outcome>>,
    /// Attempt → the errnos of its last held step, for each tool.
    pub(crate) errnos: BTreeMap<String, Vec<i64>>,
    /// The launcher's report, as recorded on the ledger.
    pub(crate) loaded: Value,
}

impl Stage {
    /// Starts on everything that this machine has. `None` with a message without a C compiler,
    /// unless one is required.
    pub(crate) fn start() -> Option<Self> {
        let withhold = Withhold::build()?;
        let (mut programs, mut planted) = (None, None);
        let house = House::start_in(&ENVIRONMENT, |home| {
            let listeners = Listeners::listen(home);
            programs = build(home, &listeners);
            if let Some(programs) = &programs {
                let named = plant(home, programs);
                declare(home, programs);
                planted = Some((listeners, named));
            }
        });
        let (programs, (listeners, named)) = (programs?, planted?);
        let settings = std::fs::read_to_string(house.home.path("etc/par.toml")).expect("par.toml");
        let (found, errnos) = (BTreeMap::new(), BTreeMap::new());
        let (ground, loaded) = (Ground::Whole, Value::Null);
        let mut stage = Self {
            house,
            programs,
            listeners,
            ground,
            withhold,
            settings,
            _named: named,
            launchers: None,
            found,
            errnos,
            loaded,
        };
        stage.loaded = stage.report();
        Some(stage)
    }

    /// Moves to another ground, with everything in its original state.
    pub(crate) fn enter(&mut self, ground: Ground) {
        self.clear();
        let abi = match ground {
            Ground::Landlock(abi) | Ground::NoView(Some(abi)) => abi,
            Ground::Whole | Ground::NoView(None) | Ground::NoNamespaces => 0,
        };
        self.home().configure(&format!("{}[sandbox]\nlandlock_abi_max = {abi}\n", self.settings));
        let starters = ground.withheld().map(|what| self.withhold.starters(what));
        let starters: &[&OsStr] = starters.as_ref().map_or(&[], |starters| starters);
        self.house.server = self.house.home.serve_by(starters, &ENVIRONMENT);
        self.begin(ground);
    }

    /// The whole ground again, with launchers started for connections: `par-launcher` instead of a
    /// fork of `par`.
    pub(crate) fn enter_by_socket(&mut self) {
        self.clear();
        self.home().configure(&self.settings);
        let socket = self.home().beside("launcher.sock");
        let own = nix::unistd::geteuid().as_raw().to_string();
        let mut launcher = start(&launcher_binary());
        launcher.arg("--home").arg(self.home().root()).args(["--front-user", &own]);
        self.launchers = Some(Mutex::new(attend_at(&socket, None, &launcher, &ENVIRONMENT)));
        let socket = socket.display().to_string();
        let mut command = self.home().command(&["serve", "--listen", "127.0.0.1:0", "--launcher", &socket]);
        command.envs(ENVIRONMENT);
        self.house.server = Server::start(&mut command, self.home().beside("serve.log"));
        self.begin(Ground::Whole);
    }

    /// The number of `par-launcher` processes started for connections.
    pub(crate) fn launchers_started(&self) -> usize {
        let launchers = self.launchers.as_ref().map(|launchers| launchers.lock().expect("one at a time"));
        launchers.map_or(0, |launchers| launchers.try_iter().count())
    }

    /// Stops the server and restores the original state.
    fn clear(&mut self) {
        assert_eq!(self.house.server.end(), Some(0), "{}", self.house.server.log());
        let workspace = self.home().path("workspace");
        for left in std::fs::read_dir(&workspace).expect("folder") {
            let left = left.expect("entry").path();
            let gone = std::fs::remove_file(&left).or_else(|_| std::fs::remove_dir_all(&left));
            gone.unwrap_or_else(|e| panic!("{}: {e}", left.display()));
        }
        std::fs::remove_dir_all(self.home().beside("outside")).expect("removed");
        self._named = plant(self.home(), &self.programs);
    }

    /// Starts a server.
    fn begin(&mut self, ground: Ground) {
        self.ground = ground;
        self.found.clear();
        self.errnos.clear();
        self.loaded = self.report();
    }

    pub(crate) fn has_view(&self) -> bool {
        self.loaded["layers"].as_array().expect("a list").contains(&json!("mount view"))
    }

    /// The version of Landlock in use.
    pub(crate) fn abi(&self) -> u32 {
        let layers = self.loaded["layers"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let abi = layers.filter_map(|layer| layer.strip_prefix("landlock abi ")).next();
        abi.and_then(|abi| abi.parse().ok()).expect("a version")
    }

    /// The newest launcher's report.
    fn report(&self) -> Value {
        let last = self.home().entries(&["kind:tools.load"]);
        let seq = last.iter().filter_map(|entry| entry["seq"].as_u64()).max().expect("a number");
        self.home().entry(seq)["payload"].clone()
    }

    /// Why programs are refused on this ground.
    pub(crate) fn refuses_programs(&self) -> Option<&str> {
        let refused = self.loaded["refused"].as_array().expect("a list");
        refused.iter().find(|one| one["tool"] == "taken_static").and_then(|one| one["reason"].as_str())
    }

    pub(crate) fn home(&self) -> &TestHome {
        &self.house.home
    }

    /// A path below the workspace, as a call names it.
    pub(crate) fn work(&self, below: &str) -> String {
        self.home().path("workspace").join(below).display().to_string()
    }

    /// The step of one call.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.house.calls(&[(tool, arguments.to_string())]).remove(0)
    }

    /// The step of one call of a program with the argument `what`.
    pub(crate) fn taken(&self, tool: &str, what: &str) -> Value {
        self.call(tool, &json!({ "what": what }))
    }

    /// The worst outcome of the attempts in any tool that made one of them.
    pub(crate) fn found(&self, names: &[&str]) -> Outcome {
        if self.refuses_programs().is_some() {
            return Outcome::Refused;
        }
        let one = |name: &&str| self.found.get(*name).unwrap_or_else(|| panic!("no program made `{name}`"));
        names.iter().flat_map(|name| one(name).values()).min().copied().expect("a tool made it")
    }

    /// Every attempt that a program made.
    pub(crate) fn made(&self) -> impl Iterator<Item = &str> {
        self.found.keys().map(String::as_str)
    }

    /// Runs the program directly from the test, with nothing to hold it. Returns its standard
    /// output.
    pub(crate) fn unheld(&self, what: &str) -> String {
        let stranger = start(&self.programs.join("static")).arg("sleep").spawn();
        let mut stranger = stranger.expect("the program starts");
        let mut command = start(&self.programs.join("static"));
        command.args([what, &stranger.id().to_string()]).current_dir(self.home().path("workspace/box"));
        let output = command.output().expect("the program starts");
        stranger.kill().expect("killed");
        stranger.wait().expect("ended");
        text(&output.stdout)
    }

    /// Has the programs make their attempts, if programs can run; otherwise they are refused by
    /// name.
    pub(crate) fn make_all(&mut self) {
        if let Some(reason) = self.refuses_programs() {
            for tool in TOOLS {
                let step = self.taken(tool, "all");
                assert_eq!(step["status"], "refused", "{step}");
                assert!(step["result"].to_string().contains(reason), "{step}");
            }
            return;
        }
        let front = self.house.server.descendants();
        let front = [self.house.server.child.id()].into_iter().chain(front);
        let front = front.into_iter().find(|pid| threads(*pid) > 1).expect("a front");
        for tool in TOOLS {
            self.take(tool, "all", front);
        }
        self.take("taken_writer", "box", front);
        self.beside_a_sibling();
    }

    /// Another concurrent call under the same uid is a stranger too.
    fn beside_a_sibling(&mut self) {
        let calls = vec![("taken_sibling".to_owned(), json!({ "what": "sleep" }).to_string())];
        self.house.model.play([Reply::Calls(calls)]);
        let aside = self.house.server.run_aside(&self.house.key, "go");
        let program = self.programs.join("sibling");
        let mut sibling = None;
        until("the sibling runs", || {
            sibling = find(&program);
            sibling.is_some()
        });
        let sibling = sibling.expect("a sibling");
        self.take("taken_static", "outward", sibling);
        crate::support::signal(sibling, nix::sys::signal::Signal::SIGKILL);
        let answer = aside.join().expect("joined").expect("an answer");
        assert_eq!(answer.json()["steps"][0]["status"], "signal", "{}", answer.json());
    }

    /// Has a tool make attempts, and records their outcomes.
    fn take(&mut self, tool: &'static str, what: &str, stranger: u32) {
        let step = self.call(tool, &json!({ "what": what, "stranger": stranger }));
        assert_eq!(step["status"], "ok", "{step}");
        let told = step["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{step}"));
        println!("{tool} {what}:\n{told}");
        for line in told.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let outcome = match line["outcome"].as_str() {
                Some("held") => Outcome::Held,
                Some("SUCCEEDED") => Outcome::Succeeded,
                Some("not applicable") => Outcome::NotApplicable,
                _ => panic!("{line}"),
            };
            let name = line["attempt"].as_str().expect("a name").to_owned();
            let found = self.found.entry(name.clone()).or_default();
            let worst = found.entry(tool).or_insert(outcome);
            if outcome == Outcome::Succeeded {
                *worst = outcome;
            }
            let errno = line["stuck_errno"].as_i64().expect("a number");
            self.errnos.entry(name).or_default().push(errno);
        }
    }
}

impl Listeners {
    fn listen(home: &TestHome) -> Self {
        let own =
            home.root().parent().and_then(Path::file_name).expect("a name").to_string_lossy().into_owned();
        let hidden = format!("{own}-taken");
        let address = SocketAddr::from_abstract_name(&hidden).expect("an address");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind(tcp.local_addr().expect("address")).expect("a port");
        let listening = UnixListener::bind_addr(&address).expect("a socket");
        Self { tcp, _udp: udp, _hidden: listening, hidden }
    }
}

/// Creates files as targets, the folder that a tool may change, and a listener at a path.
fn plant(home: &TestHome, programs: &Path) -> UnixListener {
    let (outside, folder) = (home.beside("outside"), home.path("workspace/box"));
    let owner = std::fs::metadata(home.path("workspace")).expect("workspace");
    for made in [&outside, &folder] {
        std::fs::create_dir(made).expect("folder");
        std::fs::set_permissions(made, PermissionsExt::from_mode(0o777)).expect("mode");
    }
    std::fs::write(outside.join("secret"), SECRET).expect("file");
    for name in ["lure", "gone", "moved"] {
        std::fs::write(outside.join(name), name).expect("file");
        std::fs::set_permissions(outside.join(name), PermissionsExt::from_mode(0o666)).expect("mode");
    }
    for name in ["inside", "leaving"] {
        std::fs::write(folder.join(name), name).expect("file");
        chown(folder.join(name), Some(owner.uid()), Some(owner.gid())).expect("owner");
    }
    chown(&folder, Some(owner.uid()), Some(owner.gid())).expect("owner");
    std::fs::write(folder.join("script"), "#!/bin/sh\nexit 0\n").expect("script");
    std::fs::set_permissions(folder.join("script"), PermissionsExt::from_mode(0o755)).expect("mode");
    std::fs::write(folder.join("closed"), "closed").expect("file");
    std::fs::set_permissions(folder.join("closed"), PermissionsExt::from_mode(0o000)).expect("mode");
    symlink(outside.join("secret"), folder.join("out")).expect("link");
    symlink("../../../outside", folder.join("folder")).expect("link");

    std::fs::copy(programs.join("dynamic"), folder.join("program")).expect("copied");
    for name in ["sibling", "set_id", "capable", "replaced"] {
        std::fs::copy(programs.join("static"), programs.join(name)).expect("copied");
    }
    std::fs::copy(programs.join("static"), folder.join("lender")).expect("copied");
    lend(&folder.join("lender"), &programs.join("set_id"), &programs.join("capable"));
    let named = UnixListener::bind(outside.join("socket")).expect("a socket");
    std::fs::set_permissions(outside.join("socket"), PermissionsExt::from_mode(0o777)).expect("mode");
    named
}

/// Builds the programs next to the home, readable for all.
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says what must be there")]
fn build(home: &TestHome, listeners: &Listeners) -> Option<PathBuf> {
    let programs = home.beside("programs");
    std::fs::create_dir(&programs).expect("folder");
    for (name, source) in SOURCES {
        std::fs::write(programs.join(name), source).expect("source");
    }
    let port = listeners.tcp.local_addr().expect("address").port();
    let text_of = |path: PathBuf| format!("\"{}\"", path.display());
    let defined = [
        format!("-DOUTSIDE={}", text_of(home.beside("outside"))),
        format!("-DBOX={}", text_of(home.path("workspace/box"))),
        format!("-DETC={}", text_of(home.path("etc"))),
        format!("-DDATA={}", text_of(home.path("data"))),
        format!("-DHIDDEN=\"{}\"", listeners.hidden),
        format!("-DPORT={port}"),
    ];
    for (name, kind) in [("static", "-static"), ("dynamic", "-pie")] {
        let mut cc = start(Path::new("cc"));
        cc.current_dir(&programs).args(["-O1", "-w", kind, "-o", name]).args(&defined);
        cc.args(SOURCES.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".c"))).arg("-lpthread");
        match cc.output() {
            Ok(made) if made.status.success() => {}
            Ok(made) => panic!("{}", text(&made.stderr)),
            Err(e) if std::env::var_os("PAR_REQUIRE_CC").is_some() => panic!("no C compiler: {e}"),
            Err(e) => {
                eprintln!("\nSKIPPED: there is NO C compiler: no attempt was made: {e}\n");
                return None;
            }
        }
    }
    Some(programs)
}

/// Programs whose files lend rights, as far as this user can create them.
fn lend(lender: &Path, set_id: &Path, capable: &Path) {
    for lends in [lender, set_id] {
        std::fs::set_permissions(lends, PermissionsExt::from_mode(0o6755)).expect("mode");
    }
    // VFS_CAP_REVISION_2 and effective; CAP_DAC_OVERRIDE in the permitted set.
    let mut all = vec![1, 0, 0, 2, 2];
    all.resize(20, 0);
    let flags = rustix::fs::XattrFlags::empty();
    let lent = rustix::fs::setxattr(capable, c"security.capability", &all, flags);
    assert!(lent.is_ok() || !crate::support::is_root(), "{lent:?}");
}

fn declare(home: &TestHome, programs: &Path) {
    let tool = |name: &str, program: &str, runtime: &str, sandbox: &str, limits: &str| {
        // In a class whose calls run concurrently, if possible.
        let class = if sandbox.contains("write") { "exec" } else { "read" };
        let manifest = format!(
            "name = \"{name}\"\nsummary = \"t\"\nclass = \"{class}\"\nrisk = \"high\"\n\
             command = [\"{}\", \"{{what}}\", \"{{stranger}}\", \"{{word}}\"]\nruntime = \"{runtime}\"\n\
             untrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n[sandbox]\n{sandbox}\n\
             [limits]\nmemory_bytes_max = 67108864\nprocesses_max = 16\n{limits}\n[input]\ntype = \"object\"\n\
             additionalProperties = false\nrequired = [\"what\"]\n[input.properties.what]\ntype = \"string\"\n\
             maxLength = 20000\n[input.properties.stranger]\ntype = \"integer\"\n[input.properties.word]\n\
             type = \"string\"\n",
            programs.join(program).display()
        );
        home.add(&format!("tools.d/{name}.toml"), &manifest);
        let permit = format!(
            "@id(\"{name}\") permit (principal in PAR::Role::\"operator\", action == PAR::Action::\"{name}\", resource);\n"
        );
        home.add(&format!("policies/60-{name}.cedar"), &permit);
    };
    let long = "wall_ms_max = 60000\noutput_bytes_max = 65536";
    let write = "write = [\"@workspace/box\"]";
    let bounds = "file_bytes_max = 65536\nwritten_bytes_max = 4194304\nwritten_files_max = 1000";
    tool("taken_static", "static", "static", "", long);
    tool("taken_dynamic", "dynamic", "dynamic", "", long);
    tool("taken_writer", "dynamic", "dynamic", write, &format!("{long}\n{bounds}"));
    home.add("tools.d/tail.toml", include_str!("../tools/tail.toml"));
    home.add("policies/60-tail.cedar", include_str!("../tools/tail.cedar"));
    // For programs that never end by themselves.
    tool("taken_brief", "static", "static", "", "wall_ms_max = 250\noutput_bytes_max = 4096");
    for name in ["sibling", "replaced", "set_id"] {
        tool(&format!("taken_{name}"), name, "static", "", long);
    }
    tool("taken_capable", "capable", "static", "read = [\"@workspace/box\"]", long);
}

/// Only the front has a runtime with threads; launcher and first stage have one thread each.
fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// The process of the host that runs `program`.
pub(crate) fn find(program: &Path) -> Option<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let found = all.into_iter().find(|one| {
        let words = std::fs::read(one.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).next() == Some(program.as_os_str().as_bytes())
    });
    found?.file_name().to_str()?.parse().ok()
}
