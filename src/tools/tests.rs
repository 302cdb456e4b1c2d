//! Manifests with scripts and writable folders, and ids.

use super::{Catalog, Connect, IdKind, Manifest, Places, ProcView, ProposedCall, ResourceSpec, check_id};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const DEPLOY: &str = include_str!("../../tools.d/deploy.toml");
const SCRIPT: &str = include_str!("../../jobs.d/deploy.sh");

/// An `etc/` with the shipped job, and a workspace next to it.
struct Etc {
    dir: TempDir,
}

impl Etc {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        for name in ["etc", "etc/tools.d", "etc/jobs.d", "workspace"] {
            std::fs::create_dir(dir.path().join(name)).expect("folder");
        }
        let etc = Self { dir };
        etc.script(SCRIPT);
        etc
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("real").join(below)
    }

    fn script(&self, text: &str) {
        let path = self.path("etc/jobs.d/deploy.sh");
        std::fs::write(&path, text).expect("script");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("mode");
    }

    fn places(&self) -> Places {
        let names = BTreeMap::from([
            ("workspace".to_owned(), self.path("workspace")),
            ("etc".to_owned(), self.path("etc")),
        ]);
        Places { names, private: vec![self.path("etc")] }
    }

    fn parse(&self, manifest: &str) -> Result<Manifest, String> {
        let file = self.path("etc/tools.d/deploy.toml");
        let short = |e: &super::ManifestError| format!("{}: {}", e.line.unwrap_or(0), e.reason);
        let all = |e: super::ManifestFaults| e.0.iter().map(short).collect::<Vec<_>>().join("\n");
        Manifest::parse(&file, manifest.as_bytes(), &self.places()).map_err(all)
    }
}

#[test]
fn the_shipped_job_is_what_it_says() {
    let etc = Etc::new();
    let manifest = etc.parse(DEPLOY).expect("a manifest");
    let resource = ResourceSpec::Id { kind: IdKind::Project, argument: "project".to_owned() };
    assert_eq!(manifest.resource, resource);
    let [root] = manifest.write.as_slice() else { panic!("{:?}", manifest.write) };
    assert_eq!((root.folder.as_path(), root.by_id), (etc.path("workspace").as_path(), true));
    assert_eq!(manifest.script().expect("a script").bytes(), SCRIPT.as_bytes());
    assert!(manifest.is_structured());
}

#[test]
fn those_that_are_off_could_be_switched_on() {
    for (off, kind) in [
        (include_str!("../../tools.d/git_clone.toml.disabled"), "Host"),
        (include_str!("../../tools.d/http_get.toml.disabled"), "Host"),
    ] {
        // Not every machine has these, and a missing program is refused.
        let programs = ["/usr/bin/git", "/usr/lib/git-core/git-remote-https"];
        let off = programs.iter().fold(off.to_owned(), |off, program| off.replace(program, "/bin/sh"));
        let off = off.replace("/usr/lib/git-core/git", "/bin/sh");
        assert_eq!(Etc::new().parse(&off).expect("a manifest").resource.kind(), kind);
    }
}

#[test]
fn a_connected_tool_declares_its_hosts_and_bounds() {
    let get = include_str!("../../tools.d/http_get.toml.disabled");
    let known = Etc::new().parse(get).expect("a manifest");
    assert_eq!(known.reach.entries().collect::<Vec<_>>(), ["www.example.com:443"]);
    let host = |text: &str| crate::types::HostPort::parse(text).expect("a host");
    assert!(known.reach.holds(&host("www.example.com:443")));
    for other in ["www.example.com:80", "example.com:443", "www.example.com.evil.example:443"] {
        assert!(!known.reach.holds(&host(other)), "{other}");
    }
    let any = Etc::new().parse(&get.replace("www.example.com:443", "*:443")).expect("a manifest");
    assert!(any.reach.holds(&host("anything.example:443")) && !any.reach.holds(&host("anything.example:80")));
    let check = |from: &str, to: &str, expect: &str| {
        assert!(get.contains(from), "{from}");
        let error = Etc::new().parse(&get.replace(from, to)).expect_err(to);
        assert!(error.contains(expect), "{to}: {error}");
    };
    check("connect = [\"www.example.com:443\"]", "", "this builtin needs `connect`");
    check("www.example.com:443", "www.example.com", "has no port");
    check("www.example.com:443", "WWW.example.com:443", "must be written `www.example.com:443`");
    check("www.example.com:443", "0x7f.1:443", "must be written `127.0.0.1:443`");
    check("www.example.com:443", "*:0443", "has no port");
    check("www.example.com:443", "*.example.com:443", "`*.example.com:443`");
    check("addresses = []", "addresses = [\"10.1.2.3/8\"]", "has bits set after its prefix");
    check("addresses = []", "addresses = [\"home\"]", "is not an address range");
    check("network_bytes_max = 10485760", "", "needs `network_bytes_max`");
    check("class = \"net\"", "class = \"read\"", "cannot be of class `read`");
    check("canonical = \"url\"", "canonical = \"host\"", "`canonical = \"url\"`");
    check("builtin = \"http_get\"", "builtin = \"read_file\"", "makes no connections");
    let deploy = DEPLOY.replace("[sandbox]", "[sandbox]\nconnect = [\"*:443\"]");
    let error = Etc::new().parse(&deploy).expect_err("any host");
    assert!(error.contains("whose resource is the host"), "{error}");
    let error = Etc::new().parse(&DEPLOY.replace("[sandbox]", "[sandbox]\naddresses = [\"10.0.0.0/8\"]"));
    assert!(error.expect_err("no `connect`").contains("for tools with `connect`"));
    let both = "[sandbox]\nconnect = [\"unix:/run/x\", \"localhost:1\"]";
    let error = Etc::new().parse(&DEPLOY.replace("[sandbox]", both)).expect_err("both");
    assert!(error.contains("not both"), "{error}");
}

#[test]
fn the_others_that_are_off_could_be_switched_on() {
    let off = include_str!("../../tools.d/service_restart.toml.disabled");
    let etc = Etc::new();
    let manifest = etc.parse(off).expect("a manifest");
    let nginx = include_str!("../../tools.d/nginx_test.toml.disabled").replace("/usr/sbin/nginx", "/bin/sh");
    for other in [include_str!("../../tools.d/journal_size.toml.disabled"), &nginx] {
        assert_eq!(etc.parse(other).expect("a manifest").resource.kind(), "Host");
    }
    let bus = std::fs::canonicalize("/run/dbus").unwrap_or("/run/dbus".into()).join("system_bus_socket");
    assert_eq!((manifest.resource.kind(), manifest.connect), ("Service", vec![Connect::Unix(bus)]));
}

/// A builtin that asks systemd is about the unit that rules decide on, reaches the bus and nothing
/// else, and is not called reading if it acts.
#[test]
fn builtins_that_ask_systemd_are_bound_to_the_bus_and_to_the_unit() {
    let (etc, restart) = (Etc::new(), include_str!("../../tools.d/service_restart.toml.disabled"));
    let status = include_str!("../../tools.d/service_status.toml");
    let list = include_str!("../../tools.d/service_list.toml");
    let usage = include_str!("../../tools.d/disk_usage.toml");
    let bus = "connect = [\"unix:/run/dbus/system_bus_socket\"]";
    for (manifest, old, new, expect) in [
        (status, bus, "", "needs the socket of the system bus and nothing else"),
        (status, bus, "connect = [\"unix:/run/a\", \"unix:/run/b\"]", "and nothing else"),
        (status, bus, "connect = [\"localhost:80\"]", "and nothing else"),
        (status, "from = \"/service\"\ncanonical = \"id\"", "is = \"localhost\"", "rules decide on the unit"),
        (status, "type = \"Service\"", "type = \"Job\"", "rules decide on the unit"),
        (status, "canonical = \"id\"", "canonical = \"id\"\nmembers = \"Service\"", "`is = \"localhost\"`"),
        (list, "members = \"Service\"", "", "rules decide on each of them"),
        (list, "members = \"Service\"", "members = \"Job\"", "can only be `Service`"),
        (usage, "is = \"localhost\"", "is = \"localhost\"\nmembers = \"Service\"", "reads nothing of units"),
        (restart, "class = \"admin\"", "class = \"read\"", "this builtin acts"),
        (restart, "class = \"admin\"", "class = \"net\"", "this builtin acts"),
    ] {
        assert!(manifest.contains(old), "{old}");
        let error = etc.parse(&manifest.replace(old, new)).expect_err(new);
        assert!(error.contains(expect), "{new}: {error}");
    }
}

#[test]
fn names_of_units_are_ids_and_never_paths_or_options() {
    for unit in ["nginx.service", "NetworkManager.service", "user@1000.service", "a\\x2db.mount", "0.slice"] {
        assert_eq!(IdKind::Service.check(unit), Ok(()), "{unit}");
        let is_plain = unit.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.');
        assert_eq!(IdKind::Project.check(unit).is_ok(), is_plain, "{unit}");
    }
    let long = "a".repeat(256);
    for other in
        ["", "-.mount", ".", "..", "a/b", "a b", "*.service", "a\n", "ä.service", "@a", long.as_str()]
    {
        assert!(IdKind::Service.check(other).is_err(), "{other:?}");
    }
}

#[test]
fn another_script_is_another_manifest() {
    let etc = Etc::new();
    let before = etc.parse(DEPLOY).expect("a manifest");
    let again = etc.parse(DEPLOY).expect("a manifest");
    etc.script(&SCRIPT.replace("umask 022", "umask 002"));
    let after = etc.parse(DEPLOY).expect("a manifest");
    assert_eq!(before.digest, again.digest);
    assert_ne!(before.digest, after.digest);
    // A loaded script does not change.
    assert_eq!(before.script().expect("a script").bytes(), SCRIPT.as_bytes());
}

#[test]
fn an_impossible_manifest_is_refused_with_its_line() {
    let etc = Etc::new();
    let check = |from: &str, to: &str, expect: &str| {
        assert!(DEPLOY.contains(from), "{from}");
        let error = etc.parse(&DEPLOY.replacen(from, to, 1)).map(|_| ()).expect_err(to);
        assert_eq!(error, expect, "{to}");
    };
    let write = "write = [\"@workspace/{project}\"]";
    check("interpreter = \"/bin/sh\"\n", "", "5: has `script` without `interpreter`");
    check(
        "script = \"jobs.d/deploy.sh\"\n",
        "",
        "6: `args` is for scripts; write the arguments of a program in `command`",
    );
    check("\"/bin/sh\"", "\"bin/sh\"", "5: `bin/sh` is not an absolute path");
    check("args", "runtime = \"static\"\nargs", "7: `runtime` is for programs");
    check("\"{version}\"", "\"{other}\"", "7: `{other}` is not a declared string or integer argument");
    check(
        "\"{version}\"",
        "\"v{version}\"",
        "7: the placeholder in `v{version}` must fill the whole element",
    );
    check(
        "\"Project\"",
        "\"Planet\"",
        "13: `type = \"Planet\"` is not one of Path, Project, Service, Job and Host",
    );
    check(
        "class = \"exec\"",
        "class = \"read\"",
        "3: a tool that writes must be of class `write`, `exec` or `admin`",
    );
    check(
        "file_bytes_max = 1073741824\n",
        "",
        "30: a tool that writes needs `file_bytes_max`\n    | file_bytes_max = 1048576",
    );
    let both = "17: `content` is for programs that write, and whose resource is not a path\n\
                35: `file_bytes_max` is only for tools that write";
    check(write, "write = []", both);
    check(
        write,
        "write = [\"@etc\"]",
        &format!(
            "22: `@etc` contains, equals or lies in `{}`, which no tool may see",
            etc.path("etc").display()
        ),
    );
    check(
        write,
        "write = [\"@workspace/{version}\"]",
        "22: the placeholder in `@workspace/{version}` must be the resource's id, at the end",
    );
    check(
        write,
        "write = [\"@workspace/../etc\"]",
        "22: `@workspace/../etc` is not an absolute path without `.` and `..`",
    );
    check(
        write,
        "write = [\"@nowhere/x\"]",
        "22: `@nowhere` is not in `[paths]` of par.toml: expected one of @etc, @workspace",
    );
    check("\"/usr/bin/ln\"", "\"bin/ln\"", "23: `bin/ln` is not an absolute path");
}

#[test]
fn content_is_a_plain_name_below_the_project() {
    let etc = Etc::new();
    let check = |from: &str, to: &str, expect: &str| {
        assert!(DEPLOY.contains(from), "{from}");
        let error = etc.parse(&DEPLOY.replacen(from, to, 1)).map(|_| ()).expect_err(to);
        assert_eq!(error, expect, "{to}");
    };
    let content = "incoming/{version}";
    let plain = "is not a plain name without a leading dot";
    check(content, "../{version}", &format!("17: `..` {plain}"));
    check(content, "/incoming", &format!("17: `` {plain}"));
    check(content, "v{version}", "17: the placeholder in `v{version}` must fill the whole name");
    check("\"releases\"", "\"../up\"", &format!("17: `..` {plain}"));
    check("content = \"incoming/{version}\"\n", "", "17: `copy_in` is for tools with `content`");
    check(content, "{other}", "17: `{other}` is not a required top-level string");
}

#[test]
fn what_a_program_is_given_is_checked_with_its_line() {
    let etc = Etc::new();
    let check = |from: &str, to: &str, expect: &str| {
        assert!(DEPLOY.contains(from), "{from}");
        let error = etc.parse(&DEPLOY.replacen(from, to, 1)).map(|_| ()).expect_err(to);
        assert_eq!(error, expect, "{to}");
    };
    let write = "write = [\"@workspace/{project}\"]";
    check("output", "stdin = \"text\"\noutput", "8: unknown variant `text`, expected `none` or `json`");
    let grant = |entry: &str| format!("{write}\nconnect = [\"{entry}\"]");
    let socket = etc.path("etc").join("admin.sock");
    let etc_socket = format!("unix:{}", socket.display());
    let lies = format!(
        "23: `{}` contains, equals or lies in `{}`, which no tool may see",
        socket.display(),
        etc.path("etc").display()
    );
    check(write, &grant(&etc_socket), &lies);
    for entry in ["unix:@name", "unix:", "unix:run/x"] {
        check(write, &grant(entry), &format!("23: `{entry}` is not `unix:` with an absolute path"));
    }
    check(write, &grant("unix:/run/../x"), "23: `/run/../x` is not an absolute path without `.` and `..`");
    let bounded =
        "31: a tool that is connected to hosts needs `network_bytes_max`\n    | network_bytes_max = 10485760";
    check(write, &grant("example.com:443"), bounded);
    let twice = format!("{write}\nsecrets = [\"a.b\", \"a_b\"]");
    check(write, &twice, "23: two secrets would share the variable `PAR_SECRET_A_B`");
    let docker = format!("{write}\ngroups = [\"docker\"]");
    let owns = "no tool may be in the group `docker`, which may start containers that own the host";
    check(write, &docker, &format!("23: {owns}"));
    let unknown = format!("{write}\ngroups = [\"no-such-group\"]");
    check(write, &unknown, "23: `no-such-group` is not a group of this host (/etc/group)");
    let tail = include_str!("../../tests/it/tools/tail.toml").replace("\"@logs\", ", "");
    let reads = tail.replacen("[limits]", "connect = [\"unix:/run/x\"]\n[limits]", 1);
    let error = etc.parse(&reads).map(|_| ()).expect_err("a tool that reads");
    assert_eq!(
        error,
        "3: a tool with `connect` cannot be of class `read`, unless it lists only sockets and says `sends = []`"
    );
    let list = include_str!("../../tools.d/list_dir.toml").replace("\"@logs\", ", "");
    let with = list.replacen("builtin", "stdin = \"json\"\nbuiltin", 1);
    let error = etc.parse(&with).map(|_| ()).expect_err("a builtin");
    assert_eq!(error, "5: a builtin gets its arguments without standard input");
}

/// Only tools that need `/proc` may have one.
#[test]
fn only_tools_that_need_proc_have_one() {
    let etc = Etc::new();
    assert_eq!(etc.parse(DEPLOY).map(|manifest| manifest.proc), Ok(ProcView::Own), "a script");
    let program = "command = [\"/usr/bin/true\"]\nruntime = \"dynamic\"\n";
    let whole =
        "interpreter = \"/bin/sh\"\nscript = \"jobs.d/deploy.sh\"\nargs = [\"{project}\", \"{version}\"]\n";
    assert!(DEPLOY.contains(whole), "{DEPLOY}");
    let of = |sandbox: &str| {
        let manifest =
            DEPLOY.replacen(whole, program, 1).replace("[sandbox]", &format!("[sandbox]\n{sandbox}"));
        etc.parse(&manifest).map(|manifest| manifest.proc)
    };
    assert_eq!(of(""), Ok(ProcView::None));
    assert_eq!(of("proc = \"none\""), Ok(ProcView::None));
    assert_eq!(of("proc = \"self\""), Ok(ProcView::Own));
    assert_eq!(of("secrets = [\"smtp\"]"), Ok(ProcView::Own));
    let refused = of("proc = \"host\"").expect_err("the host's");
    assert!(refused.ends_with(": `proc = \"host\"` is for builtins"), "{refused}");
    let builtin =
        include_str!("../../tools.d/health_check.toml").replace("proc = \"host\"", "proc = \"self\"");
    let refused = etc.parse(&builtin).expect_err("a builtin");
    assert!(refused.ends_with(": `proc = \"self\"` is for programs"), "{refused}");
}

#[test]
fn only_a_tool_about_a_path_is_recursive_and_declares_it() {
    let etc = Etc::new();
    let search = include_str!("../../tools.d/search_files.toml");
    let list = include_str!("../../tools.d/list_dir.toml");
    let tail = include_str!("../../tests/it/tools/tail.toml");
    let parse =
        |manifest: &str| etc.parse(&manifest.replace("\"@logs\", ", "")).map(|manifest| manifest.recursive);
    let with = |manifest: &str| manifest.replacen("[resource]", "recursive = true\n[resource]", 1);
    assert_eq!((parse(search), parse(list), parse(&with(tail))), (Ok(true), Ok(false), Ok(true)));
    let refused = |manifest: String, expect: &str| assert_eq!(parse(&manifest), Err(expect.to_owned()));
    let without = search.replace("recursive = true\n", "");
    refused(without, "5: this builtin reads below its resource: it needs `recursive = true`");
    refused(with(list), "8: this builtin does not read below its resource");
    let job = DEPLOY.replacen("[resource]", "recursive = true\n[resource]", 1);
    let line = 1 + job.lines().position(|line| line.starts_with("recursive")).expect("a line");
    refused(job, &format!("{line}: `recursive` is for tools whose resource is a path"));
}

#[test]
fn a_name_may_be_followed_by_folders() {
    let etc = Etc::new();
    let resolve = |grant: &str| {
        let manifest = etc.parse(&DEPLOY.replace("@workspace/{project}", grant)).expect(grant);
        manifest.write[0].folder.clone()
    };
    assert_eq!(resolve("@workspace"), etc.path("workspace"));
    assert_eq!(resolve("@workspace/a/b"), etc.path("workspace/a/b"));
    // Not `/etc`.
    assert_eq!(resolve("@workspace//etc"), etc.path("workspace/etc"));
}

#[test]
fn scripts_that_others_can_write_are_refused() {
    let etc = Etc::new();
    let script = etc.path("etc/jobs.d/deploy.sh");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o664)).expect("mode");
    let error = etc.parse(DEPLOY).map(|_| ()).expect_err("writable");
    assert_eq!(error, "6: `jobs.d/deploy.sh`: is writable by others (mode 0664), expected by its owner only");
    std::fs::remove_file(&script).expect("removed");
    assert!(etc.parse(DEPLOY).is_err_and(|e| e.starts_with("6: `jobs.d/deploy.sh`: No such file")));
    for name in ["", "/etc/passwd", "../x", "jobs.d/../../x"] {
        let error = etc.parse(&DEPLOY.replace("jobs.d/deploy.sh", name)).map(|_| ()).expect_err(name);
        assert_eq!(error, format!("6: `{name}` is not a plain path below etc/"));
    }
}

#[test]
fn ids_have_one_spelling() {
    for (id, good) in [
        ("demo", true),
        ("a", true),
        ("9", true),
        ("nginx.service", true),
        ("1.0.2-broken_x", true),
        ("", false),
        (".", false),
        ("..", false),
        (".x", false),
        ("-x", false),
        ("_x", false),
        ("A", false),
        ("a/b", false),
        ("a b", false),
        ("a\n", false),
        ("a\0", false),
        ("é", false),
    ] {
        assert_eq!(check_id(id).is_ok(), good, "{id:?}");
    }
    assert!(check_id(&"a".repeat(64)).is_ok() && check_id(&"a".repeat(65)).is_err());
}

#[test]
fn a_call_with_a_malformed_id_is_invalid() {
    let etc = Etc::new();
    std::fs::write(etc.path("etc/tools.d/deploy.toml"), DEPLOY).expect("manifest");
    let catalog = Catalog::load(&etc.path("etc/tools.d"), &etc.places()).expect("a catalog");
    let call = |project: &str, version: &str| {
        let arguments = json!({ "project": project, "version": version }).to_string();
        let proposed = ProposedCall { id: String::new(), tool: "deploy".to_owned(), arguments };
        catalog.validate(proposed, |_| true).map(drop).map_err(|invalid| invalid.reason)
    };
    assert_eq!(call("demo", "1.0.1"), Ok(()));
    let expect = "`project`: is not an id `[a-z0-9][a-z0-9._-]*` of at most 64 bytes".to_owned();
    assert_eq!(call("../demo", "1.0.1"), Err(expect));
    for version in ["../x", "-x", "1 0", "1\n", "", &"1".repeat(5_000)] {
        assert!(call("demo", version).is_err(), "{version:?}");
    }
}

proptest! {
    #![proptest_config(crate::types::laws::cases(256))]

    #[test]
    fn an_id_is_one_plain_file_name(id in any::<String>()) {
        if check_id(&id).is_ok() {
            let parts: Vec<_> = Path::new(&id).components().collect();
            prop_assert!(matches!(parts.as_slice(), [std::path::Component::Normal(name)] if **name == *id));
        }
    }

    #[test]
    fn every_plain_word_is_an_id(id in "[a-z0-9][a-z0-9._-]{0,63}") {
        prop_assert!(check_id(&id).is_ok());
    }
}
