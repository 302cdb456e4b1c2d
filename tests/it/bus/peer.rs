//! A `dbus-daemon` of a test, and a service manager simulated on it.

use crate::support::{TestHome, start, text};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PLACE: &str = "/org/freedesktop/systemd1";

/// A bus for this test, which ends with it.
pub(crate) struct Bus {
    daemon: Child,
    pub(crate) socket: PathBuf,
}

/// A unit as the simulated manager shows it.
#[derive(Clone, Debug)]
pub(crate) struct FakeUnit {
    pub(crate) name: &'static str,
    /// Other names of it.
    pub(crate) aliases: &'static [&'static str],
    /// Load state, active state, and state in the words of its type.
    pub(crate) states: [&'static str; 3],
    /// Further properties of any interface.
    pub(crate) properties: Vec<(&'static str, FakeValue)>,
}

/// A value of a property, by its type in the wire form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FakeValue {
    Text(&'static str),
    Flag(bool),
    Number(u32),
    Signed(i32),
    Long(u64),
}

impl FakeValue {
    /// The value as a variant.
    fn variant(self) -> Vec<u8> {
        let kind = match self {
            Self::Text(_) => b's',
            Self::Flag(_) => b'b',
            Self::Number(_) => b'u',
            Self::Signed(_) => b'i',
            Self::Long(_) => b't',
        };
        let mut out = vec![1, kind, 0, 0];
        match self {
            Self::Text(words) => out.extend(put(&[words])),
            Self::Flag(flag) => out.extend(u32::from(flag).to_le_bytes()),
            Self::Number(number) => out.extend(number.to_le_bytes()),
            Self::Signed(number) => out.extend(number.to_le_bytes()),
            Self::Long(number) => {
                align(&mut out, 8);
                out.extend(number.to_le_bytes());
            }
        }
        out
    }
}

impl FakeUnit {
    pub(crate) fn new(name: &'static str, states: [&'static str; 3]) -> Self {
        Self { name, aliases: &[], states, properties: Vec::new() }
    }

    fn property(&self, name: &str) -> Option<FakeValue> {
        match name {
            "Id" => Some(FakeValue::Text(self.name)),
            "LoadState" => Some(FakeValue::Text(self.states[0])),
            "ActiveState" => Some(FakeValue::Text(self.states[1])),
            "SubState" => Some(FakeValue::Text(self.states[2])),
            _ => self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| *value),
        }
    }

    /// The unit at an object path, by any of its names.
    fn is_at(&self, path: &str) -> bool {
        self.aliases.iter().chain([&self.name]).any(|name| unit_path(name) == path)
    }
}

/// The object path of a unit (sd_bus_path_encode(3)).
fn unit_path(unit: &str) -> String {
    let encode = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("_{byte:02x}"),
    };
    format!("{PLACE}/unit/{}", unit.bytes().map(encode).collect::<String>())
}

impl Drop for Bus {
    fn drop(&mut self) {
        // Already ended is fine.
        let _ended = self.daemon.kill();
        let _reaped = self.daemon.wait();
    }
}

impl Bus {
    /// `None` with a message if there is no `dbus-daemon`.
    pub(crate) fn start(home: &TestHome) -> Option<Self> {
        let socket = home.beside("bus").canonicalize().unwrap_or(home.beside("bus"));
        let config = home.beside("bus.conf");
        let words = format!(
            "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\"\n\
             \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n<busconfig><type>system</type>\n\
             <listen>unix:path={}</listen><auth>EXTERNAL</auth>\n<policy context=\"default\"><allow user=\"*\"/>\n\
             <allow own=\"*\"/><allow send_destination=\"*\"/><allow receive_sender=\"*\"/></policy></busconfig>\n",
            socket.display()
        );
        std::fs::write(&config, words).expect("configuration");
        let mut daemon = start(Path::new("dbus-daemon"));
        daemon.arg(format!("--config-file={}", config.display())).args(["--nofork", "--print-address"]);
        let spawned = daemon.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut daemon = match spawned {
            Ok(daemon) => daemon,
            Err(_) => {
                eprintln!("\nSKIPPED: there is NO dbus-daemon: systemd was not asked\n");
                return None;
            }
        };
        // It prints its address once it listens.
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().expect("piped")).read_line(&mut address).expect("an address");
        assert!(address.starts_with("unix:path="), "{address}");
        Some(Self { daemon, socket })
    }

    /// Simulates systemd's manager until the bus ends. Its restarts end as `results` say, the first
    /// first.
    pub(crate) fn manager(&self, units: Vec<FakeUnit>, results: &[&'static str]) {
        let mut peer = Peer::open(&self.socket);
        peer.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "RequestName", "su", &name_and_flags());
        let mut results = results.to_vec().into_iter();
        std::thread::spawn(move || {
            while let Some(asked) = peer.read() {
                match asked.member.as_str() {
                    "Subscribe" => peer.answer(&asked, "", &[]),
                    "RestartUnit" => {
                        let words = texts(&asked.body);
                        assert_eq!(words[1], "replace");
                        peer.answer(&asked, "o", &put(&[&format!("{PLACE}/job/7")]));
                        // Another client's job first.
                        for (job, how) in [(6, "failed"), (7, results.next().unwrap_or("done"))] {
                            let mut body = 1_u32.to_le_bytes().to_vec();
                            body.extend(put(&[&format!("{PLACE}/job/{job}"), &words[0], how]));
                            peer.signal("JobRemoved", "uoss", &body);
                        }
                    }
                    "Get" => peer.property(&asked, &units),
                    "ListUnitsByPatterns" => peer.list(&asked, &units),
                    _ => {}
                }
            }
        });
    }
}

fn name_and_flags() -> Vec<u8> {
    let mut body = put(&["org.freedesktop.systemd1"]);
    align(&mut body, 4);
    body.extend(4_u32.to_le_bytes());
    body
}

/// A D-Bus peer, as far as these tests need one.
struct Peer {
    stream: UnixStream,
    serial: u32,
}

struct Message {
    kind: u8,
    serial: u32,
    path: String,
    member: String,
    sender: String,
    body: Vec<u8>,
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

fn put(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        align(&mut out, 4);
        out.extend(u32::try_from(text.len()).expect("short").to_le_bytes());
        out.extend(text.bytes().chain([0]));
    }
    out
}

fn number(bytes: &[u8], at: usize) -> usize {
    let four = bytes[at..at + 4].try_into().expect("four");
    usize::try_from(u32::from_le_bytes(four)).expect("a number")
}

fn texts(body: &[u8]) -> Vec<String> {
    let (mut at, mut out) = (0_usize, Vec::new());
    while at < body.len() {
        at = at.next_multiple_of(4);
        let length = number(body, at);
        out.push(text(&body[at + 4..at + 4 + length]));
        at += 5 + length;
    }
    out
}

/// An array of texts at the start of `body`, which moves behind it.
fn list_of_texts(body: &mut &[u8]) -> Vec<String> {
    let length = number(body, 0);
    let found = texts(&body[4..4 + length]);
    *body = &body[(4 + length).next_multiple_of(4).min(body.len())..];
    found
}

impl Peer {
    fn open(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).expect("connected");
        stream.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n").expect("written");
        let mut told = Vec::new();
        while told.iter().filter(|byte| **byte == b'\n').count() < 2 {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("read");
            told.extend(byte);
        }
        assert!(text(&told).starts_with("DATA\r\nOK "), "{}", text(&told));
        let mut peer = Self { stream, serial: 0 };
        peer.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "Hello", "", &[]);
        peer
    }

    fn send(&mut self, kind: u8, fields: &[(u8, char, &str)], answers: Option<u32>, body: &[u8]) {
        let mut array = Vec::new();
        if let Some(serial) = answers {
            array.extend([5, 1, b'u', 0]);
            array.extend(serial.to_le_bytes());
        }
        for (code, kind, value) in fields.iter().filter(|(_, _, value)| !value.is_empty()) {
            align(&mut array, 8);
            array.extend([*code, 1, u8::try_from(*kind).expect("ASCII"), 0]);
            match kind {
                'g' => {
                    array.push(u8::try_from(value.len()).expect("short"));
                    array.extend(value.bytes().chain([0]));
                }
                _ => array.extend(put(&[value])),
            }
        }
        self.serial += 1;
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("short").to_le_bytes();
        let mut out = vec![b'l', kind, 0, 1];
        out.extend([length(body), self.serial.to_le_bytes(), length(&array)].concat());
        out.extend(array);
        align(&mut out, 8);
        out.extend(body);
        self.stream.write_all(&out).expect("written");
    }

    fn call(&mut self, to: &str, path: &str, member: &str, signature: &str, body: &[u8]) {
        let fields = [(1, 'o', path), (3, 's', member), (6, 's', to), (2, 's', to), (8, 'g', signature)];
        self.send(1, &fields, None, body);
        while self.read().expect("a reply").kind != 2 {}
    }

    fn answer(&mut self, asked: &Message, signature: &str, body: &[u8]) {
        self.send(2, &[(6, 's', &asked.sender), (8, 'g', signature)], Some(asked.serial), body);
    }

    fn signal(&mut self, member: &str, signature: &str, body: &[u8]) {
        let fields = [(1, 'o', PLACE), (2, 's', MANAGER), (3, 's', member), (8, 'g', signature)];
        self.send(4, &fields, None, body);
    }

    /// An error for a call that this peer does not answer.
    fn refuse(&mut self, asked: &Message, name: &str) {
        self.send(3, &[(4, 's', name), (6, 's', &asked.sender)], Some(asked.serial), &[]);
    }

    fn property(&mut self, asked: &Message, units: &[FakeUnit]) {
        let wanted = &texts(&asked.body)[1];
        let found = units.iter().find(|unit| unit.is_at(&asked.path));
        match found.and_then(|unit| unit.property(wanted)) {
            Some(value) => self.answer(asked, "v", &value.variant()),
            None => self.refuse(asked, "org.freedesktop.DBus.Error.UnknownProperty"),
        }
    }

    /// The units in the wanted states with the wanted type.
    fn list(&mut self, asked: &Message, units: &[FakeUnit]) {
        let mut body = asked.body.as_slice();
        let states = list_of_texts(&mut body);
        let kinds: Vec<String> = list_of_texts(&mut body)
            .iter()
            .map(|pattern| pattern.trim_start_matches('*').to_owned())
            .collect();
        let mut rows = Vec::new();
        for unit in units {
            let [load, active, sub] = unit.states;
            let is_wanted = states.is_empty() || states.iter().any(|state| state == active);
            if is_wanted && (kinds.is_empty() || kinds.iter().any(|kind| unit.name.ends_with(kind))) {
                align(&mut rows, 8);
                let path = unit_path(unit.name);
                rows.extend(put(&[unit.name, "its DESCRIPTION-S3CRET", load, active, sub, "", &path]));
                align(&mut rows, 4);
                rows.extend(0_u32.to_le_bytes());
                rows.extend(put(&["", "/"]));
            }
        }
        let length = u32::try_from(rows.len()).expect("short").to_le_bytes().to_vec();
        self.answer(asked, "a(ssssssouso)", &[length, vec![0; 4], rows].concat());
    }

    /// The next message; `None` once the bus has ended.
    fn read(&mut self) -> Option<Message> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).ok()?;
        let (length, room) = (number(&head, 4), number(&head, 12));
        let mut fields = vec![0; room.next_multiple_of(8)];
        let mut body = vec![0; length];
        self.stream.read_exact(&mut fields).expect("read");
        self.stream.read_exact(&mut body).expect("read");
        let (mut at, mut path, mut member, mut sender) =
            (0_usize, String::new(), String::new(), String::new());
        while at < room {
            at = at.next_multiple_of(8);
            let (code, kind) = (fields[at], fields[at + 2]);
            at += 4;
            match kind {
                b'u' => at += 4,
                b'g' => at += 2 + usize::from(fields[at]),
                _ => {
                    let length = number(&fields, at);
                    let value = text(&fields[at + 4..at + 4 + length]);
                    match code {
                        1 => path = value,
                        3 => member = value,
                        7 => sender = value,
                        _ => {}
                    }
                    at += 5 + length;
                }
            }
        }
        let serial = u32::try_from(number(&head, 8)).expect("a number");
        Some(Message { kind: head[1], serial, path, member, sender, body })
    }
}
