//! Secrets come in by every door, in every form, and leave no trace: not with the model, not with the caller, not on a
//! page, in a log line or in any file of `data/`.

use crate::crash::{LOGS, home_with_nap, is_sleep};
use crate::dashboard::log_in;
use crate::model::{House, Reply, http};
use crate::support::{TestHome, descendants, text, until};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// Characters that every writer escapes in another way.
const PASSWORD: &str = "s3cr\"et/päss\\w rd=7+q";
const TOKEN: &str = "tok4f9a8b7c6d5e";
const MODEL_KEY: &str = "sk-live-0123456789abcdef";
const CARD: &str = "4929123456781234";

/// Every way in which a value could still stand in bytes, made without the product's own code.
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
            // The first and the last group hold other bytes too.
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

/// Which places hold which value in which form.
fn traces(places: &BTreeMap<String, Vec<u8>>, values: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for form in values.iter().flat_map(|value| forms(value)) {
        let holding = places.iter().filter(|(_, bytes)| holds(bytes, &form));
        found.extend(holding.map(|(place, _)| format!("{place} holds `{form}`")));
    }
    found
}

/// Every file below `folder`, raw, under the open database too.
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

fn private(path: &Path, value: &str) {
    std::fs::write(path, value).expect("file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("mode");
}

/// Names the secrets in par.toml, beside what is there.
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
    // The model says them too: plain, and escaped where nobody needs to.
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
    // The control: what stands beside them is found.
    let beside =
        places.iter().filter(|(_, bytes)| holds(bytes, "login with ")).map(|(place, _)| place.as_str());
    let beside: Vec<&str> = beside.collect();
    assert!(
        beside.contains(&"the reply") && beside.iter().any(|place| place.contains("ledger.db")),
        "{beside:?}"
    );
    // The keys' own files are where keys lie.
    places.retain(|place, _| !["log.key", "pepper"].iter().any(|name| place.ends_with(name)));
    let found = traces(&places, &[PASSWORD, TOKEN, MODEL_KEY, CARD, &pasted]);
    assert!(found.is_empty(), "{}", found.join("\n"));

    check_steps(&told);
    check_record(&house.home, run);
    house.check_ledger();
}

/// A tool reads them, plain and in base64, cut in two, in a name and behind a link; and a call names one.
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

/// A model that fails repeats its key, which is in the answer that is returned; a policy that cannot be loaded is told in
/// a log line.
fn failures(house: &House) -> Vec<u8> {
    let refusal = json!({ "error": { "message": format!("bad key {MODEL_KEY}") } }).to_string();
    house.model.play([Reply::Raw(http(401, "", &refusal))]);
    let failed = house.server.run(&house.key, "again");
    let broken = format!("policies/50-{TOKEN}.cedar");
    house.home.add(&broken, "permit (");
    house.server.signal(Signal::SIGHUP);
    until("it says so", || house.server.log().contains("the rules before stay"));
    std::fs::remove_file(house.home.path("etc").join(&broken)).expect("removed");
    failed.body
}

/// The same replaced bytes for all, and calls that were decided and executed with them.
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

/// The digest that `par audit hash` gives is the one on the record, which counts.
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
            "the secret `short`: the value has less than 8 bytes",
        ),
        (
            "[secrets]\ncred = \"credential:x\"".to_owned(),
            "the secret `cred`: credential x: the service manager gives no",
        ),
        (
            "[secret_patterns]\nany = \"a*\"".to_owned(),
            "the secret `any`: the pattern matches the empty text",
        ),
        ("[secrets]\nvalue = \"opensesame\"".to_owned(), "`secrets.value`: is neither `file:PATH` nor"),
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

/// A tool that is given a secret says it in every way that it knows. `$1` is one.
const SAYS: &str = r#"
read -r value <"$PAR_SECRET_PASSWORD"
read -r again <&3
[ "$value" = "$again" ] || exit 9
case "$1" in
    plain) printf 'it is %s\n' "$value" ;;
    errors) printf 'it is %s\n' "$value" >&2 ;;
    hex) printf '%s' "$value" | od -An -tx1 -v | tr -d ' \n' ;;
    base64) printf 'ab%s' "$value" | base64 -w0 ;;
    cut) printf '%01000d%.9s' 0 "$value"; kill -9 $$ ;;
    flood) while :; do printf '%s' "$value"; done ;;
    environ) tr '\0' '\n' </proc/self/environ; tr '\0' ' ' </proc/self/cmdline; set; echo "$0" "$@" ;;
    json) printf '{"%s": "%s"}' "$value" "${value#s3cr}" ;;
esac
"#;

/// The script `says`, which is given the secret `password`, and a program that reads it by its number.
fn add_says(home: &TestHome) {
    std::fs::write(home.path("etc/jobs.d/says.sh"), SAYS).expect("script");
    let exec = ["/usr/bin/od", "/usr/bin/tr", "/usr/bin/base64"];
    let manifest = |name: &str, runs: &str, sandbox: &str| {
        format!(
            "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\n{runs}\n\
             untrusted_output = false\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n[sandbox]\n{sandbox}\n\
             secrets = [\"password\"]\n[limits]\nwall_ms_max = 20000\noutput_bytes_max = 4096\n\
             memory_bytes_max = 268435456\nprocesses_max = 8\n[input]\ntype = \"object\"\n\
             additionalProperties = false\nproperties.how = {{ type = \"string\", maxLength = 20 }}\n"
        )
    };
    let script = "interpreter = \"/bin/sh\"\nscript = \"jobs.d/says.sh\"\nargs = [\"{how}\"]";
    home.add("tools.d/says.toml", &manifest("says", script, &format!("exec = {exec:?}")));
    let program = "command = [\"/usr/bin/cat\", \"/proc/self/fd/3\"]\nruntime = \"dynamic\"";
    home.add("tools.d/shows.toml", &manifest("shows", program, ""));
    let permit = |name: &str| {
        format!("@id(\"{name}\") permit (principal, action == PAR::Action::\"{name}\", resource);")
    };
    home.add("policies/50-says.cedar", &(permit("says") + &permit("shows")));
}

#[test]
fn a_secret_that_a_tool_is_given_leaves_no_trace() {
    let home = TestHome::init();
    name(&home, &sources(&home));
    add_says(&home);
    let server = home.serve();
    let key = home.key("ops", "operator");
    let mut places = BTreeMap::new();
    for how in ["plain", "errors", "hex", "base64", "cut", "flood", "environ", "json"] {
        let answer = server.run(&key, &format!("says(how=\"{how}\")"));
        let step = answer.json()["steps"][0].clone();
        let told = step["result"].to_string();
        assert!(told.contains("[secret:password:"), "{how}: {step}");
        let status = match how {
            "cut" => "signal",
            "flood" => "output_cap",
            _ => "ok",
        };
        assert_eq!(step["status"], status, "{how}: {step}");
        if how == "environ" {
            assert!(told.contains("PAR_SECRET_PASSWORD='/proc/self/fd/3'"), "{told}");
        }
        let result = home.entry(step["ledger"]["result"].as_u64().expect("number"));
        assert_eq!(result["payload"]["given"], json!({ "secrets": ["password"] }), "{result}");
        places.insert(how.to_owned(), answer.body);
    }
    let step = server.run(&key, "shows()").json()["steps"][0].clone();
    assert!(step["result"]["stdout"].as_str().expect("text").starts_with("[secret:password:"), "{step}");
    places.insert("the log".to_owned(), server.log().into_bytes());
    raw_files(&home.path("data"), &mut places);
    let found = traces(&places, &[PASSWORD]);
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Without one nothing is said of it.
    let step = server.run(&key, "health_check()").json()["steps"][0].clone();
    let result = home.entry(step["ledger"]["result"].as_u64().expect("number"));
    assert_eq!(result["payload"]["given"], Value::Null);
    let shown: Value =
        serde_json::from_str(&home.expect(0, &["--json", "tool", "show", "says"])).expect("JSON");
    assert_eq!(shown["secrets"], json!(["password"]));
    home.expect(0, &["audit", "verify"]);
}

/// What a launcher forks has its memory: a builtin that was taken over finds no value there.
#[test]
fn a_launcher_keeps_no_copy_of_what_it_gives() {
    if !crate::support::is_root() {
        eprintln!("skipped: only root can look into the launcher's memory");
        return;
    }
    let home = TestHome::init();
    name(&home, &sources(&home));
    add_says(&home);
    let key = home.key("ops", "operator");
    let server = home.serve();
    // Before any call: what a tool prints passes through it.
    let launcher = crate::jobs::launcher(&server.descendants());
    let copies = |pid: u32| occurrences(pid, PASSWORD.as_bytes());
    assert_eq!(copies(launcher), 0);
    // The control: the front looks for it, and so has it.
    let front = server.descendants().into_iter().filter(|pid| *pid != launcher).map(copies);
    assert!(front.sum::<usize>() > 0);
    let says = server.run(&key, "says(how=\"plain\")").json()["steps"][0].clone();
    assert_eq!(says["status"], "ok", "{says}");
}

/// Who makes the provider tells; who has no business with the key does without.
#[test]
fn a_model_key_that_cannot_be_read_is_told_with_its_setting() {
    let home = TestHome::init();
    let file = home.beside("model-key").display().to_string();
    home.configure(&format!(
        "[llm]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_file = \"{file}\"\n{LOGS}"
    ));
    let place = home.path("etc/par.toml").display().to_string();
    let check = |why: &str| {
        let expect = format!("{place}: `llm.api_key_file`: {file}: {why}");
        for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["run", "status"], &["config", "check"]] {
            let refused = home.par(command);
            assert_eq!(refused.status.code(), Some(2), "{command:?}");
            assert!(
                text(&refused.stderr).ends_with(&format!("par: {expect}\n")),
                "{}",
                text(&refused.stderr)
            );
        }
        let doctor = home.par(&["doctor", "--quick"]);
        let told = text(&doctor.stdout);
        assert!(
            doctor.status.code() == Some(1) && told.contains(&format!("fail  model           {expect}")),
            "{told}"
        );
        home.expect(0, &["key", "list"]);
        home.expect(0, &["policy", "check"]);
    };
    check("No such file or directory (os error 2)");
    private(&home.beside("model-key"), "\n");
    check("is empty");
}

/// As long as those of providers are.
const LONG_KEY: &str = "sk-proj-Zk3vQ9xTn4LmR8wYc2HdF6gJ1bSp5aUe7oViXtKqWzMyNfBrDhGs0uEjCl";

/// Whoever forks, starts a tool or is one has no copy of the model's key, wherever it comes from.
#[test]
fn the_front_alone_holds_the_model_key() {
    if !crate::support::is_root() {
        eprintln!("skipped: only root can look into the launcher's memory");
        return;
    }
    let (home, _) = home_with_nap(30);
    private(&home.beside("model-key"), LONG_KEY);
    private(&home.beside("llm_api_key"), LONG_KEY);
    let folder = home.beside("llm_api_key").parent().expect("a folder").display().to_string();
    let of_file = format!("api_key_file = \"{}\"", home.beside("model-key").display());
    let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    for (line, variable, value) in
        [(&*of_file, "UNUSED", ""), ("", "CREDENTIALS_DIRECTORY", &folder), ("", "OPENAI_API_KEY", LONG_KEY)]
    {
        let model = format!("[llm]\nprovider = \"openai\"\nmodel = \"m\"\n{line}\n{LOGS}");
        home.configure(&model);
        let server = home.serve_with(&[(variable, value)]);
        check_holder(&server.descendants(), server.child.id(), None);
        // One that the supervisor forks later.
        let before = server.descendants();
        home.expect(0, &["reload"]);
        until("another launcher is there", || {
            let now = server.descendants();
            now.len() == 3 && now.iter().filter(|pid| !before.contains(pid)).count() == 2
        });
        check_holder(&server.descendants(), server.child.id(), None);
        assert_eq!(server.stop(), Some(0));
        // Without a server the command is the front, and forks the launcher itself.
        let mut command = home.command(&["tool", "call", "nap"]).env(variable, value).spawn().expect("par");
        until("the program runs", || descendants(command.id()).into_iter().any(is_sleep));
        check_holder(&descendants(command.id()), command.id(), Some(command.id()));
        command.kill().expect("killed");
        command.wait().expect("ended");
    }
    home.configure(&toml);
}

/// Of a process and those below it the front alone has the model's key: `front`, or else the one beside the launcher.
fn check_holder(below: &[u32], top: u32, front: Option<u32>) {
    let launcher = crate::jobs::launcher(below);
    let front =
        front.or_else(|| below.iter().copied().find(|pid| descendants(*pid).is_empty() && *pid != launcher));
    // Memory that was given back keeps all of it but its beginning.
    let key_end = &LONG_KEY.as_bytes()[LONG_KEY.len() / 2..];
    let all = std::iter::once(&top).chain(below);
    let holders: Vec<u32> = all.copied().filter(|pid| occurrences(*pid, key_end) > 0).collect();
    assert_eq!(holders, Vec::from_iter(front), "{top}, {below:?}, launcher {launcher}");
}

/// How often `value` stands in the memory of a process.
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
            // What was never touched, or belongs to a device, cannot be read.
            let read = memory.read_at(&mut piece, at).unwrap_or(0);
            count += piece[..read].windows(value.len()).filter(|window| *window == value).count();
        }
    }
    count
}

/// A launcher that read another value than the front looks for gives it to nobody.
#[test]
fn a_secret_that_changed_is_given_behind_a_reload_only() {
    let home = TestHome::init();
    name(&home, &sources(&home));
    add_says(&home);
    let key = home.key("ops", "operator");
    let server = home.serve();
    let says = || server.run(&key, "says(how=\"plain\")").json()["steps"][0].clone();
    assert_eq!(says()["status"], "ok");
    private(&home.beside("password"), "another-password");
    // What was read stays in use, until somebody else reads.
    assert_eq!(says()["status"], "ok");
    crate::jobs::kill_launcher(&server.descendants());
    until("the next launcher answers", || {
        let step = says();
        assert!(!step.to_string().contains("another-password") && step["status"] != "ok", "{step}");
        step["result"]["error"].as_str().is_some_and(|e| e.starts_with("the tool's secrets are not those"))
    });
    home.expect(0, &["reload"]);
    let step = says();
    assert!(step["status"] == "ok" && step["result"].to_string().contains("[secret:password:"), "{step}");
    // One that is gone is told at the reload; the rules before, and the tool, stay.
    std::fs::remove_file(home.beside("password")).expect("removed");
    assert!(text(&home.par(&["reload"]).stderr).contains("the secret `password`: "));
    assert_eq!(says()["status"], "ok");
    // A new launcher cannot read it either, and says so by name.
    crate::jobs::kill_launcher(&server.descendants());
    until("the next launcher refuses", || says()["result"].to_string().contains("the secret `password`: "));
    // One that is not named at all is a fault of the manifest, with its line.
    let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    let line = toml.lines().find(|line| line.starts_with("password = ")).expect("a line");
    home.configure(&toml.replace(line, ""));
    let refused = text(&home.par(&["tool", "list"]).stderr);
    assert!(refused.contains("says.toml:14: `password` is not in `[secrets]` of par.toml"), "{refused}");
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn a_reload_reads_them_anew() {
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
    // What cannot be read changes nothing.
    std::fs::remove_file(home.beside("word")).expect("removed");
    let refused = home.par(&["reload"]);
    assert!(text(&refused.stderr).contains("the secret `word`: "), "{}", text(&refused.stderr));
    assert!(runs("it is second-password").starts_with("it is [secret:word:"));
    home.expect(0, &["audit", "verify"]);
}
