//! The shipped `service_restart` on a real `dbus-daemon`, with a service manager simulated by the
//! test.

use crate::support::{TestHome, start, text, until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PLACE: &str = "/org/freedesktop/systemd1";

/// A bus for this test, which ends with it.
struct Bus {
    daemon: Child,
    socket: PathBuf,
}

impl Drop for Bus {
    fn drop(&mut self) {
        // Already ended is fine.
        let _ended = self.daemon.kill();
        let _reaped = self.daemon.wait();
    }
}

impl Bus {
    /// `None` with a message if there is no `dbus-daemon` or no Perl.
    fn start(home: &TestHome) -> Option<Self> {
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
            Ok(daemon) if Path::new("/usr/bin/perl").is_file() => daemon,
            Ok(_) | Err(_) => {
                eprintln!("\nSKIPPED: there is NO dbus-daemon or NO perl: no service was restarted\n");
                return None;
            }
        };
        // It prints its address once it listens.
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().expect("piped")).read_line(&mut address).expect("an address");
        assert!(address.starts_with("unix:path="), "{address}");
        Some(Self { daemon, socket })
    }

    /// Simulates systemd's manager for one restart of `unit`, whose job ends as `result`.
    fn manager(&self, unit: &'static str, result: &'static str) -> JoinHandle<()> {
        let mut peer = Peer::open(&self.socket);
        peer.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "RequestName", "su", &name_and_flags());
        std::thread::spawn(move || {
            loop {
                let asked = peer.read();
                match asked.member.as_str() {
                    "Subscribe" => peer.answer(&asked, "", &[]),
                    "RestartUnit" => {
                        assert_eq!(texts(&asked.body), [unit, "replace"]);
                        peer.answer(&asked, "o", &put(&[&format!("{PLACE}/job/7")]));
                        // Another client's job first.
                        for (job, how) in [(6, "failed"), (7, result)] {
                            let mut body = 1_u32.to_le_bytes().to_vec();
                            body.extend(put(&[&format!("{PLACE}/job/{job}"), unit, how]));
                            peer.signal("JobRemoved", "uoss", &body);
                        }
                        return;
                    }
                    _ => {}
                }
            }
        })
    }
}

fn name_and_flags() -> Vec<u8> {
    let mut body = put(&["org.freedesktop.systemd1"]);
    align(&mut body, 4);
    body.extend(4_u32.to_le_bytes());
    body
}

/// A D-Bus peer, as far as this test needs one.
struct Peer {
    stream: UnixStream,
    serial: u32,
}

struct Message {
    kind: u8,
    serial: u32,
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
        while self.read().kind != 2 {}
    }

    fn answer(&mut self, asked: &Message, signature: &str, body: &[u8]) {
        self.send(2, &[(6, 's', &asked.sender), (8, 'g', signature)], Some(asked.serial), body);
    }

    fn signal(&mut self, member: &str, signature: &str, body: &[u8]) {
        let fields = [(1, 'o', PLACE), (2, 's', MANAGER), (3, 's', member), (8, 'g', signature)];
        self.send(4, &fields, None, body);
    }

    fn read(&mut self) -> Message {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).expect("read");
        let (length, room) = (number(&head, 4), number(&head, 12));
        let mut fields = vec![0; room.next_multiple_of(8)];
        let mut body = vec![0; length];
        self.stream.read_exact(&mut fields).expect("read");
        self.stream.read_exact(&mut body).expect("read");
        let (mut at, mut member, mut sender) = (0_usize, String::new(), String::new());
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
                        3 => member = value,
                        7 => sender = value,
                        _ => {}
                    }
                    at += 5 + length;
                }
            }
        }
        let serial = u32::try_from(number(&head, 8)).expect("a number");
        Message { kind: head[1], serial, member, sender, body }
    }
}

/// A home in which the shipped tool and the shipped rule are enabled, for this bus.
fn home() -> Option<(TestHome, Bus)> {
    let home = TestHome::init();
    let bus = Bus::start(&home)?;
    let etc = |name: &str| home.path("etc").join(name);
    let off = std::fs::read_to_string(etc("tools.d/service_restart.toml.disabled")).expect("shipped");
    let on = off.replace("/run/dbus/system_bus_socket", bus.socket.to_str().expect("UTF-8"));
    home.add("tools.d/service_restart.toml", &on);
    // The shipped rule, with a higher hourly limit.
    let rule = std::fs::read_to_string(etc("policies/30-service.cedar.disabled")).expect("shipped");
    assert!(rule.contains("calls_hour >= 3"), "{rule}");
    home.add("policies/30-service.cedar", &rule.replace("calls_hour >= 3", "calls_hour >= 9"));
    Some((home, bus))
}

#[test]
fn the_shipped_tool_restarts_a_service_on_a_real_bus() {
    let Some((home, bus)) = home() else { return };
    let restart = |service: &str| {
        let arguments = json!({ "service": service }).to_string();
        let output = home.par(&["--json", "tool", "call", "service_restart", &arguments]);
        let reply: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {} {}", text(&output.stdout), text(&output.stderr)));
        reply["steps"][0].clone()
    };
    // The bus answers, but no manager is connected.
    let step = restart("nginx.service");
    let result = home.entry(step["ledger"]["result"].as_u64().expect("a number"));
    let told = result["payload"].to_string();
    assert!(
        step["status"] == "error" && told.contains("org.freedesktop.DBus.Error.ServiceUnknown"),
        "{told}"
    );
    assert_eq!(result["payload"]["given"], json!({ "connect": [format!("unix:{}", bus.socket.display())] }));

    for (result, status) in [("done", "ok"), ("failed", "error")] {
        let manager = bus.manager("nginx.service", result);
        let step = restart("nginx.service");
        manager.join().expect("asked");
        let expect = json!({ "service": "nginx.service", "result": result });
        assert_eq!((&step["status"], &step["result"]), (&json!(status), &expect), "{step}");
    }
    // A service that the rules do not name is not restarted.
    assert_eq!(restart("ssh.service")["decision"], "deny");
    let socket = bus.socket.clone();
    drop(bus);
    until("the bus is gone", || UnixStream::connect(&socket).is_err());
    let step = restart("nginx.service");
    assert!(
        step["status"] != "ok" && step.to_string().contains(&format!("`unix:{}`: ", socket.display())),
        "{step}"
    );
    let shown: Value =
        serde_json::from_str(&home.expect(0, &["--json", "tool", "show", "service_restart"])).expect("JSON");
    assert_eq!(shown["connect"], json!([format!("unix:{}", socket.display())]));
    home.expect(0, &["audit", "verify"]);
}
