//! What adds up: groups of calls, and what calls add to the folders that they may change.

use super::super::start;
use super::{ORDINARY, Stage, World, alive, become_user, compile, has, until, view};
use crate::call::{End, Execution};
use crate::launcher::{Report, sys, tool_owner};
use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use serde_json::json;
use std::fs::Permissions;
use std::fs::{create_dir, read_to_string, write};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The group of a process, below the mount of the hierarchy here.
pub(super) fn group_of(pid: u32) -> PathBuf {
    let own = read_to_string(format!("/proc/{pid}/cgroup")).expect("a process");
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).expect("version 2");
    hierarchy().expect("mounted").join(own.trim_start_matches('/'))
}

fn hierarchy() -> Option<PathBuf> {
    let table = read_to_string("/proc/self/mountinfo").expect("a table");
    let line = table.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// The groups of calls below a launcher's own.
pub(super) fn calls(own: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(own).expect("a group").map(|one| one.expect("an entry").path());
    all.filter(|path| path.is_dir() && path.file_name().is_some_and(|name| name != "main")).collect()
}

pub(super) fn is_populated(group: &Path) -> bool {
    // A removed group has no process.
    read_to_string(group.join("cgroup.events")).is_ok_and(|text| text.contains("populated 1"))
}

fn without_groups(report: &Report) -> bool {
    if has(report, "cgroup kill") {
        return false;
    }
    assert!(!report.groups_missing.is_empty(), "{report:?}");
    println!("skipped: no cgroups for calls: {:?}", report.groups_missing);
    true
}

/// Two concurrent calls are in two groups, without other processes; when they are over, all groups
/// are empty.
pub(super) fn each_call_has_its_own_group() {
    let world = World::new();
    let sleep = "/usr/bin/sleep";
    world.program("sleeps", &[sleep, "1000"]);
    let mut own = None;
    world.with(|stage| {
        let own = &mut own;
        async move {
            let report = stage.launcher.report();
            if without_groups(&report) {
                return;
            }
            let group = group_of(report.pid).parent().expect("the launcher's own").to_owned();
            assert!(
                group.file_name().is_some_and(|name| name.to_string_lossy().starts_with("par-launcher-"))
            );
            let both = [(); 2].map(|()| tokio::spawn(call(stage.clone(), "sleeps")));
            while calls(&group).iter().filter(|group| is_populated(group)).count() < 2 {
                assert!(!both.iter().any(tokio::task::JoinHandle::is_finished), "not in its own group");
                tokio::task::yield_now().await;
            }
            for one in both {
                let ended = one.await.expect("joined");
                assert_eq!(ended.end, End::Timeout, "{ended:?}");
                assert!(ended.layers.iter().any(|layer| layer == "cgroup kill"), "{ended:?}");
                assert!(ended.protections["death"].contains(&"cgroup".to_owned()), "{ended:?}");
            }
            // Calls one after the other share a few groups.
            for _ in 0..30 {
                assert_eq!(stage.call("health_check", json!({})).await.end, End::Exit { code: 0 });
            }
            let populated = || calls(&group).iter().filter(|group| is_populated(group)).count();
            until("no call is left", || populated() == 0);
            assert!(calls(&group).len() <= 6, "{:?}", calls(&group));
            *own = Some((report.pid, group));
        }
    });
    let Some((pid, group)) = own else { return };
    until("the launcher is gone", || !alive(pid));
    drop(start(&world.spec).expect("a launcher"));
    assert!(!group.exists(), "the next launcher removes what the one before left");
}

async fn call(stage: Stage, tool: &str) -> Execution {
    stage.call(tool, json!({})).await
}

/// What is left in the group of a dead launcher is killed by the next launcher; a living launcher's
/// group is left alone.
pub(super) fn leftovers_of_a_dead_launcher_are_removed() {
    let Some(base) = hierarchy().map(|_| group_of(std::process::id())) else {
        return println!("skipped: no cgroups of version 2");
    };
    let left = base.join("par-launcher-0");
    if create_dir(&left).is_err() || create_dir(left.join("3")).is_err() {
        return println!("skipped: `{}` is not this user's to divide", base.display());
    }
    let mut stranded = Command::new("/usr/bin/sleep").arg("1000").spawn().expect("started");
    write(left.join("3/cgroup.procs"), stranded.id().to_string()).expect("moved");
    let world = World::new();
    let living = start(&world.spec).expect("a launcher");
    assert!(!left.exists(), "the group of a dead launcher");
    let end = stranded.wait().expect("ended");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&end), Some(9));
    drop(start(&world.spec).expect("another"));
    assert!(alive(living.report().pid) && group_of(living.report().pid).exists());
}

/// An ordinary user who was given a group by a service manager has groups for calls too.
pub(super) fn a_delegated_group_is_divided() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: an ordinary user cannot delegate a group");
    }
    let Some(given) = hierarchy().map(|at| at.join(format!("par-test-{}", std::process::id()))) else {
        return println!("skipped: no cgroups of version 2");
    };
    if create_dir(&given).is_err() {
        return println!("skipped: `{}` cannot be made", given.display());
    }
    for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        chown(given.join(file), Some(ORDINARY), Some(ORDINARY)).expect("given");
    }
    view::apart("in the group", || {
        write(given.join("cgroup.procs"), "0").expect("entered");
        become_user(ORDINARY, &[]);
        let world = World::new();
        let report = start(&world.spec).expect("a launcher").report().clone();
        assert!(has(&report, "cgroup kill"), "{report:?}");
        each_call_has_its_own_group();
    });
    write(given.join("cgroup.kill"), "1").expect("killed");
    until("it is gone", || {
        clear(&given);
        !given.exists()
    });
}

fn clear(group: &Path) {
    for inner in std::fs::read_dir(group).into_iter().flatten().flatten() {
        clear(&inner.path());
    }
    let _busy = std::fs::remove_dir(group);
}

/// The processes of a call add up: each is within its limit, all together are not.
pub(super) fn a_group_bounds_what_its_call_uses() {
    const CODE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        int main(int n,char**a){int made=0;setbuf(stdout,0);\
        if(a[1][0]=='m'){for(int i=0;i<7&&fork();i++);memset(malloc(100<<20),1,100<<20);pause();}\
        while(made<500){int p=fork();if(p<0)break;if(!p){pause();_exit(0);}made++;}\
        printf(\"%d\",made);return 0;}\n";
    let world = World::new();
    let Some(takes) = compile(&world, "takes", CODE) else { return };
    for (name, what) in [("memory", "m"), ("processes", "p")] {
        world.program(name, &[&takes, what]);
        // Time enough on any machine.
        let path = world.spec.tools_dir.join(name).with_extension("toml");
        let manifest = read_to_string(&path).expect("a manifest");
        world.tool(name, &manifest.replace("wall_ms_max = 700", "wall_ms_max = 60000"));
    }
    world.with(|stage| async move {
        let report = stage.launcher.report();
        if has(&report, "cgroup memory") {
            let ended = stage.call("memory", json!({})).await;
            assert_eq!(ended.end, End::Oom, "{ended:?}");
            // Its group is not used again: the next one starts counting from zero.
            assert_ne!(stage.call("processes", json!({})).await.end, End::Oom);
        } else {
            println!("skipped: no memory controller: {:?}", report.groups_missing);
        }
        let ended = stage.call("processes", json!({})).await;
        assert_eq!((ended.end, ended.stdout.as_slice()), (End::Exit { code: 0 }, &b"7"[..]), "itself and 7");
        if !has(&report, "cgroup pids") {
            println!("skipped: no pids controller: {:?}", report.groups_missing);
        }
    });
}

/// Files, each within its limit, until the call is ended; a little; and too much at once, without a
/// check before the end.
pub(super) fn a_call_adds_no_more_than_it_may() {
    const CODE: &str = "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n\
        #include <unistd.h>\n\
        int main(int n,char**a){static char b[4096];char name[32];int hidden=a[1][0]=='h';\
        for(int i=0;i<atoi(a[2]);i++){sprintf(name,\"f%d\",i);int f=open(name,O_CREAT|O_RDWR,0600);\
        if(f<0||write(f,b,4096)!=4096)break;\
        if(hidden&&mmap(0,4096,PROT_READ,MAP_SHARED,f,0)!=MAP_FAILED)unlink(name);close(f);}\
        if(a[1][0]!='e')pause();return 0;}\n";
    let world = World::new();
    let Some(fills) = compile(&world, "fills", CODE) else { return };
    let owner = tool_owner();
    let add = |name: &str, how: &str, files: &str, is_small: bool| {
        let folder = world.workspace().join(name);
        create_dir(&folder).expect("made");
        if is_small && !mount_small(&folder) {
            return false;
        }
        if let Some((uid, gid)) = owner {
            chown(&folder, Some(uid), Some(gid)).expect("given");
        }
        view::program(&world, name, &[&fills, how, files], &[], &[&folder]);
        true
    };
    for (name, how, files) in
        [("fills", "stays", "9999999"), ("little", "ends", "16"), ("much", "ends", "40")]
    {
        assert!(add(name, how, files, false));
    }
    let has_hidden = add("hidden", "hides", "9999999", true);
    world.with(|stage| async move {
        let little = stage.call("little", json!({})).await;
        assert_eq!(little.end, End::Exit { code: 0 }, "{little:?}");
        assert!(little.layers.iter().any(|layer| layer == "quota"), "{little:?}");
        for name in ["fills", "much"].into_iter().chain(has_hidden.then_some("hidden")) {
            let ended = stage.call(name, json!({})).await;
            assert_eq!(ended.end, End::Quota { unread_folders: 0 }, "{name}: {ended:?}");
        }
    });
}

/// Folders that disappear during every check: a call that removes a large tree is within its limit,
/// and one that moves folders back and forth, so that no walk finds what it writes there, is not.
pub(super) fn moved_folders_are_still_counted() {
    const CODE: &str = "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        #include <sys/stat.h>\n#include <unistd.h>\n\
        static char name[64],block[65536];\n\
        static void tree(char*top){mkdir(top,0700);\
        for(int i=0;i<1500;i++){sprintf(name,\"%s/%d\",top,i);mkdir(name,0700);}}\n\
        int main(int n,char**a){tree(\"a\");if(a[1][0]=='r'){\
        for(int round=0;round<6;round++){for(int i=0;i<1500;i++){sprintf(name,\"a/%d\",i);rmdir(name);}tree(\"a\");}\
        return 0;}\
        if(!fork())for(;;){rename(\"a\",\"b\");rename(\"b\",\"a\");}\
        for(int i=0;;i++){sprintf(name,\"%s/%d/f%d\",i%2?\"a\":\"b\",i%1500,i);\
        int f=open(name,O_CREAT|O_WRONLY,0600);if(f>=0){write(f,block,sizeof block);close(f);}}}\n";
    let world = World::new();
    let Some(moves) = compile(&world, "moves", CODE) else { return };
    for how in ["removes", "moves"] {
        let folder = world.workspace().join(how);
        create_dir(&folder).expect("made");
        if let Some((uid, gid)) = tool_owner() {
            chown(&folder, Some(uid), Some(gid)).expect("given");
        }
        view::program(&world, how, &[&moves, how], &[], &[&folder]);
        let path = world.spec.tools_dir.join(how).with_extension("toml");
        let manifest = read_to_string(&path).expect("a manifest");
        let manifest = manifest.replace("written_bytes_max = 131072", "written_bytes_max = 33554432");
        let manifest = manifest.replace("file_bytes_max = 4096", "file_bytes_max = 65536");
        world.tool(how, &manifest.replace("wall_ms_max = 5000", "wall_ms_max = 120000"));
    }
    world.with(|stage| async move {
        let removes = stage.call("removes", json!({})).await;
        assert_eq!(removes.end, End::Exit { code: 0 }, "{removes:?}");
        let moves = stage.call("moves", json!({})).await;
        assert_eq!(moves.end, End::Quota { unread_folders: 0 }, "{moves:?}");
    });
}

/// A folder that a tool cannot read, or whose path is longer than any valid path, stops no later
/// call: no tool makes the former, and one that another user left there counts as one entry.
pub(super) fn no_folder_stops_later_calls() {
    const CODE: &str = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        #include <string.h>\n#include <sys/stat.h>\n#include <unistd.h>\n\
        int main(int n,char**a){static char name[201];int fd;\
        if(a[1][0]=='w'){fd=open(\"file\",O_CREAT|O_WRONLY,0600);return write(fd,\"x\",1)!=1;}\
        if(!mkdir(\"unread\",0300)||!mkdirat(AT_FDCWD,\"unlisted\",0600)){puts(\"made\");return 1;}\
        umask(0777);if(!mkdir(\"masked\",0700)&&(fd=open(\"masked\",O_RDONLY))<0){puts(\"masked\");return 1;}\
        umask(022);memset(name,'d',200);\
        for(int i=0;i<30;i++)if(mkdir(name,0700)||chdir(name)){perror(name);return 1;}return 0;}\n";
    let world = World::new();
    let Some(folds) = compile(&world, "folds", CODE) else { return };
    let folder = world.workspace().join("project");
    let left = folder.join("left by another");
    create_dir(&folder).expect("made");
    create_dir(&left).expect("made");
    for folder in [&folder, &left] {
        if let Some((uid, gid)) = tool_owner() {
            chown(folder, Some(uid), Some(gid)).expect("given");
        }
    }
    std::fs::set_permissions(&left, Permissions::from_mode(0o300)).expect("set");
    for how in ["folds", "writes"] {
        view::program(&world, how, &[&folds, how], &[], &[&folder]);
    }
    world.with(|stage| async move {
        for how in ["writes", "folds", "writes"] {
            let ended = stage.call(how, json!({})).await;
            assert_eq!(ended.end, End::Exit { code: 0 }, "{how}: {ended:?}");
        }
    });
    std::fs::set_permissions(&left, Permissions::from_mode(0o700)).expect("set");
}

/// Only one call at a time changes a folder, whatever it does with the descriptors that it finds,
/// and its init keeps its limits.
pub(super) fn no_program_gives_up_the_lock_or_the_limits_of_its_call() {
    const CODE: &str = "#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n\
        #include <sys/file.h>\n#include <sys/resource.h>\n#include <unistd.h>\n\
        int main(){for(int fd=0;fd<64;fd++)flock(fd,LOCK_UN);int own=open(\".\",O_RDONLY);flock(own,LOCK_UN);\
        struct rlimit none={0,0};\
        if(!prlimit(1,RLIMIT_NOFILE,&none,0)||errno!=EPERM){puts(\"limits\");return 1;}\
        int busy=open(\"busy\",O_CREAT|O_EXCL|O_WRONLY,0600);if(busy<0){puts(\"two at once\");return 1;}\
        usleep(300000);unlink(\"busy\");return 0;}\n";
    let world = World::new();
    let Some(unlocks) = compile(&world, "unlocks", CODE) else { return };
    let folder = world.workspace().join("one");
    create_dir(&folder).expect("made");
    if let Some((uid, gid)) = tool_owner() {
        chown(&folder, Some(uid), Some(gid)).expect("given");
    }
    view::program(&world, "unlocks", &[&unlocks], &[], &[&folder]);
    world.with(|stage| async move {
        let all = [(); 3].map(|()| tokio::spawn(call(stage.clone(), "unlocks")));
        for one in all {
            let ended = one.await.expect("joined");
            assert_eq!(ended.end, End::Exit { code: 0 }, "{ended:?}");
        }
    });
}

/// A separate file system for `folder`, in a mount namespace of this process.
fn mount_small(folder: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: an ordinary user mounts nothing on this host");
        return false;
    }
    sys::unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let none = None::<&Path>;
    nix::mount::mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none).expect("private");
    let size = Some("size=64m");
    nix::mount::mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), size).expect("mounted");
    true
}

/// Two concurrent calls each have their own uid of the range; one that writes has that of the
/// tools' user.
pub(super) fn calls_that_write_nothing_have_their_own_uid() {
    const RANGE: (u32, u32) = (60_100, 60_163);
    const CODE: &str =
        "#include <stdio.h>\n#include <unistd.h>\nint main(){printf(\"%d\",getuid());return 0;}\n";
    let mut world = World::new();
    world.spec.slot_uids = Some(RANGE);
    let Some(tells) = compile(&world, "tells", CODE) else { return };
    world.program("sleeps", &["/usr/bin/sleep", "1000"]);
    let folder = world.workspace().join("own");
    create_dir(&folder).expect("made");
    let owner = tool_owner();
    if let Some((uid, gid)) = owner {
        chown(&folder, Some(uid), Some(gid)).expect("given");
    }
    view::program(&world, "writes", &[&tells], &[], &[&folder]);
    world.with(|stage| async move {
        let report = stage.launcher.report();
        let Some((user, _)) = owner else {
            assert_eq!(uid(&report.layers), None, "an ordinary user takes no other uid");
            return println!("skipped: an ordinary user has one uid");
        };
        assert_eq!(uid(&report.layers).as_deref(), Some("60100-60163"));
        let both = [(); 2].map(|()| tokio::spawn(call(stage.clone(), "sleeps")));
        let mut uids = Vec::new();
        for one in both {
            uids.push(
                uid(&one.await.expect("joined").layers).expect("a uid").parse::<u32>().expect("a number"),
            );
        }
        assert!(uids.iter().all(|uid| (RANGE.0..=RANGE.1).contains(uid)) && uids[0] != uids[1], "{uids:?}");
        let wrote = stage.call("writes", json!({})).await;
        assert_eq!(uid(&wrote.layers), Some(user.to_string()), "{wrote:?}");
        // More calls than there are uids, one after the other.
        for _ in 0..80 {
            assert_eq!(stage.call("health_check", json!({})).await.end, End::Exit { code: 0 });
        }
    });
    for (range, says) in [((1, 100), "1 belongs to `daemon`"), ((60_100, 60_110), "11 uids are too few")] {
        world.spec.slot_uids = Some(range);
        match (start(&world.spec), owner) {
            (Err(e), Some(_)) => assert!(e.to_string().contains(says), "{e}"),
            (Ok(_), None) => {}
            (other, _) => panic!("{range:?}: {:?}", other.map(|seed| seed.report().clone())),
        }
    }
}

fn uid(layers: &[String]) -> Option<String> {
    layers.iter().find_map(|layer| layer.strip_prefix("uid ").map(str::to_owned))
}
