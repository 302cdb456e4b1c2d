//! When the first byte of a request to a model arrives, the decision on it is in the file of the
//! ledger (L3): the model's server looks there.

use super::http;
use crate::support::TestHome;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

const WIRES: [&str; 5] = ["openai", "openai_responses", "anthropic", "gemini", "ollama"];

/// Takes a request for each wire, and refuses its key, so that the next model is asked. Returns the
/// decisions that were in the file when the first byte of each came, before it reads any further.
fn looks(home: &TestHome, listener: &TcpListener) -> Vec<Vec<Value>> {
    let one = |stream: std::net::TcpStream| {
        let mut reader = BufReader::new(stream);
        reader.read_exact(&mut [0]).expect("a first byte");
        let asks = home.entries(&["kind:model.ask", "decision:allow"]);
        let name = |ask: &Value| home.entry(ask["seq"].as_u64().expect("number"))["payload"]["name"].clone();
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).expect("a line") == 0 || line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("length");
            }
        }
        reader.read_exact(&mut vec![0; length]).expect("a body");
        let _sent = reader.get_mut().write_all(http(401, "", "{}").as_bytes());
        asks.iter().map(name).collect()
    };
    listener.incoming().take(WIRES.len()).map(|stream| one(stream.expect("a connection"))).collect()
}

#[test]
fn the_decision_is_in_the_ledger_before_the_first_byte_of_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    let home = TestHome::init();
    let table = |wire: &&str| {
        format!("[models.{wire}]\nwire = \"{wire}\"\nmodel = \"m\"\nkey = \"none\"\nbase_url = \"{url}\"\n")
    };
    let tables: String = WIRES.iter().map(table).collect();
    let logs = "[paths]\nlogs = \"/var/log\"\n";
    home.configure(&format!("[llm]\nuse = {}\n{tables}{logs}", json!(WIRES)));
    let key = home.key("ops", "operator");
    let server = home.serve();
    let (seen, reply) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| looks(&home, &listener));
        let reply = server.run(&key, "hello").json();
        (looking.join().expect("requests"), reply)
    });
    assert_eq!(reply["status"], "failed", "{reply}");
    for (at, asks) in seen.iter().enumerate() {
        assert_eq!(*asks, WIRES[..=at].iter().map(|wire| json!(wire)).collect::<Vec<_>>(), "{seen:?}");
    }
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}
