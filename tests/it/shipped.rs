//! The shipped tools under the shipped rules: the page that describes them, and what they do not
//! show.

use crate::support::{TestHome, start, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Stdio};

/// Rows of the tables in docs/tools.md that follow `heading`: name, class, risk and summary.
fn rows(heading: &str) -> Vec<[String; 4]> {
    let page = include_str!("../../docs/tools.md");
    let section =
        page.split(heading).nth(1).expect("a section").split("\nThese are off").next().expect("a part");
    let cells = |line: &str| {
        let cells: Vec<String> =
            line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        cells.try_into().expect("four cells")
    };
    section.lines().filter(|line| line.starts_with("| `")).map(cells).collect()
}

/// `par tool list` says what docs/tools.md says.
#[test]
fn the_page_lists_the_tools_that_are_on() {
    let home = TestHome::init();
    let listed = home.expect(0, &["--json", "tool", "list"]);
    let word = |tool: &Value, name: &str| tool[name].as_str().expect(name).to_owned();
    let listed: Vec<[String; 4]> = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|tool| {
            [
                format!("`{}`", word(&tool, "name")),
                word(&tool, "class"),
                word(&tool, "risk"),
                word(&tool, "summary"),
            ]
        })
        .collect();
    assert_eq!(rows("## The shipped tools"), listed);
}

/// A process that holds secrets in its environment and in its arguments.
fn holder() -> Child {
    let mut command = start(Path::new("/bin/sh"));
    command.args(["-c", "read line", "ARGUMENT-S3CRET", "--token=TOKEN-S3CRET"]);
    command.env_clear().env("API_TOKEN", "ENV-S3CRET").stdin(Stdio::piped());
    command.spawn().expect("started")
}

/// H22: under the shipped rules no secret of another process or of a configuration file is in a
/// result, and none is on the ledger.
#[test]
fn planted_secrets_are_in_no_result_and_not_on_the_ledger() {
    let home = TestHome::init();
    let mut holder = holder();
    let pid = holder.id();
    let config = home.path("workspace/app.toml");
    std::fs::write(
        &config,
        "port = 80\n[db]\npassword = \"CONFIG-S3CRET\"\nurl = \"pg://u:URL-S3CRET@h/d\"\n",
    )
    .expect("written");
    let mut all = String::new();
    for tool in [
        "connections",
        "cron_list",
        "disk_io",
        "disk_usage",
        "health_check",
        "interfaces",
        "listening_ports",
        "memory_usage",
        "pending_updates",
        "process_list",
    ] {
        all += &home.expect(0, &["--json", "tool", "call", tool]);
    }
    all +=
        &home.expect(0, &["--json", "tool", "call", "process_list", "{\"sort\":\"memory\",\"limit\":200}"]);
    all += &home.expect(0, &["--json", "tool", "call", "process_info", &format!("{{\"pid\":{pid}}}")]);
    let path = config.display();
    all += &home.expect(0, &["--json", "tool", "call", "read_config", &format!("{{\"path\":\"{path}\"}}")]);
    assert!(all.contains("[left out]") && !all.contains("S3CRET"), "{all}");
    // The rules permit no arguments.
    let wanted = format!("{{\"pid\":{pid},\"arguments\":true}}");
    let refused = home.par(&["--json", "tool", "call", "process_info", &wanted]);
    let told = text(&refused.stdout);
    assert!(told.contains("\"decision\":\"deny\"") && !told.contains("S3CRET"), "{told}");
    assert!(!home.expect(0, &["--json", "audit", "show"]).contains("S3CRET"));
    // A rule that permits them shows them, without what looks like a secret.
    home.add(
        "policies/50-arguments.cedar",
        "@id(\"arguments\")\npermit (principal in PAR::Role::\"operator\", action == PAR::Action::\"process_info\",\n\
         resource == PAR::Host::\"localhost\");\n",
    );
    let shown = home.expect(0, &["--json", "tool", "call", "process_info", &wanted]);
    assert!(shown.contains("ARGUMENT-S3CRET") && shown.contains("--token=[left out]"), "{shown}");
    assert!(!shown.contains("TOKEN-S3CRET") && !shown.contains("ENV-S3CRET"), "{shown}");
    holder.kill().expect("killed");
    holder.wait().expect("reaped");
}
