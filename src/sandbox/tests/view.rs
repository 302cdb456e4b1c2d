//! The launcher's private view: what it shows, what it hides, and that no process below can change
//! it.

use super::{World, compile};
use crate::call::{End, Object};
use crate::launcher::host::ground::Ground;
use crate::launcher::host::machine::Machine;
use crate::launcher::host::named::plan;
use crate::launcher::sys::{self, SingleThread};
use crate::launcher::view::{namespaces, root};
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sched::CloneFlags;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde_json::json;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program's manifest with folders to read and to change.
pub(super) fn program(world: &World, name: &str, command: &[&str], read: &[&Path], write: &[&Path]) {
    let size = if write.is_empty() { 0 } else { 4096 };
    let all = 32 * size;
    let manifest = format!(
        "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\ncommand = {command:?}\n\
         runtime = \"dynamic\"\nuntrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n\
         [sandbox]\nread = {read:?}\nwrite = {write:?}\n[limits]\nwall_ms_max = 5000\noutput_bytes_max = 65536\n\
         memory_bytes_max = 268435456\nprocesses_max = 8\nfile_bytes_max = {size}\nwritten_bytes_max = {all}\n[input]\ntype = \"object\"\n\
         additionalProperties = false\n"
    );
    world.tool(name, &manifest);
}

/// For a scenario, whose harness only waits.
pub(super) fn one() -> SingleThread {
    SingleThread::in_scenario()
}

/// Plays `scene` in a separate process, which may enter namespaces since it has one thread.
pub(super) fn apart(what: &str, scene: impl FnOnce()) {
    match sys::fork(&one()).expect("a fork") {
        sys::Fork::Parent(child) => {
            let end = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).expect("waited");
            assert_eq!(end.and_then(|end| end.exit_status()), Some(0), "{what}");
        }
        sys::Fork::Child(_) => sys::exit_now(u8::from(catch_unwind(AssertUnwindSafe(scene)).is_err())),
    }
}

/// Plays `scene` at the point where a launcher has given nothing up yet: first of its PID
/// namespace, in its view, locked or not.
fn inside(world: &World, locked: bool, scene: impl FnOnce()) {
    let catalog = world.catalog();
    let manifests = || catalog.manifests().map(AsRef::as_ref);
    let second_stage = |ground, second| {
        if locked {
            let (machine, _groups) = Machine::settle(ground, manifests(), second, one()).expect("a machine");
            assert_eq!(machine.facts.missing, Vec::<String>::new());
        } else {
            root::enter(&plan(manifests()), is_root()).expect("a view");
        }
        scene();
    };
    apart("the first stage", || {
        let ground = Ground::enter(None, None, None).expect("ground");
        let (first, second) = namespaces::stages().expect("stages");
        match sys::fork(&one()).expect("a fork") {
            sys::Fork::Parent(child) => {
                drop(second);
                first.attend(&ground.proc);
                let end = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).expect("waited");
                assert_eq!(end.and_then(|end| end.exit_status()), Some(0), "locked: {locked}");
            }
            sys::Fork::Child(_) => {
                drop(first);
                let done = catch_unwind(AssertUnwindSafe(|| second_stage(ground, second)));
                sys::exit_now(u8::from(done.is_err()))
            }
        }
    });
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn words(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn write(path: &Path) -> Result<(), ErrorKind> {
    std::fs::write(path, "x").map_err(|e| e.kind())
}

/// What a compromised program can find out through `stat`, which neither Landlock nor the filter
/// refuses.
pub(super) fn hides_the_rest_of_the_host() {
    const CODE: &str = "#include <errno.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/stat.h>\n\
        int main(int n,char**a){struct stat s;for(int i=1;i<n;i++)\
        printf(\"%s %s\\n\",a[i],stat(a[i],&s)?strerror(errno):\"there\");return 0;}\n";
    let world = World::new();
    let Some(looks) = compile(&world, "looks", CODE) else { return };
    let secret = world.write("outside/secret", b"x");
    let (outside, manifests) = (world.path("outside"), world.path("tools.d"));
    let rest =
        ["/etc/passwd", "/etc/hostname", "/root", "/home", "/sys/kernel", "/boot", "/dev/zero", "/var/lib"];
    let rest: Vec<&str> = rest.into_iter().filter(|path| Path::new(path).exists()).collect();
    assert!(rest.len() > 4, "{rest:?}");
    let rest = [rest.as_slice(), &[secret.as_str(), words(&outside), words(&manifests)]].concat();
    let workspace = world.workspace();
    let known = ["/", "/dev/null", "/usr/lib", "/proc/self/stat", words(&workspace), looks.as_str()];
    let me = format!("/proc/{}", rustix::process::getpid().as_raw_nonzero());
    let others = [me.as_str()];
    let all = [&[looks.as_str()], rest.as_slice(), &others, &known].concat();
    // A process outside the sandbox sees them all.
    let plain = Command::new(&looks).args(&all[1..]).output().expect("started");
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(
        plain.lines().count() == all.len() - 1 && plain.lines().all(|line| line.ends_with(" there")),
        "{plain}"
    );
    program(&world, "looks", &all, &[&workspace], &[]);
    world.with(|stage| async move {
        let seen = stage.call("looks", json!({})).await;
        let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
        let expect = |path: &&str, what: &str| format!("{path} {what}");
        let gone = rest.iter().chain(&others).map(|path| expect(path, "No such file or directory"));
        let there = known.iter().map(|path| expect(path, "there"));
        assert_eq!(seen.lines().collect::<Vec<_>>(), gone.chain(there).collect::<Vec<_>>());
    });
}

/// Through links, within each other, absent, and under either name.
pub(super) fn shows_what_is_named_as_it_is_named() {
    let world = World::new();
    for folder in ["workspace/in", "far/real/sub", "far/hidden/open", "wide/deep/write", "turn/read"] {
        std::fs::create_dir_all(world.path(folder)).expect("made");
    }
    symlink("far", world.path("hop")).expect("linked");
    symlink(world.path("hop/real"), world.path("linked")).expect("linked");
    for file in [
        "far/real/sub/f",
        "far/sibling",
        "far/hidden/open/f",
        "wide/deep/f",
        "wide/deep/write/f",
        "turn/read/f",
    ] {
        world.write(file, b"x");
    }
    std::fs::set_permissions(world.path("far/hidden"), PermissionsExt::from_mode(0o700)).expect("mode");
    std::fs::copy("/usr/bin/true", world.path("turn/tool")).expect("copied");
    let [linked, open, wide, deep, turn, read, later] =
        ["linked", "far/hidden/open", "wide", "wide/deep/write", "turn", "turn/read", "not/yet"]
            .map(|name| world.path(name));
    program(&world, "reads", &["/usr/bin/true"], &[&linked, &open, &wide, &read, &later], &[]);
    program(&world, "writes", &[words(&world.path("turn/tool"))], &[], &[&deep, &turn]);
    let at = |name: &str| world.path(name);
    inside(&world, true, || {
        // The link, and the link on the path to its target, under their own names.
        assert_eq!(std::fs::read_link(at("linked")).expect("a link"), at("hop/real"));
        assert_eq!(std::fs::read_link(at("hop")).expect("a link"), Path::new("far"));
        for there in ["linked/sub/f", "hop/real/sub/f", "far/real/sub/f", "wide/deep/f", "turn/read/f"] {
            assert_eq!(std::fs::read(at(there)).map_err(|e| e.kind()), Ok(b"x".to_vec()), "{there}");
        }
        for gone in ["far/sibling", "outside", "not", "workspace/../tools.d"] {
            assert_eq!(
                std::fs::metadata(at(gone)).map(drop).map_err(|e| e.kind()),
                Err(ErrorKind::NotFound),
                "{gone}"
            );
        }
        // A folder to change within one to read, and the reverse: what may be changed can be.
        assert_eq!(write(&at("wide/deep/f")), Err(ErrorKind::ReadOnlyFilesystem));
        assert_eq!(write(&at("wide/deep/write/f")), Ok(()));
        assert_eq!(write(&at("turn/read/f")), Ok(()));
        assert_eq!(write(&at("new")), Err(ErrorKind::ReadOnlyFilesystem), "the view's own root");
        assert_eq!(write(Path::new("/usr/lib/new")), Err(ErrorKind::ReadOnlyFilesystem));
        // A program that lies where tools write is shown alone; a program that they put next to it
        // does not run.
        assert_eq!(write(&at("turn/tool")), Err(ErrorKind::ReadOnlyFilesystem));
        std::fs::copy("/usr/bin/true", at("turn/other")).expect("copied");
        let run =
            |name: &str| Command::new(at(name)).status().map(|status| status.success()).map_err(|e| e.kind());
        assert_eq!((run("turn/tool"), run("turn/other")), (Ok(true), Err(ErrorKind::PermissionDenied)));
        // The path is as closed as on the host.
        let hidden = std::fs::metadata(at("far/hidden")).expect("a folder");
        let expect = if is_root() { (0o700, 0) } else { (0o755, hidden.uid()) };
        assert_eq!((hidden.mode() & 0o777, hidden.uid()), expect);
    });
    answers_by_the_same_names(&world, [&linked, &later, &open, &wide]);
}

/// A tool's answers use the same names; what appears later is not there.
fn answers_by_the_same_names(world: &World, [linked, later, open, wide]: [&PathBuf; 4]) {
    let at = |name: &str| world.path(name);
    world.tool(
        "read_file",
        &include_str!("../../../tools.d/read_file.toml")
            .replace("read = [", &format!("read = [{linked:?}, {later:?}, {open:?}, {wide:?}, ")),
    );
    world.with(|stage| async move {
        for (asked, is) in [
            ("linked/sub/f", "far/real/sub/f"),
            ("hop/real/sub/f", "far/real/sub/f"),
            ("wide/deep/write/f", "wide/deep/write/f"),
        ] {
            let Object::Path(found) = stage.object(at(asked)).await else { panic!("{asked}") };
            assert_eq!(Path::new(&found.canonical), at(is), "{asked}");
            assert_eq!(stage.answer("read_file", json!({ "path": at(asked) })).await.0, 0, "{asked}");
        }
        // Another user's tools do not get through a folder that is closed to them.
        let found = matches!(stage.object(at("far/hidden/open/f")).await, Object::Path(_));
        assert_eq!(found, !is_root());
        std::fs::create_dir_all(later).expect("made");
        std::fs::write(later.join("f"), "x").expect("written");
        assert_eq!(stage.object(later.join("f")).await, Object::Outside);
    });
}

/// With every capability in its namespaces, as a child that kept them would have.
pub(super) fn cannot_be_changed_from_below() {
    let world = World::new();
    let (read, write_to) = (world.path("outside"), world.path("workspace"));
    world.write("outside/f", b"x");
    program(&world, "reads", &["/usr/bin/true"], &[&read], &[&write_to]);
    let attempts = || {
        let take_away = umount2(&read, MntFlags::MNT_DETACH).is_ok();
        let open_up = |path: &Path| {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
            nix::mount::mount(None::<&Path>, path, None::<&Path>, flags, None::<&Path>).is_ok()
        };
        [take_away, open_up(&write_to), open_up(Path::new("/"))]
    };
    inside(&world, false, || assert_eq!(attempts(), [true; 3], "not locked: nothing else prevents it"));
    inside(&world, true, || assert_eq!(attempts(), [false; 3]));
    inside(&world, true, || {
        // Nor from namespaces below.
        sys::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).expect("new namespaces");
        assert_eq!(attempts(), [false; 3]);
    });
}

/// A later mount does not propagate into the view, is reported, and makes nothing new reachable.
pub(super) fn follows_no_later_mount() {
    if !is_root() {
        return println!("skipped: an ordinary user mounts nothing on this host");
    }
    let world = World::new();
    let late = world.path("workspace/late");
    std::fs::create_dir(&late).expect("made");
    world.write("workspace/late/before", b"x");
    world.write("workspace/plain", b"x");
    // As service managers set up a host.
    sys::unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let change =
        |flags| nix::mount::mount(None::<&Path>, "/", None::<&Path>, flags, None::<&Path>).expect("changed");
    change(MsFlags::MS_PRIVATE | MsFlags::MS_REC);
    change(MsFlags::MS_SHARED | MsFlags::MS_REC);
    world.with(|stage| async move {
        let before = stage.launcher.report().mounted;
        assert!(before.iter().any(|mount| mount.path == "/"), "{before:?}");
        let named = |name: &str| json!({ "path": late.join(name) });
        assert_eq!(stage.answer("read_file", named("before")).await.0, 0);
        let flags = MsFlags::empty();
        nix::mount::mount(Some("tmpfs"), &late, Some("tmpfs"), flags, None::<&str>).expect("mounted");
        std::fs::write(late.join("after"), "x").expect("written");
        assert!(late.join("after").exists() && !late.join("before").exists(), "the host has it");
        let plain = json!({ "path": late.parent().expect("a parent").join("plain") });
        assert_eq!(stage.answer("read_file", plain).await.0, 0, "next to it");
        for name in ["before", "after"] {
            let prepared = stage.prepare("read_file", &named(name)).await.expect("prepared");
            assert!(!matches!(prepared.object, Object::Path(_)), "{name}: {:?}", prepared.object);
        }
        let search = json!({ "path": late.parent(), "pattern": "x", "depth": 4 });
        let found = stage.call("search_files", search).await;
        assert!(!String::from_utf8_lossy(&found.stdout).contains("after"), "{found:?}");
        // A launcher that starts now knows it; comparing the two reports shows it.
        let now = super::super::start(&stage.spec).expect("another launcher");
        let since = crate::launcher::newly_mounted(&before, &now.report().mounted);
        assert_eq!(since, [words(&late)]);
        assert_eq!(crate::launcher::newly_mounted(&before, &before), [""; 0]);
    });
}

/// A child that waits for go has no access to the rest of the host.
pub(super) fn closes_access_to_the_host() {
    if !is_root() {
        return println!("skipped: an ordinary user may not look into a launcher");
    }
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    world.with(|stage| async move {
        let held = stage.prepare("read_file", &json!({ "path": file })).await.expect("prepared");
        let pid = stage.launcher.report().pid;
        let descriptors = |pid: &str| -> Vec<PathBuf> {
            let items = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
            items.filter_map(|item| std::fs::read_link(item.ok()?.path()).ok()).collect()
        };
        let has_root = |pid: &str| descriptors(pid).iter().any(|path| path == Path::new("/"));
        assert!(has_root(&pid.to_string()), "the launcher itself has it");
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
        let child = children.split_ascii_whitespace().next().expect("a child");
        assert!(!has_root(child), "{:?}", descriptors(child));
        drop(held);
    });
}

/// If `/proc` is partly covered, the kernel refuses a new one; what needs it is refused, and
/// nothing else.
pub(super) fn does_without_proc() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    std::fs::create_dir(world.path("jobs.d")).expect("made");
    world.write("jobs.d/job.sh", b"echo done\n");
    let script = "name = \"job\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\ninterpreter = \"/bin/sh\"\n\
        script = \"jobs.d/job.sh\"\nargs = []\nuntrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n\
        [sandbox]\n[limits]\nwall_ms_max = 5000\noutput_bytes_max = 65536\nmemory_bytes_max = 268435456\n\
        processes_max = 8\n[input]\ntype = \"object\"\nadditionalProperties = false\n";
    world.tool("job", script);
    if is_root() {
        return println!("skipped: root itself is not refused");
    }
    world.with(|stage| async move {
        let done = stage.call("job", json!({})).await;
        assert_eq!((done.end, done.stdout.as_slice()), (End::Exit { code: 0 }, &b"done\n"[..]));
    });
    apart("below a masked `/proc`", || masked(&world, &file));
}

fn masked(world: &World, file: &str) {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    sys::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).expect("namespaces");
    for (name, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ] {
        std::fs::write(format!("/proc/self/{name}"), text).expect("mapped");
    }
    nix::mount::mount(Some("tmpfs"), "/proc/fs", Some("tmpfs"), MsFlags::empty(), None::<&str>)
        .expect("masked");
    world.with(|stage| async move {
        let report = stage.launcher.report();
        assert!(report.missing.iter().any(|line| line.starts_with("`/proc`: ")), "{report:?}");
        let refused = stage.prepare("job", &json!({})).await.expect_err("refused").to_string();
        assert!(
            refused.starts_with("the tool needs its own `/proc`, which this machine does not provide: "),
            "{refused}"
        );
        assert_eq!(stage.answer("read_file", json!({ "path": file })).await.0, 0);
        let tail = stage.call("tail", json!({ "path": file, "lines": 1 })).await;
        assert_eq!(tail.end, End::Exit { code: 0 });
    });
}
