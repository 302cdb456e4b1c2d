//! `par tool enable` and `par tool disable`, and the tools that `par init` enables.

use crate::support::{TestHome, text};

fn is_there(home: &TestHome, below: &str) -> bool {
    home.path("etc").join(below).is_file()
}

/// A manifest is renamed with the rules and cases that belong to it alone, and back.
#[test]
fn a_tool_is_switched_on_and_off_with_its_rules() {
    let home = TestHome::init();
    let told = home.expect(0, &["tool", "enable", "service_restart"]);
    for line in [
        "now etc/tools.d/service_restart.toml",
        "now etc/policies/30-service.cedar",
        "service_restart is on: class ",
        "callers with the role operator or admin may use it",
        "restart-nginx  policies/30-service.cedar:",
        "par reload",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert!(!is_there(&home, "tools.d/service_restart.toml.disabled"));
    home.expect(0, &["policy", "explain", "service_restart", "{\"service\":\"nginx.service\"}"]);
    home.expect(2, &["tool", "enable", "service_restart"]);
    home.expect(0, &["tool", "disable", "service_restart"]);
    assert!(is_there(&home, "tools.d/service_restart.toml.disabled"));
    assert!(is_there(&home, "policies/30-service.cedar.disabled"));
    home.expect(2, &["tool", "disable", "service_restart"]);
    home.expect(0, &["policy", "test"]);
}

/// A tool among others in a list of a rule and of its cases is taken out of both.
#[test]
fn a_tool_that_a_rule_names_among_others_is_taken_out_of_the_list() {
    let home = TestHome::init();
    home.expect(0, &["tool", "disable", "connections"]);
    let read = |below: &str| std::fs::read_to_string(home.path("etc").join(below)).expect("file");
    assert!(!read("policies/15-host.cedar").contains("\"connections\""));
    assert!(!read("policies/tests/15-host.toml").contains("\"connections\""));
    home.expect(0, &["policy", "test"]);
    let told = home.expect(0, &["tool", "enable", "connections"]);
    assert!(told.contains("no rule permits it yet: `par policy new"), "{told}");
    home.expect(0, &["policy", "new", "--who", "operator", "--may", "connections", "--on", "host:localhost"]);
    home.expect(0, &["tool", "call", "connections", "{}"]);
}

/// A rule and cases about one tool among others become comments, and come back.
#[test]
fn rules_about_one_tool_among_others_are_commented_out_and_in() {
    let home = TestHome::init();
    let read = || std::fs::read_to_string(home.path("etc/policies/10-read.cedar")).expect("file");
    let before = read();
    home.expect(0, &["tool", "disable", "health_check"]);
    assert!(read().contains("// off health_check: @id(\"read-health\")"), "{}", read());
    home.expect(0, &["policy", "test"]);
    home.expect(0, &["tool", "enable", "health_check"]);
    assert_eq!(read(), before);
    home.expect(0, &["tool", "call", "health_check", "{}"]);
}

/// If the rules do not load with the change, nothing changes.
#[test]
fn a_switch_that_would_not_load_changes_nothing() {
    let home = TestHome::init();
    home.add("tools.d/odd.toml.disabled", "name = \"odd\"\n");
    let told = home.par(&["tool", "enable", "odd"]);
    assert_eq!(told.status.code(), Some(2));
    let told = text(&told.stderr);
    assert!(told.contains("tools.d/odd.toml:") && told.contains("nothing was changed"), "{told}");
    assert!(is_there(&home, "tools.d/odd.toml.disabled") && !is_there(&home, "tools.d/odd.toml"));
    for wrong in ["../par", "Nothing", "conections"] {
        home.expect(2, &["tool", "enable", wrong]);
    }
    home.expect(0, &["policy", "check"]);
}

/// Only what reads is enabled, and only if it was asked for: here by `--yes`.
#[test]
fn init_enables_reading_tools_alone() {
    let home = TestHome::empty();
    let told: serde_json::Value =
        serde_json::from_str(&home.expect(0, &["init", "--yes", "--json"])).expect("JSON");
    let enabled = told["enabled"].as_array().expect("enabled");
    for tool in enabled.iter().map(|tool| tool.as_str().expect("a name")) {
        let shown = home.expect(0, &["tool", "show", tool, "--json"]);
        assert!(shown.replace(' ', "").contains("\"class\":\"read\""), "{shown}");
    }
    for tool in ["git_clone", "http_get", "service_restart"] {
        assert!(is_there(&home, &format!("tools.d/{tool}.toml.disabled")), "{tool}");
    }
    home.expect(0, &["policy", "check"]);
    let plain = TestHome::empty();
    let told = plain.expect(0, &["init"]);
    assert!(told.contains("Without a terminal nothing was asked"), "{told}");
}

/// The owner of the home hears how a tool that is shipped off is enabled, with and without a
/// server; for the model no tool has this name.
#[test]
fn a_call_of_a_tool_that_is_off_says_how_it_is_enabled() {
    let home = TestHome::init();
    let off = home.path("etc/tools.d/off_tool.toml.disabled");
    std::fs::write(off, "").expect("written");
    let called = || {
        let output = home.par(&["tool", "call", "off_tool"]);
        let says = crate::support::text(&output.stderr);
        assert!(says.contains("the tool `off_tool` is disabled: `par tool enable off_tool`"), "{says}");
    };
    called();
    let server = home.serve();
    called();
    assert_eq!(server.stop(), Some(0));
}
