//! What the command line prints, word for word. What changes from run to run is replaced: folders,
//! names of the user, digests, identifiers, keys, times, and the width of columns.

use crate::support::{TestHome, copy_folder, start, text};
use std::path::Path;

/// The commands of one transcript on one home, each with its exit code, standard output and error.
fn check(name: &str, golden: &str, home: &TestHome, commands: &[&[&str]]) {
    let mut found = String::new();
    // A key's identifier is in the key when it is created, and in lists afterwards.
    let mut id = None;
    for args in commands {
        let output = home.par(args);
        let code = output.status.code().expect("code");
        let stdout = text(&output.stdout);
        id = stdout.strip_prefix("par_").and_then(|rest| rest.get(..8)).map(str::to_owned).or(id);
        let typed = args.join(" ").replace(&home.root().display().to_string(), "HOME");
        found.push_str(&format!("$ par {typed} → {code}\n"));
        let shown = stable(&stdout, home);
        found.push_str(&id.as_ref().map_or_else(|| shown.clone(), |id| shown.replace(id, "ID")));
        for line in stable(&text(&output.stderr), home).lines() {
            found.push_str(&format!("! {line}\n"));
        }
    }
    if found != golden {
        let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
        // If it cannot be written, the panic below shows everything.
        let _written = std::fs::write(&place, &found);
        panic!("tests/it/golden/{name}.txt\n{golden}\nis not {}\n{found}", place.display());
    }
}

fn stable(words: &str, home: &TestHome) -> String {
    let root = home.root().display().to_string();
    let user = text(&start(Path::new("id")).arg("-un").output().expect("id").stdout);
    let words = words.replace(&root, "HOME").replace(&format!("os:{}", user.trim()), "os:USER");
    // Which labelled paths exist differs between hosts.
    let lines = words.lines().filter(|line| !line.starts_with("note") || !line.ends_with("does not exist"));
    // So does the sandbox.
    let lines = lines.filter(|line| !line.starts_with("  missing: "));
    let lines =
        lines.map(|line| match line.starts_with("Sandbox: ") || line.starts_with("sandbox.minimum") {
            true => line.replace("standard", "LEVEL").replace("strict", "LEVEL"),
            false => line.to_owned(),
        });
    let lines: Vec<String> = lines.collect();
    let lines = lines.iter().map(|line| {
        // A column is as wide as its widest cell, which may be a name that changes.
        let mut cells = line.trim_start().split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let indent = if line.starts_with(' ') { "  " } else { "" };
        let first = cells.next().map(each_word).unwrap_or_default();
        cells.fold(format!("{indent}{first}"), |line, cell| format!("{line}  {}", each_word(cell))) + "\n"
    });
    lines.collect()
}

fn each_word(cell: &str) -> String {
    cell.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn word(word: &str) -> String {
    let plain = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let digits = plain.trim_start_matches("par/");
    let is_hex = digits.len() >= 12 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    // The whole word, because a key or a digest may by chance contain a `T` and end with a `Z`.
    let is_time = plain.parse::<jiff::Timestamp>().is_ok();
    let with = |name: &str| word.replace(plain, name);
    match plain {
        _ if is_hex => with("DIGEST"),
        _ if is_time => with("TIME"),
        _ if plain.starts_with("par_") => with("KEY"),
        _ if plain.starts_with("key:") => with("key:ID"),
        _ => word.to_owned(),
    }
}

#[test]
fn a_home_and_its_keys() {
    let home = TestHome::empty();
    check(
        "home",
        include_str!("golden/home.txt"),
        &home,
        &[
            &["audit", "verify"],
            &["init"],
            &["init"],
            &["key", "create", "ops", "--role", "operator", "--user", "anna"],
            &["key", "list"],
            &["key", "create", "ops", "--role", "root"],
            &["key", "revoke", "nobody"],
            &["audit", "show"],
            &["audit", "show", "999"],
            &["audit", "show", "colour:red"],
            &["audit", "verify"],
        ],
    );
}

#[test]
fn rules_and_tools() {
    let home = TestHome::init();
    check(
        "rules",
        include_str!("golden/rules.txt"),
        &home,
        &[
            &["config", "show"],
            &["config", "check"],
            &["config", "set"],
            &["tool", "list"],
            &["tool", "show", "rm"],
            &["tool", "show", "service_restart"],
            &["policy", "check"],
            &["policy", "explain", "health_check", "{}"],
            &["policy", "explain", "health_check", "{}", "--as", "viewer"],
            &["policy", "explain", "read_file", "{\"path\":\"/etc/shadow\"}"],
            &["policy", "explain", "read_file", "{\"path\":7}"],
            &["policy", "explain", "rm", "{}"],
            &["policy", "explain", "service_restart", "{}"],
            &["policy", "explain", "rm", "{}", "--as", "chef"],
        ],
    );
}

/// Cases that hold and that fail, what no case detects, and a load that is refused because of
/// failing cases.
#[test]
fn rules_that_are_tested() {
    let home = TestHome::init();
    let test: &[&[&str]] = &[&["policy", "test"]];
    check("test-shipped", include_str!("golden/test-shipped.txt"), &home, test);
    // Both next to the shipped cases.
    let add =
        |name: &str, text: &str| std::fs::write(home.path("etc/policies").join(name), text).expect("file");
    add(
        "50-own.cedar",
        "@id(\"few-lines\")\nforbid (principal, action == PAR::Action::\"tail_file\", resource)\n\
         when { context.input.lines > 500 && context.call.approved == \"no\" };\n",
    );
    let untested = home.expect(1, &["policy", "test"]);
    assert!(
        untested.contains("policies/50-own.cedar:1: no case notices when `few-lines` is dropped"),
        "{untested}"
    );
    home.expect(0, &["policy", "check"]);
    let json: serde_json::Value =
        serde_json::from_str(&home.expect(1, &["policy", "test", "--json"])).expect("JSON");
    assert_eq!(
        (&json["ok"], &json["failed"], &json["cases"]),
        (&false.into(), &serde_json::json!([]), &330.into())
    );
    assert_eq!(json["mutants"]["survivors"][0]["policy"], "few-lines");
    let own = "[[case]]\nname = \"few lines\"\nrole = \"operator\"\ntool = \"tail_file\"\n\
               arguments = { lines = 501 }\nresource = \"@logs/syslog\"\nexpect = \"deny\"\n\
               policies = [\"few-lines\"]\n";
    add("tests/50-own.toml", own);
    check("test-survivors", include_str!("golden/test-survivors.txt"), &home, test);
    add(
        "tests/50-own.toml",
        &own.replace("501", "500").replace("role = \"operator\"", "role = [\"operator\", \"viewer\"]"),
    );
    let both: &[&[&str]] = &[&["policy", "test"], &["policy", "check"]];
    check("test-fails", include_str!("golden/test-fails.txt"), &home, both);
    add("tests/50-own.toml", "[[case]]\nrole = 1\n");
    let told = home.par(&["policy", "test"]);
    assert_eq!(told.status.code(), Some(2));
    assert!(text(&told.stderr).contains("policies/tests/50-own.toml:2: "), "{}", text(&told.stderr));
}

/// Two folders of rules: what differs, and which decisions flip.
#[test]
fn rules_that_differ() {
    let home = TestHome::init();
    let (old, new) = (home.path("etc"), home.path("new"));
    copy_folder(&old, &new);
    let [old, new, absent] = [old, new, home.path("absent")].map(|path| path.display().to_string());
    let edit = |below: &str, find: &str, put: &str| {
        let path = home.path("new").join(below);
        let text = std::fs::read_to_string(&path).expect("file");
        assert!(text.contains(find), "{below} does not contain {find}");
        std::fs::write(path, text.replace(find, put)).expect("file");
    };
    assert_eq!(home.expect(0, &["policy", "diff", &old, &new]), "0 of 1827 decisions flip\n");
    edit("policies/20-deploy.cedar", "@require_approval(\"release\")", "@require_approval(\"night\")");
    edit(
        "policies/10-read.cedar",
        "resource in PAR::Path::\"@workspace\"",
        "resource in PAR::Path::\"@logs\"",
    );
    edit("par.toml", "\n[groups]\n", "\n[groups]\nnight = [\"ana\"]\n");
    std::fs::write(
        home.path("new/policies/50-own.cedar"),
        "@id(\"own\")\npermit (\n    principal in PAR::Role::\"viewer\",\n    \
         action == PAR::Action::\"health_check\",\n    resource\n);\n",
    )
    .expect("file");
    std::fs::remove_file(home.path("new/tools.d/tail_file.toml")).expect("removed");
    std::fs::remove_dir_all(home.path("new/policies/tests")).expect("removed");
    check(
        "diff",
        include_str!("golden/diff.txt"),
        &home,
        &[
            &["policy", "diff", &new, &new],
            &["policy", "diff", &old, &new],
            // One folder is compared with the home's own.
            &["policy", "diff", &new],
            &["policy", "diff", &absent, &new],
        ],
    );
    let json: serde_json::Value =
        serde_json::from_str(&home.expect(1, &["policy", "diff", &old, &new, "--json"])).expect("JSON");
    assert_eq!((&json["same"], &json["groups"]), (&false.into(), &true.into()));
    assert_eq!(json["policies"]["added"], serde_json::json!(["own"]));
    let flip = &json["flips"].as_array().expect("flips")[0];
    assert_eq!((&flip["old"]["answer"], &flip["new"]["answer"]), (&"allow".into(), &"deny".into()));
}

/// A change of cases alone, and one that only affects a tainted session.
#[test]
fn rules_that_differ_in_cases_or_for_the_tainted() {
    let home = TestHome::init();
    let (old, new) = (home.path("etc"), home.path("new"));
    let put = |below: &str, find: &str, put: &str| {
        let (from, to) = (old.join(below), new.join(below));
        let text = std::fs::read_to_string(from).expect("file");
        assert!(text.contains(find), "{below} does not contain {find}");
        std::fs::write(to, text.replace(find, put)).expect("file");
    };
    let diff =
        |code| home.expect(code, &["policy", "diff", &old.display().to_string(), &new.display().to_string()]);
    copy_folder(&old, &new);
    assert!(diff(0).starts_with("0 of "));
    let more = "[[case]]\nname = \"mine\"\nrole = \"viewer\"\ntool = \"deploy\"\nresource = \"demo\"\nexpect = \"deny\"\narguments = { version = \"1\" }\nceiling = []\n";
    std::fs::write(new.join("policies/tests/95-mine.toml"), more).expect("file");
    put(
        "policies/tests/20-deploy.toml",
        "a confirmation does not replace an approval",
        "a confirmation is not enough",
    );
    put("policies/tests/10-read.toml", "role = [\"operator\", \"admin\"]", "role = [\"operator\"]");
    let told = diff(1);
    for line in [
        "- case   policies/tests/20-deploy.toml: a confirmation does not replace an approval\n",
        "+ case   policies/tests/20-deploy.toml: a confirmation is not enough\n",
        "+ case   policies/tests/95-mine.toml: mine\n",
        "~ case   policies/tests/10-read.toml: ",
    ] {
        assert!(told.contains(line), "{told} does not contain {line}");
    }
    assert!(told.lines().last().is_some_and(|last| last.starts_with("0 of ")), "{told}");
    let again = home.path("again");
    copy_folder(&old, &again);
    std::fs::write(
        again.join("policies/45-mine.cedar"),
        "@id(\"mine\")\nforbid (principal, action == PAR::Action::\"health_check\", resource)\nwhen { principal.taint.contains(\"untrusted\") };\n",
    )
    .expect("file");
    let told = home.expect(1, &["policy", "diff", &old.display().to_string(), &again.display().to_string()]);
    let flips: Vec<&str> = told.lines().filter(|line| line.contains(" → ")).collect();
    assert_eq!(
        flips,
        ["operator", "admin"].map(|role| format!(
            "{role}, tainted health_check localhost: allow by read-health → deny by mine"
        )),
        "{told}"
    );
}

/// Files are formatted completely or not at all, with their comments and modes, and the shipped
/// ones are formatted.
#[test]
fn policies_that_are_laid_out() {
    let home = TestHome::init();
    assert_eq!(home.expect(0, &["policy", "fmt", "--check"]), "");
    let own = "// mine\n@id(\"own\")\nforbid(principal is PAR::Session,action,resource) // all\nwhen {principal.risk>9};\n";
    home.add("policies/50-own.cedar", own);
    let path = home.path("etc/policies/50-own.cedar");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(&path, mode).expect("mode");
    let read = || std::fs::read_to_string(&path).expect("file");
    assert_eq!(home.expect(1, &["policy", "fmt", "--check"]), "policies/50-own.cedar\n");
    assert_eq!(read(), own, "`--check` writes nothing");
    home.add("policies/60-own.cedar", "permit (");
    let refused = home.par(&["policy", "fmt"]);
    assert_eq!((refused.status.code(), read().as_str()), (Some(2), own));
    assert!(text(&refused.stderr).contains("policies/60-own.cedar:1: "), "{}", text(&refused.stderr));
    std::fs::remove_file(home.path("etc/policies/60-own.cedar")).expect("removed");
    assert_eq!(home.expect(0, &["policy", "fmt"]), "policies/50-own.cedar\n");
    let laid = "// mine\n@id(\"own\")\nforbid (\n    principal is PAR::Session,\n    action,\n    resource\n) // all\n\
                when { principal.risk > 9 };\n";
    assert_eq!(read(), laid);
    let meta = std::fs::metadata(&path).expect("file");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777, 0o640);
    assert_eq!(home.expect(0, &["policy", "fmt", "--check"]), "");
    home.expect(0, &["policy", "check"]);
    let names = std::fs::read_dir(home.path("etc/policies")).expect("folder").flatten();
    let beside = names.filter(|item| item.file_name().to_string_lossy().contains("par-new")).count();
    assert_eq!(beside, 0, "nothing is left beside");
    // Through a link another file would be written to.
    std::fs::rename(&path, home.path("elsewhere")).expect("moved");
    std::fs::write(home.path("elsewhere"), own).expect("file");
    std::os::unix::fs::symlink(home.path("elsewhere"), &path).expect("link");
    home.expect(1, &["policy", "fmt"]);
    assert_eq!(read(), own);
}

/// Decisions on the ledger are explained by their numbers, and the output says if the rules have
/// changed since.
#[test]
fn decisions_of_the_ledger() {
    let home = TestHome::init();
    std::fs::write(home.path("workspace/notes"), "n\n").expect("file");
    let path = home.path("workspace/notes").display().to_string();
    for code in [0, 3] {
        home.expect(code, &["tool", "call", "read_file", &format!("{{\"path\":\"{path}\"}}")]);
        home.add(
            "policies/50-own.cedar",
            "@id(\"no-notes\")\nforbid (principal, action, resource is PAR::Path)\n\
             when { context.call.calls_hour >= 1 };\n",
        );
    }
    home.expect(4, &["tool", "call", "deploy", "{\"project\":\"demo\",\"version\":\"1.0.1\"}"]);
    let numbers: Vec<String> =
        home.entries(&["kind:call.decision"]).iter().map(|entry| entry["seq"].to_string()).collect();
    let [first, second, third] = numbers.as_slice() else { panic!("{numbers:?}") };
    check(
        "explain-seq",
        include_str!("golden/explain-seq.txt"),
        &home,
        &[
            &["policy", "explain", first],
            &["policy", "explain", second],
            &["policy", "explain", third],
            &["policy", "explain", "1"],
            &["policy", "explain", "999"],
            &["policy", "explain", first, "--as", "viewer"],
            &["policy", "explain", "read_file"],
        ],
    );
    let json: serde_json::Value =
        serde_json::from_str(&home.expect(0, &["policy", "explain", first, "--json"])).expect("JSON");
    assert_eq!(
        (&json["recorded"]["same_rules"], &json["recorded"]["decision"]),
        (&false.into(), &"allow".into())
    );
}

/// What `explain` shows besides the decision: whose approval is needed, what a deny advises, what a
/// rule says about a user, and what could not be evaluated.
#[test]
fn rules_of_ones_own() {
    let home = TestHome::init();
    home.add(
        "policies/50-own.cedar",
        r#"@id("not-ben")
forbid (principal in PAR::User::"ben", action, resource);

@id("errs")
forbid (principal in PAR::User::"eve", action in PAR::Action::"call_tool", resource)
when { context.call.now.offset(duration("9223372036854775807ms")) == datetime("2030-01-01") };

@id("confirm-zoe")
@require_confirm
forbid (principal in PAR::User::"zoe", action in PAR::Action::"call_tool", resource)
when { context.call.approved == "no" };
"#,
    );
    let deploy = |project: &str| format!("{{\"project\":\"{project}\",\"version\":\"1.0.1\"}}");
    check(
        "explain",
        include_str!("golden/explain.txt"),
        &home,
        &[
            &["policy", "explain", "deploy", &deploy("demo")],
            &["policy", "explain", "deploy", &deploy("shop")],
            &["policy", "explain", "health_check", "{}", "--user", "ben"],
            &["policy", "explain", "health_check", "{}", "--user", "ana"],
            &["policy", "explain", "health_check", "{}", "--user", "zoe"],
        ],
    );
    let told = home.expect(3, &["policy", "explain", "health_check", "{}", "--user", "eve"]);
    let line = told.lines().find(|line| line.contains("errs")).expect("the rule that erred");
    assert!(line.contains("overflow") && line.ends_with("policies/50-own.cedar:4"), "{told}");
    let json = home.expect(3, &["policy", "explain", "--json", "health_check", "{}", "--user", "eve"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["errors"].as_array().map(Vec::len), Some(1), "{json}");
}

/// The output of `replay`: no difference, other rules with flips, rules in shadow mode, a missing
/// bundle.
#[test]
fn decisions_made_again() {
    let home = TestHome::init();
    let missing = "{\"path\":\"/var/log/no-such-file\"}";
    for _ in 0..7 {
        home.expect(3, &["tool", "call", "read_file", "{\"path\":\"/etc/shadow\"}"]);
        home.par(&["tool", "call", "read_file", missing]);
    }
    home.expect(0, &["tool", "call", "health_check", "{}"]);
    let other = home.root().join("other");
    std::fs::create_dir(&other).expect("folder");
    let tighter = r#"
@id("read-health")
permit (principal in PAR::Role::"admin", action == PAR::Action::"health_check", resource);

@id("read-logs")
permit (principal in PAR::Role::"operator", action in PAR::Action::"read", resource in PAR::Path::"@logs");

@id("no-such")
forbid (principal, action, resource == PAR::Path::"/var/log/no-such-file");

@id("wide")
@mode("shadow")
permit (principal in PAR::Role::"operator", action == PAR::Action::"health_check", resource);
"#;
    std::fs::write(other.join("all.cedar"), tighter).expect("policies");
    let (other, absent) = (other.display().to_string(), home.path("absent").display().to_string());
    let bundles = home.path("data/bundles");
    let check = |golden: &str, name: &str, commands: &[&[&str]]| check(name, golden, &home, commands);
    check(
        include_str!("golden/replay.txt"),
        "replay",
        &[
            &["policy", "replay"],
            &["policy", "replay", "--since", "2030-02-30"],
            &["policy", "replay", "--against", &other],
            &["policy", "replay", "--against", &absent],
            &["policy", "replay", "--since", "2999-01-01T00:00:00Z"],
        ],
    );
    std::fs::remove_dir_all(bundles).expect("removed");
    check(include_str!("golden/replay-gone.txt"), "replay-gone", &[&["policy", "replay"]]);
}

/// Which layer refuses a path to which tool.
#[test]
fn a_path_that_is_refused() {
    let home = TestHome::init();
    std::fs::create_dir_all(home.path("workspace/demo/secret")).expect("made");
    for (name, mode) in [("plain", 0o644), ("closed", 0o000), ("secret/s", 0o644)] {
        let path = home.path("workspace/demo").join(name);
        std::fs::write(&path, "x").expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("mode");
    }
    let secret = home.path("workspace/demo/secret").canonicalize().expect("real");
    let labels = home.path("etc/policies/entities.toml");
    let given = format!("\n[path.{:?}]\nlabels = [\"secret\"]\n", secret.to_str().expect("UTF-8"));
    std::fs::write(&labels, std::fs::read_to_string(&labels).expect("labels") + &given).expect("labels");
    home.key("ops", "operator");
    home.key("gone", "viewer");
    home.expect(0, &["key", "revoke", "gone"]);
    let at = |name: &str| home.path("workspace/demo").join(name).display().to_string();
    let (folder, plain, secret, absent) = (at(""), at("plain"), at("secret/s"), at("nope"));
    let folder = folder.trim_end_matches('/');
    check(
        "doctor-path",
        include_str!("golden/doctor-path.txt"),
        &home,
        &[
            &["doctor", "path", &plain],
            &["doctor", "path", folder, "--as", "ops"],
            &["doctor", "path", &secret, "--as", "admin"],
            &["doctor", "path", &plain, "--as", "viewer"],
            &["doctor", "path", "/etc/shadow"],
            &["doctor", "path", &absent],
            &["doctor", "path", &plain, "--as", "gone"],
            &["doctor", "path", &plain, "--as", "nobody"],
            &["doctor", "--quick", "path", &plain],
        ],
    );
    // The user that runs tools depends on the user that runs this.
    let told = home.expect(3, &["doctor", "path", &at("closed"), "--json"]);
    for line in told.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let is = (row["unix"].as_str(), row["refused_by"].as_str(), row["decision"].as_str());
        assert_eq!(is, (Some("may_not_read"), Some("unix rights"), Some("allow")), "{row}");
        assert!(row["unix_user"].is_string(), "{row}");
    }
    assert_eq!(told.lines().count(), 9);
    // Next to a running server the output is the same.
    let server = home.serve();
    let told = home.expect(0, &["doctor", "path", folder, "--as", "ops", "--json"]);
    assert!(told.contains("\"left_out\":[\""), "{told}");
    drop(server);
}
