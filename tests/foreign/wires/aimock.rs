//! npm `@copilotkit/aimock`, a server of all five wires.

use crate::par::Home;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Aimock {
    child: Child,
    address: String,
}

impl Aimock {
    fn start() -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = folder.join("node_modules/@copilotkit/aimock/dist/cli.js");
        if !script.is_file() {
            assert!(std::env::var_os("PAR_REQUIRE_AIMOCK").is_none(), "run `npm ci` first");
            eprintln!("\nSKIPPED: NO aimock: `npm ci --prefix tests/foreign/wires` installs it\n");
            return None;
        }
        // Free for now; nothing else here takes ports meanwhile.
        let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let mut node = Command::new("node");
        node.arg(script).arg("-f").arg(folder.join("aimock.json"));
        node.args([
            "--strict",
            "--chunk-size",
            "3",
            "--log-level",
            "warn",
            "-p",
            &address.port().to_string(),
        ]);
        let child = node.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("node starts");
        let (server, since) = (Self { child, address: address.to_string() }, Instant::now());
        while TcpStream::connect(&server.address).is_err() {
            assert!(since.elapsed() < Duration::from_secs(30), "aimock does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn a_server_of_another_author_is_understood_on_every_wire() {
    let Some(server) = Aimock::start() else { return };
    for (wire, below) in [
        ("openai", "/v1"),
        ("openai_responses", "/v1"),
        ("anthropic", "/v1"),
        ("gemini", "/v1beta"),
        ("ollama", ""),
    ] {
        Home::new(wire, &format!("http://{}{below}", server.address)).check(wire);
    }
}
