//! A newer version on a home that was edited: NEXT decision on shipped files.

use crate::crash::LOGS;
use crate::support::{TestHome, text};
use par::types::Digest;

/// Makes the home one that an earlier version shipped `then` to.
fn shipped_then(home: &TestHome, name: &str, then: Option<&str>) {
    let path = home.path("etc/shipped.txt");
    let record = std::fs::read_to_string(&path).expect("record");
    let mut lines: Vec<String> =
        record.lines().filter(|line| !line.ends_with(&format!("  {name}"))).map(str::to_owned).collect();
    assert_eq!(lines.len() + 1, record.lines().count(), "{name} is in the record");
    lines.extend(then.map(|then| format!("{}  {name}", Digest::sha256(then.as_bytes()).hex())));
    std::fs::write(&path, lines.join("\n") + "\n").expect("record");
}

/// A home of an earlier version, whose files this version refuses, says how to go on; a fault that
/// a person made in a home of this version is only a fault.
#[test]
fn a_refused_home_of_an_earlier_version_names_the_upgrade() {
    let home = TestHome::init();
    let hint = "of another version of PAR: `par init --upgrade --home ";
    home.add("tools.d/list_dir.toml", "name = \"list_dir\"\n");
    let commands = [&["run", "health_check()"][..], &["tool", "list"], &["serve", "--listen", "127.0.0.1:0"]];
    for args in commands {
        let said = text(&home.par(args).stderr);
        assert!(said.contains("tools.d/list_dir.toml") && !said.contains(hint), "{args:?}: {said}");
    }
    shipped_then(&home, "tools.d/list_dir.toml", Some("earlier"));
    for args in commands {
        let refused = home.par(args);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.matches(hint).count(), 1, "{args:?}: {said}");
    }
}

fn read(home: &TestHome, name: &str) -> String {
    std::fs::read_to_string(home.path("etc").join(name)).expect("text")
}

#[test]
fn an_upgrade_adds_what_is_new_shows_what_was_edited_and_leaves_what_was_removed() {
    let home = TestHome::init();
    let told = home.expect(0, &["init", "--upgrade"]);
    assert!(told.contains("nothing to write") && told.lines().count() == 1, "{told}");

    // New in this version.
    let tail = read(&home, "tools.d/tail_file.toml");
    shipped_then(&home, "tools.d/tail_file.toml", None);
    std::fs::remove_file(home.path("etc/tools.d/tail_file.toml")).expect("removed");
    // As an earlier version shipped it.
    let list = read(&home, "tools.d/list_dir.toml");
    let earlier = list.replace("List a folder's entries", "List entries");
    shipped_then(&home, "tools.d/list_dir.toml", Some(&earlier));
    home.add("tools.d/list_dir.toml", &earlier);
    // Edited, and shipped otherwise now.
    shipped_then(&home, "tools.d/read_file.toml", Some("earlier"));
    let edited = read(&home, "tools.d/read_file.toml").replace("wall_ms_max = 5000", "wall_ms_max = 9000");
    home.add("tools.d/read_file.toml", &edited);
    // Edited, and shipped as before.
    let own = read(&home, "policies/entities.toml") + "# mine\n";
    home.add("policies/entities.toml", &own);
    // Removed, and switched on.
    std::fs::remove_file(home.path("etc/tools.d/service_restart.toml.disabled")).expect("removed");
    let off = home.path("etc/tools.d/http_get.toml.disabled");
    std::fs::rename(&off, home.path("etc/tools.d/http_get.toml")).expect("renamed");

    let dry = home.expect(0, &["init", "--upgrade"]);
    for part in [
        "add      tools.d/tail_file.toml",
        "update   tools.d/list_dir.toml",
        "differs  tools.d/read_file.toml",
        "\n-wall_ms_max = 9000\n+wall_ms_max = 5000\n",
        "removed  tools.d/service_restart.toml.disabled",
        "2 files to write; `par init --upgrade --apply`",
    ] {
        assert!(dry.contains(part), "{part:?} in {dry}");
    }
    for not in ["entities.toml", "http_get", "par.toml"] {
        assert!(!dry.contains(not), "{not} in {dry}");
    }
    assert!(!home.path("etc/tools.d/tail_file.toml").exists(), "a dry run writes nothing");

    home.expect(0, &["init", "--upgrade", "--apply"]);
    assert_eq!(read(&home, "tools.d/tail_file.toml"), tail);
    assert_eq!(read(&home, "tools.d/list_dir.toml"), list);
    assert_eq!(read(&home, "tools.d/read_file.toml"), edited);
    assert_eq!(read(&home, "policies/entities.toml"), own);
    assert!(!home.path("etc/tools.d/service_restart.toml.disabled").exists() && !off.exists());
    home.expect(0, &["policy", "check"]);
    let again = home.expect(0, &["init", "--upgrade"]);
    assert!(
        again.contains("nothing to write") && again.contains("differs  tools.d/read_file.toml"),
        "{again}"
    );
    home.expect(0, &["init", "--upgrade", "--apply", "--restore", "tools.d/service_restart.toml.disabled"]);
    assert!(home.path("etc/tools.d/service_restart.toml.disabled").is_file());
}

/// A home of the version that had no rules for models and for the host's figures gets them, with
/// their cases and tools, from `--upgrade --apply` alone; until then the model is not asked.
#[test]
fn an_upgrade_alone_brings_the_rules_for_models_and_for_the_host() {
    let home = TestHome::init();
    let ships =
        |line: &str| line.split_once("  ").map(|(_, name)| name.to_owned()).filter(|name| name.contains('/'));
    let record = read(&home, "shipped.txt");
    let stem =
        |name: &str| name.rsplit('/').next().and_then(|file| file.split('.').next()).map(str::to_owned);
    let earlier = [
        "deploy",
        "git_clone",
        "health_check",
        "http_get",
        "list_dir",
        "read_file",
        "search_files",
        "service_restart",
        "tail_file",
        "00-api",
        "10-read",
        "20-deploy",
        "30-service",
        "40-taint",
        "90-never",
        "entities",
        // A rule of 10-read names it.
        "certificate_file",
    ];
    let is_new = |name: &String| stem(name).is_some_and(|stem| !earlier.contains(&stem.as_str()));
    let new: Vec<String> = record.lines().filter_map(ships).filter(is_new).collect();
    for needed in ["policies/05-models.cedar", "policies/15-host.cedar", "tools.d/memory_usage.toml"] {
        assert!(new.iter().any(|name| name == needed), "{needed}: {new:?}");
    }
    for name in &new {
        shipped_then(&home, name, None);
        std::fs::remove_file(home.path("etc").join(name)).expect("removed");
    }
    // The cases of that version did not speak of the tools.
    for cases in ["policies/tests/10-read.toml", "policies/tests/90-never.toml"] {
        let then = "";
        shipped_then(&home, cases, Some(then));
        home.add(cases, then);
    }
    let explain = ["policy", "explain", "model.ask", "--as", "operator"];
    let model = "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n";
    home.configure(&format!("{model}{LOGS}"));
    let before = home.par(&explain);
    assert!(text(&before.stdout).contains("deny"), "{}", text(&before.stdout));
    let told = home.expect(0, &["init", "--upgrade", "--apply"]);
    for name in &new {
        assert!(told.contains(&format!("add      {name}")), "{name}: {told}");
        assert!(home.path("etc").join(name).is_file(), "{name}");
    }
    let after = home.expect(0, &explain);
    assert!(after.contains("allow") && after.contains("configured-models"), "{after}");
    home.configure(LOGS);
    home.expect(0, &["run", "memory_usage()"]);
    home.expect(0, &["policy", "test"]);
}

#[test]
fn an_upgrade_that_a_start_would_refuse_is_taken_back() {
    let home = TestHome::init();
    let case = "[[case]]\nname = \"no tail here\"\nrole = \"operator\"\ntool = \"list_dir\"\nresource = \"@logs\"\n\
                expect = \"deny\"\n";
    let earlier = "// Nothing yet.\n";
    shipped_then(&home, "policies/10-read.cedar", Some(earlier));
    std::fs::remove_dir_all(home.path("etc/policies/tests")).expect("removed");
    std::fs::create_dir(home.path("etc/policies/tests")).expect("folder");
    std::fs::write(home.path("etc/policies/tests/mine.toml"), case).expect("file");
    std::fs::write(home.path("etc/policies/10-read.cedar"), earlier).expect("file");
    let refused = home.par(&["init", "--upgrade", "--apply"]);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("no tail here") && told.contains("nothing was upgraded"), "{told}");
    assert_eq!(read(&home, "policies/10-read.cedar"), earlier);
}

/// A home of a version that kept no record: nothing is added that a person may have removed.
#[test]
fn a_home_without_a_record_is_upgraded_only_by_name() {
    let home = TestHome::init();
    std::fs::remove_file(home.path("etc/shipped.txt")).expect("removed");
    std::fs::remove_file(home.path("etc/tools.d/tail_file.toml")).expect("removed");
    let dry = home.expect(0, &["init", "--upgrade"]);
    assert!(dry.contains("absent   tools.d/tail_file.toml") && dry.contains("nothing to write"), "{dry}");
    home.expect(0, &["init", "--upgrade", "--apply", "--restore", "tools.d/tail_file.toml"]);
    assert!(home.path("etc/tools.d/tail_file.toml").is_file() && home.path("etc/shipped.txt").is_file());
    let done = home.expect(0, &["init", "--upgrade"]);
    assert_eq!(done.lines().count(), 1, "{done}");
}

/// A home of an earlier version whose trusted tools have no output schema: a start refuses them,
/// and the upgrade leads out by name.
#[test]
fn manifests_of_an_earlier_version_are_replaced_by_name() {
    let home = TestHome::init();
    std::fs::remove_file(home.path("etc/shipped.txt")).expect("removed");
    let name = "tools.d/health_check.toml";
    let shipped = read(&home, name);
    let (earlier, _) = shipped.split_once("[output_schema").expect("a schema");
    std::fs::write(home.path("etc").join(name), earlier).expect("manifest");
    let refused = home.par(&["init", "--upgrade", "--apply"]);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("needs `[output_schema]`") && told.contains("`--restore FILE`"), "{told}");
    home.expect(0, &["init", "--upgrade", "--apply", "--restore", name]);
    assert_eq!(read(&home, name), shipped);
    home.expect(0, &["run", "health_check()"]);
}

/// The stranger's stumble 7: a tool that was granted a folder was removed, so every case about it
/// fails. The shipped manifest does not grant that folder, so the person's own case fails with it
/// too. The way out is not blocked: the manifest comes back, and the case that is left is named.
#[test]
fn a_removed_tool_comes_back_although_an_own_case_still_fails() {
    let home = TestHome::init();
    let data = home.beside("data-of-mine");
    std::fs::create_dir(&data).expect("folder");
    let folder = data.display().to_string();
    let made =
        ["policy", "new", "--who", "operator", "--may", "read", "--on", &folder, "--grant", "--id", "mine"];
    home.expect(0, &made);
    let manifest = "tools.d/list_dir.toml";
    std::fs::remove_file(home.path("etc").join(manifest)).expect("removed");

    // It is said how the tool comes back, and not once for each case. Runbooks name it too.
    let said = text(&home.par(&["run", "hi"]).stderr);
    assert!(said.contains("no tool is named `list_dir`"), "{said}");
    let way = format!("par init --upgrade --apply --restore {manifest}");
    assert!(said.contains(&way) && said.lines().count() < 12, "{said}");

    let restored = home.par(&["init", "--upgrade", "--apply", "--restore", manifest]);
    let told = text(&restored.stderr);
    assert_eq!(restored.status.code(), Some(2), "what is left is said by the exit code too: {told}");
    assert!(home.path("etc").join(manifest).is_file(), "{told}");
    assert!(text(&restored.stdout).contains("1 file written"), "{told}");
    for part in ["policies/tests/60-mine.toml:", &folder, "is written", "yours to mend", "`read`"] {
        assert!(told.contains(part), "{part:?} in {told}");
    }
    assert!(!told.contains("policies/tests/10-read.toml"), "{told}");

    // What it names as the mend is one.
    let shipped = read(&home, manifest);
    home.add(manifest, &shipped.replace("read = [", &format!("read = [\"{folder}\", ")));
    home.expect(0, &["policy", "check"]);
}

/// A restore that would break a home that works is taken back.
#[test]
fn a_restore_that_breaks_a_working_home_is_taken_back() {
    let home = TestHome::init();
    let data = home.beside("data-of-mine");
    std::fs::create_dir(&data).expect("folder");
    let folder = data.display().to_string();
    home.expect(0, &["policy", "new", "--who", "operator", "--may", "read", "--on", &folder, "--grant"]);
    let name = "tools.d/list_dir.toml";
    let granted = read(&home, name);
    let refused = home.par(&["init", "--upgrade", "--apply", "--restore", name]);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains(&folder) && told.contains("nothing was upgraded"), "{told}");
    assert_eq!(read(&home, name), granted);
}
