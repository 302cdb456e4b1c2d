//! Look-ups, with a name server and a table of hosts of the test's own. These need a mount
//! namespace, so they run as root alone.

use super::{call, entry};
use crate::support::{TestHome, is_root, text};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As `call`, where `hosts` and `resolv` take the place of the host's files.
fn call_with(home: &TestHome, hosts: &str, resolv: &str, tool: &str, arguments: &Value) -> Value {
    let (hosts_at, resolv_at) = (home.beside("hosts"), home.beside("resolv.conf"));
    std::fs::write(&hosts_at, hosts).expect("written");
    std::fs::write(&resolv_at, resolv).expect("written");
    let script = format!(
        "mount --bind {} /etc/hosts && mount --bind {} \"$(readlink -f /etc/resolv.conf)\" && exec \"$@\"",
        hosts_at.display(),
        resolv_at.display()
    );
    let words = ["unshare", "--mount", "/bin/sh", "-c", &script, "sh"].map(OsStr::new);
    let arguments = arguments.to_string();
    let mut command = home.command_by(&words, &["--json", "tool", "call", tool, &arguments]);
    let output = command.output().expect("started");
    let reply: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {} {}", text(&output.stdout), text(&output.stderr)));
    reply["steps"][0].clone()
}

/// A server for names at 127.0.0.77 that answers each question about an IPv4 address with the next
/// of `answers`, and then always with the last. Returns how often it was asked.
fn name_server(answers: Vec<Ipv4Addr>) -> Arc<AtomicUsize> {
    let socket = UdpSocket::bind("127.0.0.77:53").expect("the port of DNS");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            let question = &packet[..length];
            let name_end = 12 + question[12..].iter().position(|byte| *byte == 0).expect("a name") + 5;
            let is_a = question[name_end - 3] == 1;
            let mut answer = question[..name_end].to_vec();
            // A response, recursion available, one question, no other records.
            answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            if is_a {
                let at = counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
                // A pointer to the name, type A, class IN, no time to live, four bytes.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                answer.extend(answers[at].octets());
            }
            socket.send_to(&answer, from).ok();
        }
    });
    asked
}

const OWN_HOSTS: &str = "127.0.0.1 localhost\n169.254.169.254 meta.example.com\n10.1.2.3 inner.example.com\n\
                         127.0.0.1 mixed.example.com\n169.254.169.254 mixed.example.com\n";

/// A name that leads to link-local, or to an address that the operator did not name, is refused;
/// an answer that is only in part forbidden is refused whole.
#[test]
fn a_name_is_looked_up_and_its_addresses_are_checked() {
    let home = TestHome::init();
    let step = call(&home, "dns_lookup", &json!({ "name": "localhost" }));
    assert_eq!((&step["status"], &step["result"]["outcome"]), (&json!("ok"), &json!("found")), "{step}");
    assert!(step["result"].to_string().contains("127.0.0.1"), "{step}");
    let result = entry(&home, &step);
    assert_eq!(result["header"]["taint"], json!([]), "an address is not a stranger's words: {result}");
    let decision = home.entry(step["ledger"]["decision"].as_u64().expect("a number"));
    assert_eq!(decision["payload"]["request"]["resource"]["id"], "localhost:53", "{decision}");
    assert_eq!(decision["payload"]["connect"], json!(["localhost:53"]), "{decision}");
    for name in ["localhost:53", "LOCALHOST", "127.0.0.1", "a b"] {
        let step = call(&home, "dns_lookup", &json!({ "name": name }));
        assert_eq!(step["decision"], "invalid", "{step}");
    }
    if !is_root() {
        eprintln!("SKIPPED: a table of hosts of its own needs root");
        return;
    }
    for (name, why) in [
        ("meta.example.com", "169.254.169.254 is link-local"),
        ("inner.example.com", "10.1.2.3 is private"),
        ("mixed.example.com", "169.254.169.254 is link-local"),
    ] {
        let step = call_with(&home, OWN_HOSTS, "", "dns_lookup", &json!({ "name": name }));
        let error = step["result"]["error"].as_str().unwrap_or_default();
        assert!(step["status"] == "refused" && error.contains(why), "{name}: {step}");
        assert!(step["result"].get("ipv4").is_none(), "{step}");
    }
    let manifest = std::fs::read_to_string(home.path("etc/tools.d/dns_lookup.toml")).expect("a manifest");
    home.add("tools.d/dns_lookup.toml", &manifest.replace("\"::1/128\"", "\"::1/128\", \"10.1.0.0/16\""));
    let step = call_with(&home, OWN_HOSTS, "", "dns_lookup", &json!({ "name": "inner.example.com" }));
    assert_eq!(step["result"]["ipv4"], json!(["10.1.2.3"]), "{step}");
    let quick = "nameserver 127.0.0.78\noptions timeout:1 attempts:1\n";
    let step = call_with(&home, OWN_HOSTS, quick, "dns_lookup", &json!({ "name": "absent.example.com" }));
    assert_eq!(step["result"]["outcome"], "no_address", "{step}");
}

/// A name server that answers the check with one address and a later question with another: there
/// is no later question, and the connection goes to the address that was checked.
#[test]
fn an_answer_that_changes_after_the_check_changes_nothing() {
    if !is_root() {
        eprintln!("SKIPPED: a name server of its own needs root");
        return;
    }
    let home = TestHome::init();
    home.drop_cases();
    home.add(
        "policies/60-any.cedar",
        "@id(\"any\")\npermit (principal, action in PAR::Action::\"net\", resource);\n",
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = name_server(vec![[127, 0, 0, 1].into(), [169, 254, 169, 254].into()]);
    let resolv = "nameserver 127.0.0.77\noptions timeout:2 attempts:1\n";
    let host = json!({ "host": format!("rebind.example.com:{port}") });
    let step = call_with(&home, "", resolv, "tcp_probe", &host);
    assert_eq!(step["result"]["outcome"], "open", "{step}");
    assert_eq!(step["result"]["tried"][0]["address"], "127.0.0.1", "{step}");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it was looked up once");
    assert_eq!(listener.accept().expect("a connection").1.ip(), Ipv4Addr::LOCALHOST);
    // From now on the answer is forbidden, and no attempt is made.
    let before = home.entries(&["kind:call.connect"]).len();
    for (tool, arguments) in [
        ("tcp_probe", host),
        ("tls_certificate", json!({ "host": format!("rebind.example.com:{port}") })),
        ("http_probe", json!({ "url": format!("http://rebind.example.com:{port}/") })),
    ] {
        let step = call_with(&home, "", resolv, tool, &arguments);
        let error = step["result"]["error"].as_str().unwrap_or_default();
        assert!(step["status"] == "refused" && error.contains("link-local"), "{tool}: {step}");
    }
    assert_eq!(home.entries(&["kind:call.connect"]).len(), before);
}
