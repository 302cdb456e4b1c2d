//! Secrets enter through every input, in every form, and leave no trace: not at the model, not at
//! the caller, not on a page, in a log line or in any file of `data/`.

mod given;
mod model_key;

use crate::dashboard::log_in;
use crate::model::{House, Reply, http};
use crate::support::{TestHome, text, until};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// Characters that every writer escapes differently.
const PASSWORD: &str = "s3cr\"et/päss\\w rd=7+q";
const TOKEN: &str = "tok4f9a8b7c6d5e";
const MODEL_KEY: &str = "sk-live-0123456789abcdef";
const CARD: &str = "4929123456781234";

/// Every form in which a value could still be in bytes, made without the product's own code.
fn forms(value: &str) -> Vec<String> {
    let quoted = json!(value).to_string();
    let escaped = quoted[1..quoted.len() - 1].to_owned();
    let twice = json!(escaped).to_string();
    let hex: String = value.bytes().map(|b| format!("{b:02x}")).collect();
    let percent: String = value
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    let mut forms = vec![
        value.to_owned(),
        escaped,
        twice[1..twice.len() - 1].to_owned(),
        value.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect(),
        hex.to_uppercase(),
        hex,
        percent,
    ];
    for skip in 0..3 {
        for all in [
            STANDARD.encode(["xyz".get(..skip).expect("ASCII"), value].concat()),
            URL_SAFE_NO_PAD.encode(["xyz".get(..skip).expect("ASCII"), value].concat()),
        ] {
            // The first and the last group contain other bytes too.
            forms.push(
                all.trim_end_matches('=').chars().skip(4).take((value.len() - 3) / 3 * 4 - 4).collect(),
            );
        }
    }
    forms
}

fn holds(bytes: &[u8], form: &str) -> bool {
    bytes.windows(form.len()).any(|window| window == form.as_bytes())
}

/// Which places contain which value in which form.
fn traces(places: &BTreeMap<String, Vec<u8>>, values: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for form in values.iter().flat_map(|value| forms(value)) {
        let holding = places.iter().filter(|(_, bytes)| holds(bytes, &form));
        found.extend(holding.map(|(place, _)| format!("{place} holds `{form}`")));
    }
    found
}

/// Every file below `folder`, raw, including the open database.
fn raw_files(folder: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
    for item in std::fs::read_dir(folder).expect("folder") {
        let path = item.expect("entry").path();
        if path.is_dir() {
            raw_files(&path, into);
        } else if let Ok(bytes) = std::fs::read(&path) {
            into.insert(path.display().to_string(), bytes);
        }
    }
}

pub(crate) fn private(path: &Path, value: &str) {
    std::fs::write(path, value).expect("file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("mode");
}

/// Names the secrets in par.toml, in addition to its content.
fn name(home: &TestHome, table: &str) {
    let file = home.path("etc/par.toml");
    let before = std::fs::read_to_string(&file).expect("par.toml");
    std::fs::write(&file, format!("{before}\n{table}")).expect("par.toml");
}

fn sources(home: &TestHome) -> String {
    let at = |name: &str, value: &str| {
        let path = home.beside(name);
        private(&path, &format!("{value}\n"));
        path.display().to_string()
    };
    format!(
        "[secrets]\npassword = \"file:{}\"\ntoken = \"file:{}\"\n[secret_patterns]\ncard = \"4[0-9]{{15}}\"\n",
        at("password", PASSWORD),
        at("token", TOKEN)
    )
}

fn files(home: &TestHome) {
    let put =
        |name: &str, words: String| std::fs::write(home.path("workspace").join(name), words).expect("file");
    put("app.log", format!("login with {PASSWORD} ok\n{}\n", json!({ "pw": PASSWORD, "card": CARD })));
    put("app.b64", STANDARD.encode(format!("y={PASSWORD}; z={TOKEN}")));
    put("app.cut", format!("{}{TOKEN}", "x".repeat(40)));
    put(&format!("for-{TOKEN}.txt"), "nothing\n".to_owned());
    symlink(format!("for-{TOKEN}.txt"), home.path("workspace/link")).expect("link");
}

#[test]
fn no_named_secret_leaves_a_trace() {
    let house = House::start(|home| {
        private(&home.beside("model-key"), MODEL_KEY);
        let with_key = format!("[llm]\napi_key_file = \"{}\"", home.beside("model-key").display());
        let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
        home.configure(&toml.replace("[llm]", &with_key));
        name(home, &sources(home));
        files(home);
    });
    // The model says them too: plain, and with unnecessary escapes.
    let escaped: String = TOKEN.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let arguments = format!("{{\"path\":\"/var/log/{escaped}\"}}");
    let reply = json!({ "id": "c", "choices": [{ "message": { "role": "assistant", "content": format!("I take {PASSWORD}"),
        "tool_calls": [{ "id": TOKEN, "type": "function", "function": { "name": "read_file", "arguments": arguments } }] } }] });
    let pasted = house.home.key("pasted", "viewer");
    house.model.play([
        Reply::Calls(reads(&house.home)),
        Reply::Raw(http(200, "", &reply.to_string())),
        Reply::Say(format!("{PASSWORD}, {}", STANDARD.encode(format!("ab{TOKEN}cd")))),
    ]);
    let answer = house.server.run(&house.key, &format!("use {PASSWORD}, {pasted} and {CARD}"));
    assert_eq!(answer.status, 200, "{}", text(&answer.body));
    let told = answer.json();
    let failed = failures(&house);

    let mut places = BTreeMap::from([
        ("the reply".to_owned(), answer.body.clone()),
        ("the failure".to_owned(), failed),
        ("what was told".to_owned(), house.all_that_was_told().into_bytes()),
        ("the log".to_owned(), house.server.log().into_bytes()),
    ]);
    let login = log_in(&house.server, &house.home.key("looker", "viewer"));
    let run = told["run"].as_str().expect("run");
    for page in [format!("/ui/runs/{run}"), "/ui/audit".to_owned(), "/ui/".to_owned()] {
        let shown = house.server.send("GET", &page, &login, b"");
        assert_eq!(shown.status, 200, "{page}");
        places.insert(page, shown.body);
    }
    raw_files(&house.home.path("data"), &mut places);
    assert!(
        places.keys().any(|place| place.ends_with("ledger.db-wal")),
        "the log is searched while it is open"
    );
    // The control: the text next to them is found.
    let beside =
        places.iter().filter(|(_, bytes)| holds(bytes, "login with ")).map(|(place, _)| place.as_str());
    let beside: Vec<&str> = beside.collect();
    assert!(
        beside.contains(&"the reply") && beside.iter().any(|place| place.contains("ledger.db")),
        "{beside:?}"
    );
    // The key files themselves contain keys.
    places.retain(|place, _| !["log.key", "pepper"].iter().any(|name| place.ends_with(name)));
    let found = traces(&places, &[PASSWORD, TOKEN, MODEL_KEY, CARD, &pasted]);
    assert!(found.is_empty(), "{}", found.join("\n"));

    check_steps(&told);
    check_record(&house.home, run);
    house.check_ledger();
}

/// A tool reads them, plain and in base64, cut in two, in a name and through a link; and a call
/// names one.
fn reads(home: &TestHome) -> Vec<(String, String)> {
    let at = |name: &str| home.path("workspace").join(name).display().to_string();
    let call = |tool: &str, arguments: Value| (tool.to_owned(), arguments.to_string());
    vec![
        call("read_file", json!({ "path": at("app.log") })),
        call("tail_file", json!({ "path": at("app.log"), "lines": 5 })),
        call("read_file", json!({ "path": at("app.b64") })),
        call("read_file", json!({ "path": at("app.cut"), "limit": 48 })),
        call("list_dir", json!({ "path": at("") })),
        call("read_file", json!({ "path": at("link") })),
        call("read_file", json!({ "path": format!("/var/log/{PASSWORD}") })),
    ]
}

/// A model that fails repeats its key, in the answer that is returned; a policy that cannot be
/// loaded is reported in a log line.
fn failures(house: &House) -> Vec<u8> {
    let refusal = json!({ "error": { "message": format!("bad key {MODEL_KEY}") } }).to_string();
    house.model.play([Reply::Raw(http(401, "", &refusal))]);
    let failed = house.server.run(&house.key, "again");
    let broken = format!("policies/50-{TOKEN}.cedar");
    house.home.add(&broken, "permit (");
    house.server.signal(Signal::SIGHUP);
    until("it says so", || house.server.log().contains("the previous rules remain"));
    std::fs::remove_file(house.home.path("etc").join(&broken)).expect("removed");
    failed.body
}

/// All readers get the same replaced bytes, and calls were decided and executed with them.
fn check_steps(told: &Value) {
    let steps = told["steps"].as_array().expect("steps");
    let result = |at: usize| steps[at]["result"].to_string();
    assert!(
        result(0).contains("login with [secret:password:") && result(0).contains("[secret:card:"),
        "{}",
        result(0)
    );
    assert!(result(1).contains("login with [secret:password:"), "{}", result(1));
    assert!(result(2).contains("[secret:password:") && result(2).contains("[secret:token:"), "{}", result(2));
    assert!(result(3).contains("xxx[secret:token:cut]"), "{}", result(3));
    assert!(result(4).contains("for-[secret:token:"), "{}", result(4));
    assert!(
        steps[5]["decision"] == "deny" && result(5).contains("the name of its object holds a secret"),
        "{}",
        steps[5]
    );
    for (at, name) in [(6, "password"), (7, "token")] {
        let path = steps[at]["args"]["path"].as_str().expect("path");
        assert!(path.starts_with(&format!("/var/log/[secret:{name}:")), "{}", steps[at]);
    }
    assert!(told["answer"].as_str().expect("answer").starts_with("[secret:password:"), "{told}");
}

/// The digest from `par audit hash` is the one on the record, which counts the replacements.
fn check_record(home: &TestHome, run: &str) {
    let hash = |value: &str| -> Value {
        serde_json::from_str(&home.expect(0, &["audit", "hash", "--json", value])).expect("JSON")
    };
    let (password, other) = (hash(PASSWORD), hash("some other value"));
    let marker = password["replaced"].as_str().expect("replaced");
    assert_eq!(
        (&password["name"], marker),
        (&json!("password"), &*format!("[secret:password:{}]", password["digest"].as_str().expect("digest")))
    );
    assert_eq!((&other["name"], &other["replaced"]), (&Value::Null, &Value::Null));
    let entries = home.entries(&[&format!("run:{run}")]);
    let payload = |kind: &str, at: usize| {
        let of_kind: Vec<&Value> = entries.iter().filter(|entry| entry["kind"] == kind).collect();
        home.entry(of_kind[at]["seq"].as_u64().expect("number"))["payload"].clone()
    };
    let request = payload("run.request", 0);
    assert_eq!(request["secrets"], json!({ "card": 1, "par-key": 1, "password": 1 }), "{request}");
    assert!(request["message"].as_str().expect("message").contains(marker), "{request}");
    let read = payload("call.result", 0);
    assert_eq!(read["secrets"], json!({ "card": 1, "password": 2 }), "{read}");
    assert_eq!(payload("model.reply", 1)["secrets"], json!({ "password": 1, "token": 2 }));
}

#[test]
fn a_secret_that_cannot_be_read_refuses_the_start_by_its_name() {
    let home = TestHome::init();
    let at = |name: &str| home.beside(name).display().to_string();
    private(&home.beside("short"), "seven77");
    private(&home.beside("open"), "long-enough");
    std::fs::set_permissions(home.beside("open"), std::fs::Permissions::from_mode(0o644)).expect("mode");
    let before = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    for (table, expect) in [
        (format!("[secrets]\ngone = \"file:{}\"", at("gone")), "the secret `gone`: "),
        (format!("[secrets]\nopen = \"file:{}\"", at("open")), "the secret `open`: "),
        (
            format!("[secrets]\nshort = \"file:{}\"", at("short")),
            "the secret `short`: the value is shorter than 8 bytes",
        ),
        (
            "[secrets]\ncred = \"credential:x\"".to_owned(),
            "the secret `cred`: credential x: the service manager passed no",
        ),
        (
            "[secret_patterns]\nany = \"a*\"".to_owned(),
            "the secret `any`: the pattern matches the empty text",
        ),
        (
            "[secrets]\nvalue = \"opensesame\"".to_owned(),
            "`secrets.value`: is not a source of a secret, expected `file:PATH` or `credential:NAME`",
        ),
    ] {
        home.configure(&format!("{before}\n{table}\n"));
        for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["run", "status"], &["config", "check"]] {
            let refused = home.par(command);
            let said = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{command:?}: {said}");
            assert!(said.contains(expect) && !said.contains("opensesame"), "{said}");
        }
        let doctor = home.par(&["doctor", "--quick"]);
        assert!(
            doctor.status.code() == Some(1) && text(&doctor.stdout).contains(expect),
            "{}",
            text(&doctor.stdout)
        );
    }
    home.configure(&before);
    assert!(home.expect(0, &["doctor", "--quick"]).contains("0 named, 0 patterns, 3 of PAR's own"));
}

/// How often `value` occurs in the memory of a process.
fn occurrences(pid: u32, value: &[u8]) -> usize {
    use std::os::unix::fs::FileExt as _;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("memory");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let mut count = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).expect("a number"));
        for at in (from..to).step_by(1 << 20) {
            let mut piece = vec![0; usize::try_from((to - at).min((1 << 20) + 64)).expect("short")];
            // Memory that was never touched, or that belongs to a device, cannot be read.
            let read = memory.read_at(&mut piece, at).unwrap_or(0);
            count += piece[..read].windows(value.len()).filter(|window| *window == value).count();
        }
    }
    count
}

#[test]
fn a_reload_reads_secrets_again() {
    let home = TestHome::init();
    private(&home.beside("word"), "first-password");
    name(&home, &format!("[secrets]\nword = \"file:{}\"\n", home.beside("word").display()));
    let server = home.serve();
    let key = home.key("ops", "operator");
    let runs = |message: &str| {
        let answer = server.run(&key, message).json();
        let run = answer["run"].as_str().expect("run").to_owned();
        let asked = home.entries(&["kind:run.request", &format!("run:{run}")]);
        home.entry(asked[0]["seq"].as_u64().expect("number"))["payload"]["message"]
            .as_str()
            .expect("message")
            .to_owned()
    };
    assert!(runs("it is first-password").starts_with("it is [secret:word:"));
    private(&home.beside("word"), "second-password");
    assert_eq!(runs("it is second-password"), "it is second-password");
    assert!(home.expect(0, &["reload"]).contains("~ secrets"));
    assert!(runs("it is second-password").starts_with("it is [secret:word:"));
    // A secret that cannot be read changes nothing.
    std::fs::remove_file(home.beside("word")).expect("removed");
    let refused = home.par(&["reload"]);
    assert!(text(&refused.stderr).contains("the secret `word`: "), "{}", text(&refused.stderr));
    assert!(runs("it is second-password").starts_with("it is [secret:word:"));
    home.expect(0, &["audit", "verify"]);
}
