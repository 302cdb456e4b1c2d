//! Models by name: their keys, what they used, and what is shown of them.

use crate::model::http;
use crate::support::{TestHome, text};
use crate::terminal::{next_chunk, on_terminal};
use nix::sys::signal::Signal;
use nix::sys::termios::{LocalFlags, tcgetattr};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// A server of chat completions that says what it is told to say, and remembers the heads of its
/// requests.
struct HeadServer {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
    /// Statuses and messages, one for each request; the last one stays.
    says: Arc<Mutex<Vec<(u16, Value)>>>,
}

impl HeadServer {
    fn start(text: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("address").to_string();
        let (heads, says) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::new(Mutex::new(vec![(200, said(text))])));
        let (seen, script) = (heads.clone(), says.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (status, message) = next(&mut script.lock().expect("says"));
                seen.lock().expect("heads").extend(answer(stream, status, &message));
            }
        });
        Self { address, heads, says }
    }

    fn say(&self, status: u16, text: &str) {
        *self.says.lock().expect("says") = vec![(status, said(text))];
    }

    /// Proposes once to read this file, and then refuses its key.
    fn read_and_fail(&self, path: &Path) {
        let arguments = json!({ "path": path }).to_string();
        let function = json!({ "name": "read_file", "arguments": arguments });
        let call = json!({ "id": "1", "type": "function", "function": function });
        let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
        *self.says.lock().expect("says") = vec![(200, message), (401, said(""))];
    }

    /// The keys that its requests came with.
    fn keys(&self) -> Vec<String> {
        let heads = self.heads.lock().expect("heads");
        let of = |head: &String| {
            head.lines().find_map(|line| Some(line.strip_prefix("authorization: ")?.to_owned()))
        };
        heads
            .iter()
            .filter(|head| head.starts_with("POST"))
            .map(|head| of(head).unwrap_or_default())
            .collect()
    }

    fn table(&self, name: &str, more: &str) -> String {
        format!(
            "[models.{name}]\nwire = \"openai\"\nbase_url = \"http://{}/v1\"\nmodel = \"m-{name}\"\n{more}",
            self.address
        )
    }
}

fn next(says: &mut Vec<(u16, Value)>) -> (u16, Value) {
    if says.len() > 1 { says.remove(0) } else { says[0].clone() }
}

fn said(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

fn answer(stream: TcpStream, status: u16, message: &Value) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("length");
        }
        head.push_str(&line);
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let usage = json!({ "prompt_tokens": 1_000, "completion_tokens": 100 });
    let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
    let body = json!({ "model": "served", "choices": choices, "usage": usage }).to_string();
    let _sent = reader.get_mut().write_all(http(status, "", &body).as_bytes());
    Some(head)
}

const LOGS: &str = "[paths]\nlogs = \"/var/log\"\n";
const KEY: &str = "sk-test-0123456789abcdef";

fn lines(told: &str) -> Vec<Value> {
    told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The key is typed without echo, is readable only by its owner, and a reload gives it to the
/// provider and to the finder of secrets at once.
#[test]
fn a_key_from_a_login_is_used_after_a_reload_and_is_never_shown() {
    let model = HeadServer::start("no key yet");
    let home = TestHome::init();
    home.configure(&format!("[llm]\nuse = [\"fast\"]\n{}{LOGS}", model.table("fast", "")));
    let key = home.key("ops", "operator");
    let server = home.serve();
    assert_eq!(server.run(&key, "hello").json()["answer"], "no key yet");
    assert_eq!(model.keys(), [""]);
    let seen =
        on_terminal(&home, &["model", "login", "fast"], false, "(it is not shown): ", &format!("{KEY}\n"));
    assert_eq!(seen.code, Some(0), "{}", seen.screen);
    assert!(!seen.screen.contains(KEY) && seen.screen.contains("run `par reload`"), "{}", seen.screen);
    let file = home.path("etc/credentials/fast");
    assert_eq!(std::fs::metadata(&file).expect("stored").mode() & 0o777, 0o600);
    // Not before the reload.
    assert_eq!(server.run(&key, "hello").json()["answer"], "no key yet");
    home.expect(0, &["reload"]);
    model.say(200, &format!("your key is {KEY}"));
    let told = server.run(&key, "hello").json();
    let answer = told["answer"].as_str().expect("an answer");
    assert!(answer.starts_with("your key is [secret:models.fast.key:"), "{told}");
    assert_eq!(model.keys(), ["", "", &format!("Bearer {KEY}")]);
    // An error of the server that repeats it is cleaned too.
    model.say(401, KEY);
    let told = server.run(&key, "hello").json().to_string();
    assert!(told.contains("the server answered 401") && !told.contains(KEY), "{told}");
    home.expect(0, &["model", "logout", "fast"]);
    assert!(!file.exists());
    model.say(200, "bye");
    home.expect(0, &["reload"]);
    assert_eq!(server.run(&key, "hello").json()["answer"], "bye");
    assert_eq!(model.keys().last().map(String::as_str), Some(""));
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}

/// A key goes only to the server that it was configured for: with changed settings a reload leaves
/// keys as they are, and says that the settings wait for a start.
#[test]
fn a_reload_with_changed_settings_of_models_leaves_their_keys() {
    let model = HeadServer::start("ok");
    let home = TestHome::init();
    let toml = |more: &str| format!("[llm]\nuse = [\"fast\"]\n{}{LOGS}", model.table("fast", more));
    home.configure(&toml(""));
    let key = home.key("ops", "operator");
    crate::secrets::private(&home.beside("own"), "sk-test-of-another-server");
    let server = home.serve();
    home.configure(&toml(&format!("key = \"file:{}\"\n", home.beside("own").display())));
    let told = home.expect(0, &["reload"]);
    assert!(told.contains("! models.fast.key takes effect at the next start"), "{told}");
    server.run(&key, "hello");
    assert_eq!(model.keys(), [""]);
    assert_eq!(server.stop(), Some(0));
}

/// A key that is gone is used no more after a reload, whatever else has changed. A new one is used
/// only if it goes where the earlier one went, and the reload says so.
#[test]
fn a_removed_key_goes_out_of_use_and_a_new_one_goes_nowhere_else() {
    const NEW: &str = "sk-test-9876543210fedcba";
    let (model, elsewhere) = (HeadServer::start("ok"), HeadServer::start("ok"));
    let home = TestHome::init();
    let toml = |model: &HeadServer, price: u32| {
        let price = format!("input_price = {price}\n");
        home.configure(&format!("[llm]\nuse = [\"fast\"]\n{}{LOGS}", model.table("fast", &price)));
    };
    toml(&model, 1);
    std::fs::create_dir(home.path("etc/credentials")).expect("made");
    let file = home.path("etc/credentials/fast");
    let store = |text: &str| crate::secrets::private(&file, text);
    store(KEY);
    let key = home.key("ops", "operator");
    let server = home.serve();
    let sent = || {
        server.run(&key, "hello");
        model.keys().pop().expect("a request")
    };
    assert_eq!(sent(), format!("Bearer {KEY}"));
    // A price does not say where a key goes.
    toml(&model, 2);
    home.expect(0, &["model", "logout", "fast"]);
    let told = home.expect(0, &["reload"]);
    assert!(told.contains("- key of the model fast") && told.contains("! models.fast.input_price"), "{told}");
    assert_eq!(sent(), "");
    store(KEY);
    let told = home.expect(0, &["reload"]);
    assert!(told.contains("+ key of the model fast"), "{told}");
    assert_eq!(sent(), format!("Bearer {KEY}"));
    // The new key is for another server, which is asked after the next start.
    toml(&elsewhere, 2);
    store(NEW);
    let told = home.expect(0, &["reload"]);
    let expect = "! the new key of the model fast is not used: models.fast.base_url changed too";
    assert!(told.contains(expect), "{told}");
    let told = lines(&home.expect(0, &["--json", "reload"])).remove(0);
    assert_eq!(told["model_keys"]["not_taken"], json!({ "fast": ["models.fast.base_url"] }), "{told}");
    assert_eq!(sent(), format!("Bearer {KEY}"));
    // A key that others can read is not taken without a word.
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&file, mode(0o644)).expect("mode");
    let told = text(&home.par(&["reload"]).stderr);
    assert!(told.contains("nothing was loaded") && told.contains("etc/credentials/fast"), "{told}");
    std::fs::remove_file(&file).expect("removed");
    let told = home.expect(0, &["reload"]);
    assert!(told.contains("- key of the model fast"), "{told}");
    assert_eq!((sent(), elsewhere.keys().len()), (String::new(), 0));
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn models_are_listed_tested_and_their_use_is_counted() {
    let model = HeadServer::start("ok");
    let home = TestHome::init();
    let prices = "input_price = 2.5\noutput_price = 10\nkey = \"none\"\n";
    home.configure(&format!(
        "[llm]\nuse = [\"fast\"]\n{}{}{LOGS}",
        model.table("fast", prices),
        model.table("spare", "")
    ));
    let listed = lines(&home.expect(0, &["--json", "model", "list"]));
    assert_eq!(listed.iter().map(|one| &one["name"]).collect::<Vec<_>>(), ["fast", "spare"]);
    assert_eq!((&listed[0]["use"], &listed[1]["use"]), (&json!(1), &Value::Null));
    let table = home.expect(0, &["model", "list"]);
    assert!(table.contains("credential model_spare, ") && table.contains("m-fast"), "{table}");
    let status = |name: &str| lines(&home.expect(0, &["--json", "model", "status", name])).remove(0);
    assert_eq!(status("fast")["last_24_hours"]["replies"], 0);
    for _ in 0..2 {
        home.expect(0, &["run", "hello"]);
    }
    let told = status("fast");
    let expect = json!({ "replies": 2, "input_tokens": 2_000, "output_tokens": 200, "erased": 0, "money": "0.007",
            "errors": 0, "newest_error": null });
    assert_eq!((&told["last_24_hours"], &told["status"]), (&expect, &json!(200)), "{told}");
    assert_eq!(status("spare")["last_24_hours"]["money"], Value::Null);
    let reply = home.entries(&["kind:model.reply"]).remove(0);
    let reply = home.entry(reply["seq"].as_u64().expect("seq"));
    assert_eq!((&reply["payload"]["named"], &reply["payload"]["model"]), (&json!("fast"), &json!("served")));
    let tested = lines(&home.expect(0, &["--json", "model", "test", "fast"])).remove(0);
    assert_eq!(
        (&tested["ok"], &tested["text"], &tested["input_tokens"]),
        (&json!(true), &json!("ok"), &json!(1_000))
    );
    assert!(home.expect(0, &["model", "test", "spare"]).starts_with("✓ spare  served answered `ok` in "));
    model.say(400, "");
    let failed = home.expect(1, &["model", "test", "fast"]);
    assert!(
        failed.starts_with("✗ fast  failed after ") && failed.contains("the server answered 400"),
        "{failed}"
    );
    // A test is not a run: the ledger has nothing of it.
    assert_eq!(home.entries(&["kind:model.reply"]).len(), 2);
}

/// Ctrl-C and a request to end do not wait for Enter, and the terminal shows again what is typed.
#[test]
fn a_login_that_is_interrupted_ends_at_once_and_restores_the_terminal() {
    let home = TestHome::init();
    home.configure(&format!(
        "[llm]\nuse = [\"fast\"]\n[models.fast]\nwire = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"\n{LOGS}"
    ));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let pty = nix::pty::openpty(None, None).expect("a pseudo-terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("descriptor"));
        let mut command = home.command(&["model", "login", "fast"]);
        let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("par starts");
        let (mut master, mut seen) = (File::from(pty.master), Vec::new());
        while !text(&seen).contains("(it is not shown): ") {
            seen.extend(next_chunk(&mut master).expect("a prompt"));
        }
        let is_shown = || tcgetattr(&pty.slave).expect("a terminal").local_flags.contains(LocalFlags::ECHO);
        assert!(!is_shown());
        master.write_all(b"sk-half").expect("typed");
        crate::support::signal(child.id(), signal);
        crate::support::until("the command ends", || child.try_wait().expect("waited for").is_some());
        assert_eq!(child.wait().expect("ended").code(), Some(1), "{signal}");
        assert!(is_shown() && !home.path("etc/credentials/fast").exists(), "{signal}");
    }
}

#[test]
fn a_login_is_refused_where_no_key_can_be_stored() {
    let home = TestHome::init();
    home.configure(&format!(
        "[llm]\nuse = [\"fast\"]\n[models.fast]\nwire = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"\n\
         [models.own]\nwire = \"offline\"\nkey = \"env:MY_KEY\"\n{LOGS}"
    ));
    let check = |args: &[&str], typed: &str, code: i32, expect: &str| {
        let mut command = home.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("par");
        child.stdin.take().expect("stdin").write_all(typed.as_bytes()).expect("typed");
        let ended = child.wait_with_output().expect("ends");
        let told = text(&ended.stderr) + &text(&ended.stdout);
        assert_eq!(ended.status.code(), Some(code), "{told}");
        assert!(told.contains(expect) && !told.contains("sk-"), "{told}");
    };
    check(&["model", "login", "fsat"], "sk-1", 2, "no model is named `fsat`: did you mean `fast`?");
    check(
        &["model", "login", "own"],
        "sk-1",
        2,
        "`models.own.key` says that the key of `own` is in variable MY_KEY",
    );
    check(&["model", "login", "fast"], "", 2, "the key is empty");
    check(&["model", "login", "fast"], "sk 1", 2, "contains a space");
    check(&["model", "logout", "fast"], "", 1, "no key is stored in ");
    // Piped in, and for the service manager.
    let credential = format!("LoadCredential=model_fast:{}", home.path("etc/credentials/fast").display());
    check(&["model", "login", "fast", "--credential"], "sk-0123456789\n", 0, &credential);
    assert_eq!(
        std::fs::read_to_string(home.path("etc/credentials/fast")).expect("stored"),
        "sk-0123456789\n"
    );
    // A backup has the configuration and no key.
    home.expect(0, &["key", "list"]);
    let backup = home.beside("backup");
    home.key("one", "viewer");
    home.expect(0, &["backup", backup.to_str().expect("UTF-8")]);
    assert!(backup.join("etc/par.toml").is_file() && !backup.join("etc/credentials").exists());
}

fn reply_of(told: &str) -> Value {
    serde_json::from_str(told).expect("JSON")
}

/// Only a server that is not in service leads to the next model, which is on record; after five
/// failures in a row the first is left alone.
#[test]
fn the_next_model_answers_if_the_first_is_not_in_service() {
    let (fast, local) = (HeadServer::start("by fast"), HeadServer::start("by local"));
    let home = TestHome::init();
    let tables = fast.table("fast", "key = \"none\"\n") + &local.table("local", "key = \"none\"\n");
    home.configure(&format!("[llm]\nuse = [\"fast\", \"local\"]\n{tables}{LOGS}"));
    let key = home.key("ops", "operator");
    let server = home.serve();
    let ask = || server.run(&key, "hello").json();
    let told = ask();
    assert_eq!((&told["answer"], &told["models"]), (&json!("by fast"), &json!(["fast"])), "{told}");
    // What the request itself brought about sends it to no other server.
    fast.say(400, "too long");
    let told = ask();
    assert_eq!((&told["status"], local.keys().len()), (&json!("failed"), 0), "{told}");
    fast.say(401, "");
    for _ in 0..5 {
        let told = ask();
        assert_eq!((&told["answer"], &told["models"]), (&json!("by local"), &json!(["local"])), "{told}");
    }
    assert_eq!((fast.keys().len(), local.keys().len()), (7, 5));
    // The breaker is open: the first is passed over.
    assert_eq!(ask()["answer"], "by local");
    assert_eq!((fast.keys().len(), local.keys().len()), (7, 6));
    let errors = home.entries(&["kind:model.error"]);
    assert_eq!(errors.len(), 6);
    let error = home.entry(errors[1]["seq"].as_u64().expect("seq"));
    assert_eq!(error["payload"]["named"], "fast", "{error}");
    // So it does not look healthy.
    let told = lines(&home.expect(0, &["--json", "model", "status", "fast"])).remove(0);
    let failed = &told["last_24_hours"];
    let newest = failed["newest_error"]["error"].as_str().expect("words");
    assert!(failed["errors"] == 6 && newest.starts_with("the server answered 401"), "{told}");
    let warnings = server.get(&key, "/health").json()["warnings"].to_string();
    assert!(warnings.contains("the newest 5 requests to the model `fast` have all failed"), "{warnings}");
    let asks = home.entries(&["kind:model.ask"]);
    let of = |seq: &Value| home.entry(seq.as_u64().expect("seq"))["payload"].clone();
    let told: Vec<(Value, Value)> = asks
        .iter()
        .map(|ask| of(&ask["seq"]))
        .map(|ask| (ask["name"].clone(), ask["fallback_of"].clone()))
        .collect();
    let (own, other) = ((json!("fast"), Value::Null), (json!("local"), json!("fast")));
    let failed = [own.clone(), other.clone()];
    let expect =
        [[own.clone(), own].as_slice(), &failed, &failed, &failed, &failed, &failed, &[other]].concat();
    assert_eq!(told, expect);
    let shown = home.expect(0, &["audit", "show", "kind:model.reply"]);
    assert!(shown.contains("local: by local") && shown.contains("fast: by fast"), "{shown}");
    // Later it is asked again, and is the first again.
    fast.say(200, "by fast again");
    crate::support::until("the first model is asked again", || ask()["answer"] == "by fast again");
    assert_eq!(server.stop(), Some(0));
    let told = home.par(&["run", "hello"]);
    assert!(text(&told.stderr).contains("; answered by fast"), "{}", text(&told.stderr));
    home.expect(0, &["audit", "verify"]);
    let told = reply_of(&home.expect(0, &["--json", "run", "hello"]));
    assert_eq!(told["models"], json!(["fast"]));
}

/// No fallback for what is untrusted, whatever the model.
const NO_FALLBACK: &str = r#"@id("no-fallback")
forbid (principal, action == PAR::Action::"model.ask", resource)
when { context.ask.fallback_of != "" && principal.taint.contains("untrusted") };
"#;

/// In the middle of a run, after a call: another model is another decision of the rules.
#[test]
fn a_fallback_in_the_middle_of_a_run_needs_a_rule_that_permits_it() {
    let (fast, local) = (HeadServer::start(""), HeadServer::start("by local"));
    let home = TestHome::init();
    let tables = fast.table("fast", "key = \"none\"\n") + &local.table("local", "key = \"none\"\n");
    home.configure(&format!("[llm]\nuse = [\"fast\", \"local\"]\n{tables}{LOGS}"));
    let key = home.key("ops", "operator");
    let note = home.path("workspace/note.txt");
    std::fs::write(&note, "words of another").expect("a file");
    let server = home.serve();
    let run = || {
        fast.read_and_fail(&note);
        server.run(&key, "go").json()
    };
    let told = run();
    assert_eq!((&told["status"], &told["answer"]), (&json!("done"), &json!("by local")), "{told}");
    assert_eq!(told["models"], json!(["fast", "local"]));
    home.add("policies/60-fallback.cedar", NO_FALLBACK);
    home.expect(0, &["reload"]);
    let told = run();
    assert_eq!((&told["status"], &told["said_by"]), (&json!("denied"), &json!("par")), "{told}");
    assert!(told["answer"].as_str().expect("words").contains("no-fallback"), "{told}");
    assert_eq!(local.keys().len(), 1);
    let asks = home.entries(&["kind:model.ask", "decision:deny"]);
    assert_eq!(asks.len(), 1);
    let ask = home.entry(asks[0]["seq"].as_u64().expect("seq"));
    assert_eq!((&ask["payload"]["name"], &ask["payload"]["fallback_of"]), (&json!("local"), &json!("fast")));
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
    home.expect(0, &["policy", "replay"]);
}

/// A model whose `key` is `none` needs no login, and `config check` asks for none.
#[test]
fn config_check_asks_for_no_key_where_the_file_says_none() {
    let home = crate::support::TestHome::init();
    let model = |key: &str| {
        home.configure(&format!(
            "[llm]\nuse = [\"own\"]\n[models.own]\nwire = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"\n{key}{LOGS}"
        ));
        let output = home.par(&["config", "check"]);
        crate::support::text(&output.stdout) + &crate::support::text(&output.stderr)
    };
    let (without, none) = (model(""), model("key = \"none\"\n"));
    assert!(without.contains("`par model login own`"), "{without}");
    assert!(!none.contains("par model login"), "{none}");
}

/// What would fail each request, and a key that others could read on the way.
#[test]
fn config_check_reports_settings_of_models_that_cannot_work() {
    let home = TestHome::init();
    crate::secrets::private(&home.beside("own"), KEY);
    let key = format!("key = \"file:{}\"\n", home.beside("own").display());
    let check = |settings: &str, code: i32, expect: &str| {
        home.configure(&format!(
            "[llm]\nuse = [\"own\"]\n[models.own]\nmodel = \"m\"\n{settings}{key}{LOGS}"
        ));
        let checked = home.par(&["config", "check"]);
        let told = text(&checked.stdout) + &text(&checked.stderr);
        assert!(checked.status.code() == Some(code) && told.contains(expect), "{told}");
    };
    let (wire, url) = ("wire = \"openai\"\n", "base_url = \"http://127.0.0.1:1\"\n");
    for (settings, code, expect) in [
        (&*format!("wire = \"opnai\"\n{url}"), 2, "par.toml: `models.own.wire`: unknown provider"),
        (&format!("wire = \"opnai\"\n{url}"), 2, ": did you mean `openai`?"),
        (&format!("{wire}{url}ca_file = \"nope.pem\"\n"), 2, "`models.own.ca_file`: "),
        (&format!("{wire}{url}window_tokens = 10\n"), 2, "`models.own.window_tokens`: must be at least 1024"),
        (&format!("{wire}{url}"), 0, "ok: "),
    ] {
        check(settings, code, expect);
    }
    let clear = "note  the key of the model `own` goes to llm.example.com:80 without encryption";
    check(&format!("{wire}base_url = \"http://llm.example.com/v1\"\n"), 0, clear);
}

#[test]
fn a_request_that_does_not_fit_by_itself_says_so() {
    let model = HeadServer::start("ok");
    let home = TestHome::init();
    let small = model.table("own", "key = \"none\"\nwindow_tokens = 1100\n");
    home.configure(&format!("[llm]\nuse = [\"own\"]\n{small}{LOGS}"));
    let told = reply_of(&text(&home.par(&["--json", "run", "hi"]).stdout));
    let answer = told["answer"].as_str().expect("words");
    assert_eq!((&told["limit"], model.keys().len()), (&json!("window_tokens"), 0), "{told}");
    assert!(answer.contains("the request itself") && answer.contains("of the model `own`"), "{answer}");
}
