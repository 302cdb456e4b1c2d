//! Which object an argument names, and what a call may do with it.

use super::world::{World, alive, has};
use crate::call::{End, FileKind, Object};
use crate::launcher::protocol::Ask;
use crate::types::limits::PREPARE_MS_MAX;
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;

pub(super) fn reports_what_it_enforces() {
    let world = World::new();
    world.tool(
        "bad",
        &include_str!("../../../tests/it/tools/tail.toml")
            .replace("\"tail\"", "\"bad\"")
            .replace("/usr/bin/tail", "/etc/passwd"),
    );
    world.with(|stage| async move {
        let report = stage.launcher.report();
        println!("{report:?}");
        for layer in ["landlock abi ", "seccomp", "no_new_privs", "no capabilities", "rlimits"] {
            assert!(has(&report, layer), "{layer}");
        }
        assert!(
            report.skipped.iter().any(|root| root.tool == "read_file" && root.path.ends_with("absent-logs"))
        );
        assert!(report.refused.iter().any(|tool| tool.tool == "bad"), "{report:?}");
        let bad = stage.prepare("bad", &json!({"path": "/x", "lines": 1})).await.expect_err("refused");
        assert_eq!(bad.to_string(), "program `/etc/passwd`: not an ELF program");
        assert!(alive(report.pid));
    });
}

pub(super) fn reads_lists_checks_and_tails() {
    let world = World::new();
    let file = world.write("workspace/a.txt", b"one\ntwo\nthree\n");
    let workspace = world.workspace();
    world.with(|stage| async move {
        let (code, answer) = stage.answer("read_file", json!({"path": file, "offset": 4, "limit": 3})).await;
        assert_eq!((code, &answer["text"], &answer["truncated"]), (0, &json!("two"), &json!(true)));
        let (code, answer) = stage.answer("list_dir", json!({"path": workspace.to_str()})).await;
        assert_eq!((code, &answer["entries"][0]["name"]), (0, &json!("a.txt")));
        let (code, answer) = stage.answer("health_check", json!({})).await;
        assert_eq!(code, 0, "{answer}");
        assert!(answer["memory"]["total_bytes"].as_u64().unwrap_or(0) > 0 && answer["disks"][0].is_object());

        let read = stage.call("read_file", json!({"path": file})).await;
        println!("read_file: {:?} in {} us", read.layers, read.wall_us);
        let (code, answer) = stage.answer("tail_file", json!({"path": file, "lines": 1})).await;
        assert_eq!((code, &answer["text"]), (0, &json!("three\n")));
        let tail = stage.call("tail", json!({"path": file, "lines": 1})).await;
        println!("tail: {:?} in {} us", tail.layers, tail.wall_us);
        assert_eq!(
            (&tail.end, tail.stdout.as_slice()),
            (&End::Exit { code: 0 }, &b"three\n"[..]),
            "{tail:?}"
        );
        for layer in
            ["seccomp", "no_new_privs", "no capabilities", "rlimits", "pid namespace", "net namespace"]
        {
            assert!(read.layers.iter().any(|name| name == layer), "{layer}");
            assert!(tail.layers.iter().any(|name| name == layer), "{layer}");
        }
        assert!(tail.layers.iter().any(|name| name == "init"));
    });
}

pub(super) fn resolves_what_is_there() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    let workspace = world.workspace();
    symlink(&file, workspace.join("link")).expect("linked");
    std::fs::create_dir_all(workspace.join("d/e")).expect("made");
    symlink(workspace.join("d"), workspace.join("dlink")).expect("linked");
    world.with(|stage| async move {
        let root = workspace.to_str().expect("UTF-8");
        for path in ["f", "./f", "/f", "d/../f", "link", "d/e/../../link"] {
            let Object::Path(found) = stage.object(format!("{root}/{path}")).await else { panic!("{path}") };
            assert_eq!((found.canonical.as_str(), found.kind), (file.as_str(), FileKind::File), "{path}");
        }
        for (path, folder, rest) in [
            ("nope", "", "nope"),
            ("d/x/y", "/d", "x/y"),
            ("dlink//x/./y", "/d", "x/y"),
            ("d/../nope", "", "nope"),
        ] {
            let expect = Object::Absent { folder: format!("{root}{folder}"), rest: rest.to_owned() };
            assert_eq!(stage.object(format!("{root}/{path}")).await, expect, "{path}");
        }
        let mut ask = stage.ask("read_file", &json!({"path": format!("{root}/dlink/e")}));
        ask.named = ["/", "/etc", root].map(str::to_owned).to_vec();
        ask.named.extend([format!("{root}/dlink"), format!("{root}/f"), format!("{root}/d/e")]);
        let prepared = stage.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect("prepared");
        let Object::Path(found) = prepared.object else { panic!("{:?}", prepared.object) };
        let expect = ["/", root].map(str::to_owned).into_iter();
        let expect: Vec<String> = expect.chain([format!("{root}/dlink"), format!("{root}/d/e")]).collect();
        assert_eq!(found.within, expect);
    });
}

pub(super) fn keeps_what_is_outside_outside() {
    let world = World::new();
    let workspace = world.workspace();
    let secret = world.write("outside/secret", b"secret");
    world.write("workspace/f", b"x");
    std::fs::hard_link(&secret, world.path("outside/second")).expect("linked");
    symlink(&secret, workspace.join("out")).expect("linked");
    symlink("/", workspace.join("slash")).expect("linked");
    symlink("/proc/self/root", workspace.join("magic")).expect("linked");
    symlink("loop", workspace.join("loop")).expect("linked");
    std::fs::write(workspace.join("mine"), "x").expect("written");
    symlink(workspace.join("closed/x"), world.path("outside/in")).expect("linked");
    symlink(world.path("outside/in"), workspace.join("back")).expect("linked");
    std::fs::create_dir(workspace.join("closed")).expect("made");
    for name in ["mine", "closed"] {
        std::fs::set_permissions(workspace.join(name), PermissionsExt::from_mode(0o000)).expect("mode");
    }
    world.with(|stage| async move {
        let root = workspace.to_str().expect("UTF-8");
        for path in [
            "/etc/passwd",
            "/etc/shadow",
            "/proc/self/root/etc/passwd",
            "/proc/self/fd/0",
            "/proc/1/environ",
            "/dev/null",
            "/",
            &secret,
            &format!("{root}/../outside/secret"),
            &format!("{root}/..//outside/nope"),
            &format!("{root}/out"),
            &format!("{root}/slash/etc/passwd"),
            &format!("{root}/magic/etc/passwd"),
            &format!("{root}/loop"),
            &format!("{root}/f/below"),
            &format!("{root}/nope/../f"),
            &format!("{root}/nope/../../outside/secret"),
            &format!("{root}/back"),
            &format!("{root}/nope/../closed/x"),
            &format!("{root}x"),
            &format!("{root}/{}", "n".repeat(300)),
        ] {
            assert_eq!(stage.object(path).await, Object::Outside, "{path}");
        }
        for (path, at, rest) in
            [("mine", "mine", ""), ("closed", "closed", ""), ("closed/x/./y", "closed", "x/y")]
        {
            let Object::Unreadable(found) = stage.object(format!("{root}/{path}")).await else {
                panic!("{path}")
            };
            let is = (found.at.canonical.as_str(), found.rest.as_str(), found.uid);
            assert_eq!(is, (format!("{root}/{at}").as_str(), rest, 65_534), "{path}");
        }
        // A front that lies about the decision gets nothing either.
        let execution = stage.call("read_file", json!({"path": secret})).await;
        assert!(matches!(execution.end, End::Refused { .. }) && execution.stdout.is_empty(), "{execution:?}");
        let absent = stage.answer("read_file", json!({"path": format!("{root}/nope")})).await;
        assert_eq!(absent, (1, json!({"error": "not permitted or not found"})));
    });
}

pub(super) fn refuses_a_swapped_object() {
    let world = World::new();
    let workspace = world.workspace();
    let secret = world.write("outside/secret", b"secret");
    let file = world.write("workspace/f", b"x");
    let folder = workspace.join("d");
    world.with(|stage| async move {
        for tool in ["read_file", "tail_file", "tail"] {
            let arguments = match tool {
                "read_file" => json!({"path": file}),
                _ => json!({"path": file, "lines": 1}),
            };
            let prepared = stage.prepare(tool, &arguments).await.expect("prepared");
            std::fs::rename(&file, format!("{file}.old")).expect("moved");
            symlink(&secret, &file).expect("linked");
            let execution = stage.run(tool, &arguments, prepared).await;
            let reason = "the object changed between decision and start".to_owned();
            assert_eq!(execution.end, End::Refused { reason }, "{tool}");
            assert!(execution.stdout.is_empty());
            std::fs::remove_file(&file).expect("removed");
            std::fs::rename(format!("{file}.old"), &file).expect("moved back");

            // By a plain file of the same folder, which differs only in device and inode.
            let prepared = stage.prepare(tool, &arguments).await.expect("prepared");
            std::fs::rename(&file, format!("{file}.old")).expect("moved");
            std::fs::write(&file, "another").expect("written");
            let execution = stage.run(tool, &arguments, prepared).await;
            let reason = "the object changed between decision and start".to_owned();
            assert_eq!(execution.end, End::Refused { reason }, "{tool}: another file");
            std::fs::rename(format!("{file}.old"), &file).expect("moved back");
        }
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(folder.join("g"), "y").expect("written");
        let arguments = json!({"path": folder.join("g").to_str()});
        let prepared = stage.prepare("read_file", &arguments).await.expect("prepared");
        std::fs::rename(&folder, workspace.join("moved")).expect("moved");
        symlink(Path::new(&secret).parent().expect("a parent"), &folder).expect("linked");
        let execution = stage.run("read_file", &arguments, prepared).await;
        assert!(matches!(execution.end, End::Refused { .. }), "{execution:?}");
        // An object other than the prepared one, as a compromised front might request it.
        let arguments = json!({"path": file});
        let mut prepared = stage.prepare("read_file", &arguments).await.expect("prepared");
        if let Object::Path(path) = &mut prepared.object {
            path.canonical = secret.clone();
        }
        let execution = stage.run("read_file", &arguments, prepared).await;
        let reason = "the permitted object is not the one that was prepared".to_owned();
        assert_eq!(execution.end, End::Refused { reason });
    });
}

/// A compromised front has one call prepared and lets another one go: the launcher compares the
/// digest of the arguments, the tool and its manifest with what it prepared.
pub(super) fn a_go_for_another_call_starts_nothing() {
    let world = World::new();
    let [file, other] = ["f", "g"].map(|name| world.write(&format!("workspace/{name}"), b"x"));
    world.with(|stage| async move {
        let prepared = json!({ "path": file });
        for (tool, arguments) in [
            ("read_file", json!({ "path": other })),
            ("read_file", json!({ "path": file, "limit": 1 })),
            ("list_dir", prepared.clone()),
        ] {
            let held = stage.prepare("read_file", &prepared).await.expect("prepared");
            let execution = stage.run(tool, &arguments, held).await;
            let reason = "the permitted call is not the one that was prepared".to_owned();
            assert_eq!(execution.end, End::Refused { reason }, "{tool} {arguments}");
            assert!(execution.stdout.is_empty());
        }
        let held = stage.prepare("read_file", &prepared).await.expect("prepared");
        assert_eq!(stage.run("read_file", &prepared, held).await.end, End::Exit { code: 0 });
    });
}

pub(super) fn strange_files_are_answered() {
    let world = World::new();
    let workspace = world.workspace();
    let at = |name: &str| workspace.join(name).to_str().expect("UTF-8").to_owned();
    nix::unistd::mkfifo(&workspace.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o644))
        .expect("fifo");
    let sparse = std::fs::File::create(at("sparse")).expect("made");
    sparse.set_len(10 << 30).expect("a hole");
    std::fs::create_dir(at("many")).expect("made");
    for name in 0..100_000 {
        std::fs::File::create(workspace.join(format!("many/{name:06}"))).expect("made");
    }
    let growing = at("growing");
    std::fs::write(&growing, vec![b'x'; 100_000]).expect("written");
    let paths = ["fifo", "sparse", "many"].map(at);
    world.with(|stage| async move {
        let [fifo, sparse, many] = paths;
        let (code, answer) = stage.answer("read_file", json!({"path": fifo})).await;
        assert_eq!((code, &answer["error"]), (1, &json!(format!("`{fifo}` is not a regular file"))));
        let (code, answer) = stage.answer("read_file", json!({"path": many})).await;
        assert_eq!((code, &answer["error"]), (1, &json!(format!("`{many}` is not a regular file"))));
        let (code, answer) = stage.answer("read_file", json!({"path": sparse, "offset": 5_u64 << 30})).await;
        assert_eq!((code, &answer["size"], &answer["bytes"]), (0, &json!(10_u64 << 30), &json!(16_384)));
        let (code, answer) = stage.answer("read_file", json!({"path": growing, "limit": 65_536})).await;
        assert_eq!((code, &answer["bytes"], &answer["truncated"]), (0, &json!(65_536), &json!(true)));
        let began = Instant::now();
        let (code, answer) = stage.answer("list_dir", json!({"path": many, "limit": 1000})).await;
        println!("1,000 of 100,000 entries in {:?}", began.elapsed());
        let entries = answer["entries"].as_array().map(Vec::len);
        assert_eq!((code, entries, &answer["truncated"]), (0, Some(1000), &json!(true)));
    });
}

pub(super) fn refuses_what_the_manifest_does_not_say() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    world.with(|stage| async move {
        let good = stage.ask("read_file", &json!({"path": file}));
        for (what, ask) in [
            ("unknown tool `nope`", Ask { tool: "nope".to_owned(), ..good.clone() }),
            ("is not the one that this launcher loaded", Ask { manifest: "00".repeat(32), ..good.clone() }),
            ("required", Ask { arguments: "{}".to_owned(), ..good.clone() }),
            ("canonical", Ask { arguments: format!("{{ \"path\":\"{file}\"}}"), ..good.clone() }),
            (
                "longer than",
                Ask { arguments: format!("{{\"path\":\"/{}\"}}", "x".repeat(70_000)), ..good.clone() },
            ),
        ] {
            let refused = stage.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect_err(what).to_string();
            assert!(refused.contains(what), "{refused} does not say `{what}`");
        }
        // More names than one packet holds.
        let named = (0..20_000).map(|at| format!("/named/{at}")).collect();
        stage.launcher.prepare_ask(Ask { named, ..good }, PREPARE_MS_MAX).await.expect("prepared");
        assert_eq!(stage.answer("read_file", json!({"path": file})).await.0, 0);
    });
}
