//! Every fault of a file is reported at once.

use super::error::ManifestFaults;
use super::paths::Places;
use super::tool::Manifest;
use std::collections::BTreeMap;
use std::path::Path;

fn parse(text: &str) -> Result<Manifest, String> {
    let names = BTreeMap::from([("logs".to_owned(), "/var/log".into())]);
    let places = Places { names, private: vec!["/srv/par/etc".into()] };
    let file = Path::new("/srv/par/etc/tools.d/cert.toml");
    Manifest::parse(file, text.as_bytes(), &places).map_err(|faults: ManifestFaults| faults.to_string())
}

const GOOD: &str = r#"name = "cert"
summary = "Show when a certificate ends."
class = "read"
risk = "low"
command = ["/bin/sh", "-c", "true", "{path}"]
runtime = "dynamic"
untrusted_output = true

[resource]
type = "Path"
from = "/path"
canonical = "path"

[sandbox]
read = ["/etc/ssl/certs"]

[limits]
wall_ms_max = 10000
output_bytes_max = 65536
memory_bytes_max = 268435456
processes_max = 8

[input]
type = "object"
additionalProperties = false
required = ["path"]

[input.properties.path]
type = "string"
"#;

/// Finding B5: a tool of a person's own took 12 rounds, one for each missing member.
#[test]
fn a_file_with_only_a_command_gets_every_fault_and_its_lines_at_once() {
    let found = parse("command = [\"openssl\", \"version\"]\n").expect_err("nearly everything is missing");
    let expect = r#"/srv/par/etc/tools.d/cert.toml:1: the table `[limits]` is missing: add it at the end
    | [limits]
    | wall_ms_max = 10000
    | output_bytes_max = 65536
    | memory_bytes_max = 268435456
    | processes_max = 8
/srv/par/etc/tools.d/cert.toml:1: the table `[sandbox]` is missing: add it at the end
    | [sandbox]
    | read = []    # folders that the tool may read
/srv/par/etc/tools.d/cert.toml:1: the table `[resource]` is missing: add it at the end
    | [resource]
    | type = "Host"
    | is = "localhost"    # the call is about this host
/srv/par/etc/tools.d/cert.toml:1: the table `[input]` is missing: add it at the end
    | [input]
    | type = "object"
    | additionalProperties = false
/srv/par/etc/tools.d/cert.toml:1: a program needs `runtime`: "dynamic" if it needs shared libraries, else "static"
    | runtime = "dynamic"
/srv/par/etc/tools.d/cert.toml:1: `untrusted_output` is missing: add
    | untrusted_output = true    # a run that reads the output is tainted
/srv/par/etc/tools.d/cert.toml:1: `risk` is missing: add
    | risk = "low"    # low, medium or high
/srv/par/etc/tools.d/cert.toml:1: `class` is missing: add
    | class = "read"    # read, write, exec, net or admin
/srv/par/etc/tools.d/cert.toml:1: `summary` is missing: add
    | summary = "One sentence for the model and for people."
/srv/par/etc/tools.d/cert.toml:1: `name` is missing: add
    | name = "cert"
"#;
    let mut expect: Vec<&str> = expect.lines().collect();
    let mut found: Vec<&str> = found.lines().collect();
    // Where the program is depends on the machine.
    let program = found.iter().position(|line| line.contains(":1: `openssl` is not an absolute path"));
    found.remove(program.expect("the program"));
    found.sort_unstable();
    expect.sort_unstable();
    assert_eq!(found, expect);
}

/// Finding B5: pasting what the errors show makes the file load.
#[test]
fn what_the_errors_say_to_paste_makes_the_manifest_load() {
    let mut top = String::from("command = [\"/bin/sh\", \"-c\", \"true\"]\n");
    let mut tables = String::new();
    let found = parse(&top).expect_err("nearly everything is missing");
    for fault in found.split("/srv/par/etc/tools.d/cert.toml") {
        let lines: String = fault
            .lines()
            .filter_map(|line| line.strip_prefix("    | "))
            .map(|line| format!("{line}\n"))
            .collect();
        if lines.starts_with('[') { tables += &lines } else { top += &lines }
    }
    let manifest = parse(&format!("{top}{tables}")).expect("a manifest");
    assert_eq!(manifest.name, "cert");
}

/// Findings A13 and B5.
#[test]
fn faults_in_every_table_are_reported_together_with_their_lines() {
    assert!(parse(GOOD).is_ok(), "{:?}", parse(GOOD));
    let broken = GOOD
        .replace("class", "clas")
        .replace("\"low\"", "\"small\"")
        .replace("\"/bin/sh\"", "\"sh\"")
        .replace("from = \"/path\"", "from = \"/file\"\ncolour = 1")
        .replace("[\"/etc/ssl/certs\"]", "[\"/proc\", \"certs\", \"@nowhere\"]")
        .replace("wall_ms_max = 10000", "wall_ms_max = 0\nwall_s = 1")
        .replace("output_bytes_max = 65536\n", "")
        .replace("additionalProperties = false\n", "");
    let found = parse(&broken).expect_err("faults");
    let lines: Vec<&str> =
        found.lines().filter_map(|line| line.strip_prefix("/srv/par/etc/tools.d/cert.toml")).collect();
    let sh =
        ["/usr/bin/sh", "/usr/local/bin/sh", "/bin/sh"].into_iter().find(|path| Path::new(path).is_file());
    let expect = [
        ":3: unknown key `clas`: did you mean `class`?".to_owned(),
        ":4: unknown variant `small`, expected one of `low`, `medium`, `high`".to_owned(),
        format!(":5: `sh` is not an absolute path: did you mean `{}`?", sh.expect("a shell")),
        ":9: `from = \"/file\"` does not point to a required string".to_owned(),
        ":12: unknown key `colour` in `[resource]`: expected one of type, from, canonical, is, members, content, copy_in"
            .to_owned(),
        ":16: `/proc` is in /proc, which cannot be granted: `proc = \"self\"` gives a program its own /proc, \
         `proc = \"host\"` gives a builtin the host's figures"
            .to_owned(),
        ":16: `certs` is not an absolute path without `.` and `..`".to_owned(),
        ":16: `@nowhere` is not in `[paths]` of par.toml: expected one of @logs".to_owned(),
        ":18: `output_bytes_max` is missing: add below `[limits]`".to_owned(),
        ":19: `wall_ms_max = 0` is not between 1 and 3600000".to_owned(),
        ":20: unknown key `wall_s` in `[limits]`: expected one of wall_ms_max, output_bytes_max, \
         memory_bytes_max, processes_max, file_bytes_max, network_bytes_max, written_bytes_max, written_files_max"
            .to_owned(),
        ":24: `additionalProperties = false` is missing, and an open object is refused: write below `[input]`"
            .to_owned(),
    ];
    assert_eq!(lines, expect);
    let only = GOOD.replace("\"/bin/sh\"", "\"sh\"");
    let sh = sh.map_or_else(String::new, |path| format!(": did you mean `{path}`?"));
    let expect = format!("/srv/par/etc/tools.d/cert.toml:5: `sh` is not an absolute path{sh}");
    assert_eq!(parse(&only).map(|_| ()), Err(expect));
}

/// A syntax error hides the rest, and is reported alone.
#[test]
fn a_line_that_is_not_toml_is_the_only_fault() {
    let found = parse("class = read\nname = \n").expect_err("not TOML");
    assert_eq!(
        found.lines().next().map(|line| line.starts_with("/srv/par/etc/tools.d/cert.toml:1: ")),
        Some(true)
    );
    assert!(!found.contains("is missing"), "{found}");
}

/// A value that is wrong hides no other fault, and is named with the word that was meant.
#[test]
fn a_wrong_class_does_not_hide_the_faults_of_the_command() {
    let text = GOOD
        .replace("class = \"read\"", "class = \"reed\"")
        .replace("\"/bin/sh\", ", "\"sh\", ")
        .replace("runtime = \"dynamic\"\n", "")
        .replace("risk = ", "rsik = ");
    let found = parse(&text).expect_err("refused");
    for part in
        ["did you mean `read`?", "did you mean `risk`?", "did you mean `/usr/bin/sh`?", "needs `runtime`"]
    {
        assert!(found.contains(part), "{part:?} in {found}");
    }
}

const FRONT: &str = r#"name = "look"
summary = "Look a name up."
class = "net"
risk = "low"
front = "dns_lookup"
untrusted_output = true

[resource]
type = "Host"
from = "/name"
canonical = "name"

[sandbox]
connect = ["*:53"]

[limits]
wall_ms_max = 10000
output_bytes_max = 65536

[input]
type = "object"
additionalProperties = false
required = ["name"]

[input.properties.name]
type = "string"
"#;

/// A tool that runs in the front is given nothing of the host, has the class of what it does, and
/// is about what it reaches.
#[test]
fn a_tool_of_the_front_has_nothing_but_its_function() {
    let good = parse(FRONT).expect("a manifest");
    assert!(good.front().is_some() && good.is_structured() && !good.is_proxied());
    let at = |from: &str, to: &str| {
        assert!(FRONT.contains(from), "{from}");
        parse(&FRONT.replace(from, to)).expect_err(to)
    };
    let given = "a tool that runs in the front is given nothing of the host";
    for (from, to, why) in [
        ("front = ", "builtin = \"list_dir\"\nfront = ", "has both `front` and `builtin`"),
        ("front = ", "command = [\"/bin/sh\"]\nfront = ", "has both `front` and `command`"),
        ("connect = ", "read = [\"/var/log\"]\nconnect = ", given),
        ("connect = ", "exec = [\"/bin/sh\"]\nconnect = ", given),
        ("connect = ", "secrets = [\"a\"]\nconnect = ", given),
        ("connect = ", "proc = \"host\"\nconnect = ", given),
        ("connect = [\"*:53\"]", "connect = [\"unix:/run/x\"]", "a tool about a host needs `connect`"),
        ("connect = [\"*:53\"]", "", "a tool about a host needs `connect`"),
        ("wall_ms_max", "memory_bytes_max = 1\nwall_ms_max", "has only `wall_ms_max` and `output_bytes_max`"),
        ("class = \"net\"", "class = \"read\"", "this tool is of class `net`"),
        ("risk = ", "output = \"json\"\nrisk = ", "is always one JSON object"),
        ("risk = ", "stdin = \"json\"\nrisk = ", "without standard input"),
        ("canonical = \"name\"", "canonical = \"host\"", "with `canonical = \"name\"`"),
        ("dns_lookup", "tcp_probe", "with `canonical = \"host\"`"),
        ("dns_lookup", "recall", "this tool is of class `read`"),
        ("dns_lookup", "format_disk", "format_disk"),
    ] {
        let told = at(from, to);
        assert!(told.contains(why), "{to}: {told}");
    }
}

/// A name to look up has one spelling, and no port.
#[test]
fn a_name_to_look_up_is_a_name() {
    use super::host_form::HostForm;
    assert_eq!(
        HostForm::Name.read("example.com").map(|host| host.to_string()),
        Ok("example.com:53".to_owned())
    );
    for words in ["Example.com", "example.com.", "example.com:443", "127.0.0.1", "[::1]", "a b", "", "a/b"] {
        assert!(HostForm::Name.read(words).is_err(), "{words}");
    }
    let host = HostForm::Name.read("example.com").expect("a name");
    assert_eq!(HostForm::Name.spell(&host), "example.com");
}

/// Issue 15, finding 14: mending the first faults of a file brought up others that it had all
/// along.
#[test]
fn a_fault_that_is_mended_brings_up_no_other() {
    let broken = GOOD
        .replace("risk = ", "risk = \"low\"\nruntim = \"x\"\n#")
        .replace("runtime = \"dynamic\"\n", "runtime = \"dynamik\"\n")
        .replace("[\"/bin/sh\", \"-c\", \"true\", \"{path}\"]", "[\"uptime\", \"{foo}\", \"{bar}\"]")
        .replace("untrusted_output = true", "untrusted_output = false")
        .replace("\"Path\"", "\"Hots\"")
        .replace("canonical = \"path\"", "canonical = \"path\"\ncontent = \"x\"")
        .replace("read = [", "write = [\"@data\"]\nsecrets = [\"A B\"]\ngroups = [\"no_such_group\"]\ncode = [\"here\"]\nread = [");
    let found = parse(&broken).expect_err("faults");
    for part in [
        ":5: unknown key `runtim`",
        ":7: `uptime` is not an absolute path",
        ":7: `{foo}` is not a declared string or integer argument",
        ":7: `{bar}` is not a declared string or integer argument",
        ":8: unknown variant `dynamik`",
        ":9: only a result that is a JSON object can be trusted",
        ":12: `type = \"Hots\"` is not one of Path, Project, Service, Job and Host: did you mean `Host`?",
        ":18: `@data` is not in `[paths]` of par.toml",
        ":20: ",
        ":21: `here` is not an absolute path",
    ] {
        assert!(found.contains(&format!("cert.toml{part}")), "{part:?} in {found}");
    }
}

/// Issue 15, finding 14: every fault has a line, and a name that is not there the known ones.
#[test]
fn every_fault_of_a_manifest_has_a_line_and_the_known_names() {
    let places = Places {
        names: [("logs".to_owned(), "/var/log".into()), ("www".to_owned(), "/var/www".into())].into(),
        private: Vec::new(),
    };
    let file = Path::new("/srv/par/etc/tools.d/cert.toml");
    for (from, to, expect) in [
        (
            "\"/etc/ssl/certs\"",
            "\"@log\"",
            ":15: `@log` is not in `[paths]` of par.toml: did you mean `@logs`? expected one of @logs, @www",
        ),
        ("read = [", "read=[\"here\",", ":15: `here` is not an absolute path"),
        ("[limits]", "[sizes]", ":29: the table `[limits]` is missing"),
    ] {
        let text = GOOD.replacen(from, to, 1);
        let found = Manifest::parse(file, text.as_bytes(), &places).map(|_| ()).expect_err(to).to_string();
        assert!(found.contains(expect), "{expect} in {found}");
        let headed: Vec<&str> = found.lines().filter(|line| line.contains("cert.toml")).collect();
        assert!(headed.iter().all(|line| !line.contains("cert.toml: ")), "{found}");
    }
}
