//! Builtins that describe, compare and measure files, against real trees.

use super::{Stage, World};
use crate::call::{Beneath, End, Exclusion, Object};
use crate::types::limits::PREPARE_MS_MAX;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const TOOLS: [(&str, &str); 4] = [
    ("diff_files", include_str!("../../../tools.d/diff_files.toml")),
    ("file_info", include_str!("../../../tools.d/file_info.toml")),
    ("largest_paths", include_str!("../../../tools.d/largest_paths.toml")),
    ("read_config", include_str!("../../../tools.d/read_config.toml")),
];

fn world() -> World {
    let world = World::new();
    for (name, manifest) in TOOLS {
        world.tool(name, manifest);
    }
    world
}

fn words(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

impl Stage {
    /// The answer of a call without all of `named`; `between` runs between prepare and go.
    async fn leaving_out(
        &self,
        tool: &str,
        arguments: &Value,
        named: &[PathBuf],
        between: impl FnOnce(),
    ) -> (i32, Value) {
        let mut ask = self.ask(tool, arguments);
        ask.named = named.iter().map(|path| words(path)).collect();
        let prepared = self.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect("prepared");
        let Object::Path(path) = &prepared.object else { panic!("{prepared:?}") };
        let one = |one: &Beneath| Exclusion { canonical: one.canonical.clone(), id: one.id };
        let exclusions = path.beneath.iter().map(one).collect();
        between();
        let execution = self.run_without(tool, arguments, prepared, exclusions).await;
        let End::Exit { code } = execution.end else { panic!("{execution:?}") };
        let answer: Value = serde_json::from_slice(&execution.stdout).expect("JSON");
        if code == 0 {
            let schema = self.manifest(tool).output_schema.clone().expect("a schema");
            assert_eq!(schema.check(answer.as_object().expect("an object")), Ok(()), "{tool}: {answer}");
        }
        (code, answer)
    }

    async fn found(&self, tool: &str, arguments: Value) -> Value {
        let (code, answer) = self.leaving_out(tool, &arguments, &[], || ()).await;
        assert_eq!(code, 0, "{tool}: {answer}");
        answer
    }

    async fn fails(&self, tool: &str, arguments: Value) -> String {
        let (code, answer) = self.leaving_out(tool, &arguments, &[], || ()).await;
        assert_eq!(code, 1, "{tool}: {answer}");
        answer["error"].as_str().expect("a reason").to_owned()
    }
}

pub(super) fn describes_files_of_every_kind() {
    let world = world();
    let file = world.write("workspace/plain", b"abc");
    let fifo = world.path("workspace/fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o644)).expect("fifo");
    symlink(world.path("outside"), world.path("workspace/away")).expect("linked");
    let workspace = world.workspace();
    let config = world.write("workspace/app.toml", b"port = 80\npassword = \"S3CRET\"\n");
    world.with(|stage| async move {
        let info = stage.found("file_info", json!({ "path": file })).await;
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((&info["sha256"], &info["size_bytes"]), (&json!(digest), &json!(3)), "{info}");
        let info = stage.found("file_info", json!({ "path": words(&workspace) })).await;
        assert_eq!((&info["type"], &info["sha256_missing"]), (&json!("folder"), &json!("not_a_file")));
        // It is not opened: that would wait for a writer.
        let info = stage.found("file_info", json!({ "path": words(&fifo) })).await;
        assert_eq!((&info["type"], &info["sha256_missing"]), (&json!("fifo"), &json!("not_a_file")));
        let (code, absent) = stage.answer("file_info", json!({ "path": words(&workspace.join("no")) })).await;
        assert_eq!((code, &absent["error"]), (1, &json!("not permitted or not found")));
        let read = stage.found("read_config", json!({ "path": config })).await;
        assert_eq!(read["values"], json!({ "port": 80, "password": "[left out]" }), "{read}");
        assert!(
            stage.fails("read_config", json!({ "path": words(&workspace) })).await.contains("regular file")
        );
        let outside = stage.object(workspace.join("away")).await;
        assert_eq!(outside, Object::Outside);
    });
}

/// The two files are found below the folder without links, and an excluded one is not compared
/// under any name.
pub(super) fn compares_files_without_what_is_excluded() {
    let world = world();
    let workspace = world.workspace();
    std::fs::create_dir_all(workspace.join("conf/secret")).expect("made");
    world.write("workspace/conf/a", b"one\ntwo\n");
    world.write("workspace/b", b"one\n2\n");
    world.write("workspace/conf/secret/key", b"MARK\n");
    world.write("outside/far", b"MARK\n");
    std::fs::hard_link(workspace.join("conf/secret/key"), workspace.join("second")).expect("linked");
    symlink(world.path("outside/far"), workspace.join("link")).expect("linked");
    symlink(world.path("outside"), workspace.join("away")).expect("linked");
    let far = words(&world.path("outside/far"));
    world.with(|stage| async move {
        let arguments = |old: &str, new: &str| json!({ "path": words(&workspace), "old": old, "new": new });
        let found = stage.found("diff_files", arguments("conf/a", "b")).await;
        assert_eq!(found["differences"][0]["added"], json!(["2"]), "{found}");
        assert_eq!(found["old"], json!(format!("{}/conf/a", words(&workspace))));
        for other in
            ["link", "away/far", "conf", "no", "../outside/far", "/etc/passwd", "./b", "conf//a", "", &far]
        {
            let arguments = arguments(other, "b");
            if other.is_empty() {
                continue;
            }
            let reason = stage.fails("diff_files", arguments).await;
            assert!(reason.starts_with("`old`: ") && !reason.contains("MARK"), "{other}: {reason}");
        }
        // By the folder, by the file itself, and by a file that has another name here.
        let named = [workspace.join("conf/secret"), workspace.join("second")];
        for (old, named) in
            [("conf/secret/key", &named[..1]), ("conf/secret/key", &named[1..]), ("second", &named[1..])]
        {
            let (code, answer) = stage.leaving_out("diff_files", &arguments(old, "b"), named, || ()).await;
            assert_eq!((code, answer.to_string().contains("MARK")), (1, false), "{old}: {answer}");
        }
        // A file that takes the place of an excluded one in between.
        let (code, answer) = stage
            .leaving_out("diff_files", &arguments("second", "b"), &named[1..], || {
                std::fs::rename(workspace.join("second"), workspace.join("other")).expect("moved");
                std::fs::write(workspace.join("second"), "MARK new\n").expect("written");
            })
            .await;
        assert_eq!((code, answer.to_string().contains("MARK")), (1, false), "{answer}");
    });
}

/// What is excluded is neither named nor added up; a file with two names counts once; links are not
/// followed.
pub(super) fn measures_a_tree_without_what_is_excluded() {
    let world = world();
    let workspace = world.workspace();
    std::fs::create_dir_all(workspace.join("deep/er")).expect("made");
    std::fs::create_dir_all(workspace.join("secret/in")).expect("made");
    world.write("workspace/deep/er/large", &vec![b'x'; 400_000]);
    world.write("workspace/deep/small", b"x");
    world.write("workspace/secret/in/hidden", &vec![b'x'; 900_000]);
    world.write("outside/huge", &vec![b'x'; 2_000_000]);
    std::fs::hard_link(workspace.join("deep/er/large"), workspace.join("second")).expect("linked");
    symlink(world.path("outside"), workspace.join("out")).expect("linked");
    let closed = workspace.join("closed");
    std::fs::create_dir(&closed).expect("made");
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).expect("mode");
    world.with(|stage| async move {
        let arguments = json!({ "path": words(&workspace), "limit": 5 });
        let named = [workspace.join("secret")];
        let (code, found) = stage.leaving_out("largest_paths", &arguments, &named, || ()).await;
        assert_eq!(code, 0, "{found}");
        assert!(!found.to_string().contains("hidden") && !found.to_string().contains("huge"), "{found}");
        assert_eq!(
            (&found["excluded"], &found["skipped_by"]),
            (&json!(1), &json!({ "unreadable": 1 })),
            "{found}"
        );
        let bytes = found["found_bytes"].as_u64().expect("bytes");
        assert!((400_000..900_000).contains(&bytes), "once, and without the secret: {found}");
        let first = found["files"][0]["path"].as_str().expect("a path");
        assert!(first.ends_with("/large") || first.ends_with("/second"), "{found}");
        assert_eq!(found["folders"][0]["path"], json!(words(&workspace)), "{found}");
        assert!(found["file_system_used_bytes"].as_u64().is_some_and(|used| used > bytes), "{found}");
        let all = stage.found("largest_paths", arguments).await;
        assert!(all["found_bytes"].as_u64().is_some_and(|all| all > bytes + 900_000), "{all}");
        let one = stage.found("largest_paths", json!({ "path": words(&workspace), "limit": 1 })).await;
        assert_eq!((one["files"].as_array().map(Vec::len), &one["truncated"]), (Some(1), &json!(false)));
        let file = stage.fails("largest_paths", json!({ "path": words(&workspace.join("second")) })).await;
        assert!(file.contains("is not a folder"), "{file}");
    });
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("mode");
}
