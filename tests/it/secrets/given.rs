//! Secrets passed to a tool: they leave no trace and no copy, and change only with a reload.

use super::{PASSWORD, name, occurrences, private, raw_files, sources, traces};
use crate::support::{TestHome, text, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A tool that is given a secret outputs it in every way that it knows. `$1` is one.
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

/// The script `says`, which gets the secret `password`, and a program that reads it by its
/// descriptor number.
fn add_says(home: &TestHome) {
    std::fs::write(home.path("etc/jobs.d/says.sh"), SAYS).expect("script");
    let exec = ["/usr/bin/od", "/usr/bin/tr", "/usr/bin/base64"];
    let manifest = |name: &str, runs: &str, sandbox: &str| {
        format!(
            "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\n{runs}\n\
             untrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n[sandbox]\n{sandbox}\n\
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
    // Without a secret nothing is reported.
    let step = server.run(&key, "health_check()").json()["steps"][0].clone();
    let result = home.entry(step["ledger"]["result"].as_u64().expect("number"));
    assert!(result["payload"]["given"]["secrets"].is_null(), "{}", result["payload"]["given"]);
    let shown: Value =
        serde_json::from_str(&home.expect(0, &["--json", "tool", "show", "says"])).expect("JSON");
    assert_eq!(shown["secrets"], json!(["password"]));
    home.expect(0, &["audit", "verify"]);
}

/// Forks of a launcher have its memory: a hostile builtin finds no value there.
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
    // Before any call: a tool's output passes through the launcher.
    let launcher = crate::jobs::launcher(&server.descendants());
    let copies = |pid: u32| occurrences(pid, PASSWORD.as_bytes());
    assert_eq!(copies(launcher), 0);
    // The control: the front searches for the value, and so has it.
    let front = server.descendants().into_iter().filter(|pid| *pid != launcher).map(copies);
    assert!(front.sum::<usize>() > 0);
    let says = server.run(&key, "says(how=\"plain\")").json()["steps"][0].clone();
    assert_eq!(says["status"], "ok", "{says}");
}

/// A launcher that read another value than the front searches for passes it to no tool.
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
    // The old value stays in use until a reload.
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
    // A missing one is reported at the reload; the previous rules and the tool stay.
    std::fs::remove_file(home.beside("password")).expect("removed");
    assert!(text(&home.par(&["reload"]).stderr).contains("the secret `password`: "));
    assert_eq!(says()["status"], "ok");
    // A new launcher cannot read it either, and names it.
    crate::jobs::kill_launcher(&server.descendants());
    until("the next launcher refuses", || says()["result"].to_string().contains("the secret `password`: "));
    // One that is not configured at all is an error in the manifest, with its line.
    let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    let line = toml.lines().find(|line| line.starts_with("password = ")).expect("a line");
    home.configure(&toml.replace(line, ""));
    let refused = text(&home.par(&["tool", "list"]).stderr);
    assert!(refused.contains("says.toml:14: `password` is not in `[secrets]` of par.toml"), "{refused}");
    home.expect(0, &["audit", "verify"]);
}
