//! Tools with network connections: a program that clones a repository through the proxy, and
//! reaches nothing else.

use crate::support::{TestHome, start, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const GIT: &str = "/usr/bin/git";
const GIT_CORE: &str = "/usr/lib/git-core";
const GIT_CLONE: &str = include_str!("../../tools.d/git_clone.toml.disabled");
const HTTP_GET: &str = include_str!("../../tools.d/http_get.toml.disabled");
const HOSTILE: &str = include_str!("network/hostile.c");
const LOOPBACK: &[&str] = &["127.0.0.0/8", "::1/128"];
/// The resource is the host of a URL.
const BY_URL: &str = "type = \"Host\"\nfrom = \"/url\"\ncanonical = \"url\"";
/// The resource is this host: the manifest says what is reached.
const BY_HOST: &str = "type = \"Host\"\nis = \"localhost\"";

/// A server for the files below a folder, over TLS, as `localhost`.
struct Files {
    port: u16,
    /// Connections that arrived.
    met: Arc<AtomicUsize>,
}

impl Files {
    /// Writes its certificate to `pem`.
    fn start(folder: PathBuf, pem: &Path) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let body = STANDARD.encode(made.cert.der());
        let text = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        std::fs::write(pem, text).expect("written");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (port, config) = (listener.local_addr().expect("address").port(), Arc::new(config));
        let met = Arc::new(AtomicUsize::new(0));
        let counted = met.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                let (config, folder) = (config.clone(), folder.clone());
                std::thread::spawn(move || serve(stream, config, &folder));
            }
        });
        Self { port, met }
    }

    fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    fn met(&self) -> usize {
        self.met.load(Ordering::SeqCst)
    }
}

/// Answers requests on one connection until it ends: each with a file, or 404.
fn serve(stream: TcpStream, config: Arc<ServerConfig>, folder: &Path) {
    let session = ServerConnection::new(config).expect("a session");
    let mut stream = StreamOwned::new(session, stream);
    let mut head = Vec::new();
    let mut byte = [0_u8; 1];
    // A client that disconnects ends this, which is expected.
    while let Ok(1) = stream.read(&mut byte) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let words = text(&head);
        head.clear();
        let path = words.split_whitespace().nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default().trim_start_matches('/');
        let found = if path == "moved" {
            Err("302 Found\r\nLocation: https://localhost:1/elsewhere")
        } else {
            std::fs::read(folder.join(path)).map_err(|_| "404 Not Found")
        };
        let (status, body) = match found {
            Ok(body) => ("200 OK", body),
            Err(status) => (status, Vec::new()),
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&body)).is_err() {
            return;
        }
    }
}

/// A home with a tool that clones from `hosts`, and a repository on a server.
struct Forge {
    home: TestHome,
    files: Files,
}

impl Forge {
    /// `None` with a message if git is missing.
    fn start() -> Option<Self> {
        let (git, https) = (Path::new(GIT), Path::new(GIT_CORE).join("git-remote-https"));
        if !git.is_file() || !https.is_file() {
            eprintln!("SKIPPED: `{GIT}` with `git-remote-https` is not there");
            return None;
        }
        let home = TestHome::init();
        home.drop_cases();
        let served = home.beside("served");
        let files = Files::start(served.clone(), &home.beside("ca.pem"));
        make_repository(&home.beside("source"), &served);
        let owner = std::fs::metadata(home.path("workspace")).expect("workspace");
        let folder = home.path("workspace/clones");
        std::fs::create_dir(&folder).expect("folder");
        chown(&folder, Some(owner.uid()), Some(owner.gid())).expect("owner");
        Some(Self { home, files })
    }

    /// Declares the shipped `git_clone`, which may connect to `connect`. The server only serves
    /// files, so no part of a history can be requested.
    fn declare(&self, resource: &str, connect: &str, addresses: &[&str]) {
        let ca = self.home.beside("ca.pem").display().to_string();
        let connect = format!("connect = [\"{connect}\"]\naddresses = {addresses:?}");
        let mut manifest = GIT_CLONE.to_owned();
        for (from, to) in [
            ("\"clone\", ", format!("\"-c\", \"http.sslCAInfo={ca}\", \"clone\", ")),
            ("\"--depth\", \"1\", ", String::new()),
            ("type = \"Host\"\nfrom = \"/url\"\ncanonical = \"url\"", resource.to_owned()),
            ("\"/etc/ssl/certs\"", format!("\"{ca}\"")),
            ("connect = [\"git.example.com:443\"]", connect),
        ] {
            assert!(manifest.contains(from), "{from}");
            manifest = manifest.replace(from, &to);
        }
        self.home.add("tools.d/git_clone.toml", &manifest);
        self.home.add(
            "policies/60-clone.cedar",
            "@id(\"clone\")\npermit (principal, action == PAR::Action::\"git_clone\", resource);",
        );
    }

    fn clone(&self, host: &str, name: &str) -> Value {
        let arguments = json!({ "url": format!("https://{host}/project.git"), "name": name });
        call(&self.home, "git_clone", &arguments)
    }
}

/// A commit in `source`, and a bare copy of it below `served` that a plain file server can serve.
fn make_repository(source: &Path, served: &Path) {
    let git = |at: &Path, words: &[&str]| {
        let output = start(Path::new(GIT))
            .args(["-c", "user.name=Tester", "-c", "user.email=tester@example.com", "-C"])
            .arg(at)
            .args(words)
            .env("HOME", source)
            .output()
            .expect("git starts");
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    };
    std::fs::create_dir(source).expect("folder");
    std::fs::create_dir(served).expect("folder");
    git(source, &["init", "--quiet"]);
    std::fs::write(source.join("README"), "a repository\n").expect("file");
    git(source, &["add", "."]);
    git(source, &["commit", "--quiet", "-m", "first"]);
    let bare = served.join("project.git");
    git(source, &["clone", "--quiet", "--bare", ".", bare.to_str().expect("UTF-8")]);
    git(&bare, &["update-server-info"]);
}

fn call(home: &TestHome, tool: &str, arguments: &Value) -> Value {
    let output = home.par(&["--json", "tool", "call", tool, &arguments.to_string()]);
    let reply: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {} {}", text(&output.stdout), text(&output.stderr)));
    reply["steps"][0].clone()
}

#[test]
fn a_program_clones_from_the_host_that_was_decided_on() {
    let Some(forge) = Forge::start() else { return };
    let host = forge.files.host();
    forge.declare(BY_URL, &host, LOOPBACK);
    let step = forge.clone(&host, "mine");
    assert_eq!(step["status"], "ok", "{step}");
    let cloned = forge.home.path("workspace/clones/mine/README");
    assert_eq!(std::fs::read_to_string(&cloned).expect("cloned"), "a repository\n");
    // Each connection is on record before its first byte, and listed in the result.
    let connects = forge.home.entries(&["kind:call.connect"]);
    assert!(!connects.is_empty());
    let decision = step["ledger"]["decision"].as_u64().expect("a number");
    for connect in &connects {
        assert_eq!(connect["ref"], decision, "{connect}");
        let told = forge.home.entry(connect["seq"].as_u64().expect("a number"));
        assert_eq!(told["payload"]["host"], host.as_str(), "{told}");
    }
    let result = forge.home.entry(step["ledger"]["result"].as_u64().expect("a number"));
    let told = &result["payload"]["connections"];
    assert_eq!(told["told"][0]["host"], host.as_str(), "{result}");
    assert!(told["bytes"].as_u64().expect("bytes") > 0 && told["told"][0]["refused"].is_null(), "{told}");
    let request = forge.home.entry(decision);
    assert_eq!(request["payload"]["request"]["resource"]["id"], host.as_str(), "{request}");
    // The manifest does not name another host: nothing runs.
    let met = forge.files.met();
    let step = forge.clone(&format!("127.0.0.1:{}", forge.files.port), "other");
    assert_eq!(
        (step["decision"].as_str(), step["status"].as_str()),
        (Some("deny"), Some("refused")),
        "{step}"
    );
    assert_eq!(forge.files.met(), met);
}

#[test]
fn a_program_is_refused_every_other_host_and_goes_no_other_way() {
    let Some(forge) = Forge::start() else { return };
    // The manifest names another host: the model's URL reaches nothing.
    forge.declare(BY_HOST, "localhost:1", LOOPBACK);
    let step = forge.clone(&forge.files.host(), "mine");
    assert_eq!(
        (step["decision"].as_str(), step["status"].as_str()),
        (Some("allow"), Some("error")),
        "{step}"
    );
    assert_eq!(forge.files.met(), 0, "a server was connected to");
    assert!(forge.home.entries(&["kind:call.connect"]).is_empty());
    let result = forge.home.entry(step["ledger"]["result"].as_u64().expect("a number"));
    let told = &result["payload"]["connections"]["told"][0];
    assert_eq!(told["host"], forge.files.host().as_str(), "{result}");
    assert!(told["refused"].as_str().is_some_and(|why| why.contains("not")), "{told}");
    // An allowed host at an address that is not allowed: no range with 127.0.0.1 is named now.
    forge.declare(BY_HOST, &forge.files.host(), &[]);
    let step = forge.clone(&forge.files.host(), "mine");
    assert_eq!(step["status"], "error", "{step}");
    assert_eq!(forge.files.met(), 0, "an address was connected to that no manifest names");
    let result = forge.home.entry(step["ledger"]["result"].as_u64().expect("a number"));
    let why = result["payload"]["connections"]["told"][0]["refused"].to_string();
    assert!(why.contains("loopback"), "{why}");
}

/// The shipped `http_get` with other hosts and addresses.
fn http_get(connect: &[&str], addresses: &[&str]) -> String {
    let manifest = HTTP_GET.replace("[\"www.example.com:443\"]", &format!("{connect:?}"));
    manifest.replace("addresses = []", &format!("addresses = {addresses:?}"))
}

#[test]
fn a_builtin_is_given_its_connection_and_follows_nothing() {
    let home = TestHome::init();
    let served = home.beside("served");
    std::fs::create_dir(&served).expect("folder");
    std::fs::write(served.join("page"), "hello over TLS\n").expect("page");
    let files = Files::start(served, &home.beside("ca.pem"));
    let known = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    let believed = format!("[sandbox]\nca_file = \"{}\"", home.beside("ca.pem").display());
    home.configure(&known.replacen("[sandbox]", &believed, 1));
    home.add("tools.d/http_get.toml", &http_get(&["*:443", &files.host()], LOOPBACK));
    let rule = format!(
        "@id(\"fetch\")\npermit (principal, action == PAR::Action::\"http_get\", resource == PAR::Host::\"{}\");",
        files.host()
    );
    home.add("policies/60-fetch.cedar", &rule);
    let get = |url: &str| call(&home, "http_get", &json!({ "url": url }));
    let step = get(&format!("https://{}/page", files.host()));
    assert_eq!(step["status"], "ok", "{step}");
    assert_eq!(
        (&step["result"]["status"], step["result"]["text"].as_str()),
        (&json!(200), Some("hello over TLS\n"))
    );
    let decision = step["ledger"]["decision"].as_u64().expect("a number");
    let connects = home.entries(&["kind:call.connect"]);
    assert!(connects.iter().any(|one| one["ref"] == decision), "{connects:?}");
    let met = files.met();
    assert_eq!(met, 1);
    // A redirect is an answer; following it is another call.
    let step = get(&format!("https://{}/moved", files.host()));
    assert_eq!(step["result"]["status"], 302, "{step}");
    assert_eq!(step["result"]["location"], "https://localhost:1/elsewhere", "{step}");
    assert_eq!(files.met(), met + 1);
    // Another spelling is not a valid call, another host is denied; neither is looked up or
    // connected to.
    let check = |url: &str, decision: &str| {
        let step = get(url);
        assert_eq!(step["decision"], decision, "{url}: {step}");
        assert_eq!(files.met(), met + 1, "{url}");
    };
    let port = files.port;
    for url in [
        format!("https://LOCALHOST:{port}/page"),
        format!("https://user:word@localhost:{port}/page"),
        format!("https://localhost:{port}/a/../page"),
        format!("https://0x7f.1:{port}/page"),
        format!("https://2130706433:{port}/page"),
        format!("ftp://localhost:{port}/page"),
        format!("https://[::ffff:127.0.0.1]:{port}/page"),
    ] {
        check(&url, "invalid");
    }
    check(&format!("https://127.0.0.1:{port}/page"), "deny");
    check("https://169.254.169.254/latest/meta-data/", "deny");
    check("https://an-unknown-name.example/", "deny");
}

#[test]
fn an_address_that_no_tool_reaches_is_refused_after_the_permit_too() {
    let home = TestHome::init();
    home.add("tools.d/http_get.toml", &http_get(&["*:80"], &[]));
    home.add(
        "policies/60-fetch.cedar",
        "@id(\"fetch\")\npermit (principal, action == PAR::Action::\"http_get\", resource);",
    );
    for (url, why) in [
        ("http://169.254.169.254/latest/meta-data/", "link-local"),
        ("http://10.0.0.1/", "private"),
        ("http://localhost/", "loopback"),
        ("http://[fd00::1]/", "private"),
        ("http://[64:ff9b::7f00:1]/", "loopback"),
    ] {
        let step = call(&home, "http_get", &json!({ "url": url }));
        assert_eq!(
            (step["decision"].as_str(), step["status"].as_str()),
            (Some("allow"), Some("refused")),
            "{step}"
        );
        let error = step["result"]["error"].as_str().unwrap_or_default();
        assert!(error.contains(why), "{url}: {error}");
    }
    assert!(home.entries(&["kind:call.connect"]).is_empty(), "an attempt was made");
}

#[expect(clippy::disallowed_methods, reason = "CI says by the environment that there must be a compiler")]
fn must_have_cc() -> bool {
    std::env::var_os("PAR_REQUIRE_CC").is_some()
}

/// Builds the program that tries other ways; `None` with a message without a C compiler, unless one
/// is required.
fn build_hostile(home: &TestHome, port: u16) -> Option<PathBuf> {
    let (source, program) = (home.beside("hostile.c"), home.beside("hostile"));
    std::fs::write(&source, HOSTILE).expect("source");
    let mut cc = start(Path::new("cc"));
    cc.args(["-O1", "-w", "-static", "-o"]).arg(&program).arg(&source);
    cc.args([format!("-DPORT={port}"), format!("-DPORT_TEXT=\"{port}\"")]);
    match cc.output() {
        Ok(made) if made.status.success() => Some(program),
        Ok(made) => panic!("{}", text(&made.stderr)),
        Err(e) if must_have_cc() => panic!("no C compiler: {e}"),
        Err(e) => {
            eprintln!("\nSKIPPED: there is NO C compiler: {e}\n");
            None
        }
    }
}

#[test]
fn a_connected_program_reaches_only_its_proxy() {
    let home = TestHome::init();
    let outside = TcpListener::bind("127.0.0.1:0").expect("a port");
    outside.set_nonblocking(true).expect("a mode");
    let Some(program) = build_hostile(&home, outside.local_addr().expect("address").port()) else { return };
    let manifest = format!(
        "name = \"hostile\"\nsummary = \"h\"\nclass = \"exec\"\nrisk = \"high\"\ncommand = [\"{}\"]\n\
         runtime = \"static\"\nuntrusted_output = true\n[resource]\n{BY_HOST}\n[sandbox]\n\
         connect = [\"localhost:1\"]\naddresses = {LOOPBACK:?}\n[limits]\nwall_ms_max = 20000\n\
         output_bytes_max = 65536\nmemory_bytes_max = 268435456\nprocesses_max = 4\n\
         network_bytes_max = 65536\n[input]\ntype = \"object\"\nadditionalProperties = false\n",
        program.display()
    );
    home.add("tools.d/hostile.toml", &manifest);
    home.add(
        "policies/60-hostile.cedar",
        "@id(\"hostile\")\npermit (principal, action == PAR::Action::\"hostile\", resource);",
    );
    let step = call(&home, "hostile", &json!({}));
    assert_eq!(step["status"], "ok", "{step}");
    let said = step["result"]["stdout"].as_str().expect("text");
    let lines: Vec<(&str, &str)> = said.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(lines.len(), 19, "{said}");
    for (name, came) in lines {
        let expect: &[&str] = match name {
            // Refused by Landlock, or because no server is there; or without a route.
            "host_by_loopback" => &["13", "111", "22"],
            "host_by_address" | "metadata" => &["13", "101"],
            "interface" => &["25"],
            "other" | "spelled" => &["HTTP/1.1 403 Forbidden"],
            "get" => &["HTTP/1.1 405 Method Not Allowed"],
            "nonsense" => &["HTTP/1.1 400 Bad Request"],
            _ => &["1"],
        };
        assert!(expect.contains(&came), "{name}: {came}\n{said}");
    }
    assert!(outside.accept().is_err(), "a connection arrived");
    let result = home.entry(step["ledger"]["result"].as_u64().expect("a number"));
    let layers = result["payload"]["layers"].to_string();
    assert!(layers.contains("proxy") && layers.contains("net namespace"), "{layers}");
    let tcp = result["payload"]["protections"]["tcp"].to_string();
    assert!(!tcp.contains("seccomp") && tcp.contains("net namespace"), "{tcp}");
    assert_eq!(result["payload"]["connections"]["told"].as_array().map(Vec::len), Some(4), "{result}");
    assert!(home.entries(&["kind:call.connect"]).is_empty());
}
