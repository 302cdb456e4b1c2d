//! How calls, launchers and fronts end, and what ends with them.

use super::super::{lock_front, serve, start};
use super::AS_UID;
use super::world::{Stage, World, alive, compile, has, until};
use crate::call::{End, Object};
use crate::launcher::Report;
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::confine::seccomp::filters::without_namespaces;
use crate::launcher::protocol::{self, Ask, Go, Request};
use crate::types::Digest;
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) fn ends_calls_that_do_not_end() {
    let world = World::new();
    world.program("sleeps", &["/usr/bin/sleep", "1000"]);
    world.program("floods", &["/usr/bin/yes"]);
    world.program("random", &["/usr/bin/head", "-c8", "/dev/urandom"]);
    let code = "#include <signal.h>\n#include <unistd.h>\n#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n\
        int main(int n,char**a){ if(!strcmp(a[1],\"ignore\")){for(int i=1;i<65;i++)signal(i,SIG_IGN);for(;;);}\n\
        if(!strcmp(a[1],\"orphan\")){ if(!fork()){setsid();if(!fork()){for(;;)pause();}_exit(0);} puts(\"main\"); return 7;}\n\
        if(!strcmp(a[1],\"stderr\")){for(;;)write(2,\"eeeeeeeeeeeeeeee\",16);}\n\
        if(!strcmp(a[1],\"bomb\")){int c=0;for(int i=0;i<100;i++){int p=fork();if(!p){for(;;)pause();}if(p>0)c++;}printf(\"%d\",c);return 0;}\n\
        if(!strcmp(a[1],\"abort\"))abort();\n\
        if(!strcmp(a[1],\"memory\")){char*p=malloc(1<<30);puts(p?\"got\":\"none\");return 0;}\n\
        if(!strcmp(a[1],\"close\")){close(1);close(2);for(;;)pause();}\n return 99;}\n";
    let Some(helper) = compile(&world, "helper", code) else { return };
    for mode in ["ignore", "orphan", "stderr", "bomb", "abort", "memory", "close"] {
        world.program(mode, &[helper.as_str(), mode]);
    }
    world.with(|stage| async move {
        for tool in ["sleeps", "ignore", "close"] {
            let execution = stage.call(tool, json!({})).await;
            assert_eq!(execution.end, End::Timeout, "{tool}");
            assert!((700_000..1_500_000).contains(&execution.wall_us), "{tool}: {}", execution.wall_us);
        }
        let flood = stage.call("floods", json!({})).await;
        assert_eq!((&flood.end, flood.stdout.len()), (&End::OutputCap, 65_536));
        // However soon it ends: the layers that it ran under are on record.
        assert!(flood.layers.iter().any(|layer| layer == "init"), "{flood:?}");
        let flood = stage.call("stderr", json!({})).await;
        assert_eq!((flood.end, flood.stderr.len()), (End::OutputCap, 65_536));
        let orphan = stage.call("orphan", json!({})).await;
        assert_eq!((orphan.end, orphan.stdout.as_slice()), (End::Exit { code: 7 }, &b"main\n"[..]));
        assert!(orphan.wall_us < 500_000, "{}", orphan.wall_us);
        let bomb = stage.call("bomb", json!({})).await;
        assert_eq!((bomb.end, bomb.stdout.as_slice()), (End::Exit { code: 0 }, &b"7"[..]));
        assert_eq!(stage.call("abort", json!({})).await.end, End::Signal { signal: 6 });
        assert_eq!(stage.call("memory", json!({})).await.stdout, b"none\n");
        let random = stage.call("random", json!({})).await;
        assert_eq!((random.end, random.stdout.len()), (End::Exit { code: 0 }, 8));
        let sleepers = (0..8).map(|_| stage_sleep(stage.clone()));
        let began = Instant::now();
        for sleeper in sleepers.map(tokio::spawn).collect::<Vec<_>>() {
            assert_eq!(sleeper.await.expect("joined"), End::Timeout);
        }
        assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
    });
}

pub(super) fn releases_abandoned_calls() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    world.program("sleeps", &["/usr/bin/sleep", "1000"]);
    world.with(|stage| async move {
        let arguments = json!({"path": file});
        // More than may exist at once, one after the other.
        for _ in 0..100 {
            drop(stage.prepare("read_file", &arguments).await.expect("prepared"));
        }
        let mut held = Vec::new();
        loop {
            match stage.prepare("read_file", &arguments).await {
                Ok(prepared) => held.push(prepared),
                Err(refused) => {
                    assert_eq!(refused.to_string(), "64 calls are running, which is the maximum");
                    break;
                }
            }
        }
        // Some of the hundred may not have been reaped yet when the last were requested.
        assert!((1..=64).contains(&held.len()), "{}", held.len());
        drop(held);
        let prepared = stage.prepare_soon("sleeps", &json!({})).await;
        let none = json!({});
        let running = stage.run("sleeps", &none, prepared);
        assert!(tokio::time::timeout(Duration::from_millis(100), running).await.is_err());
        let prepared = stage.prepare_soon("read_file", &arguments).await;
        let execution = stage.run("read_file", &arguments, prepared).await;
        assert_eq!(execution.end, End::Exit { code: 0 });
    });
}

pub(super) fn ends_calls_without_a_go() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    world.with(|stage| async move {
        let arguments = json!({"path": file});
        let held = stage.prepare("read_file", &arguments).await.expect("prepared");
        // The front's own limit on a permit is shorter than the child's life.
        tokio::time::sleep(Duration::from_millis(3_300)).await;
        let execution = stage.run("read_file", &arguments, held).await;
        let reason = "the prepared child is gone".to_owned();
        assert_eq!(execution.end, End::Refused { reason });
    });
}

pub(super) fn does_without_namespaces() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    load(&without_namespaces()).expect("loaded");
    world.with(|stage| async move {
        let report = stage.launcher.report();
        assert!(report.missing.iter().any(|line| line.starts_with("namespaces: ")), "{report:?}");
        assert!(!has(&report, "pid namespace") && has(&report, "landlock abi "), "{report:?}");
        let read = stage.call("read_file", json!({"path": file})).await;
        assert_eq!(read.end, End::Exit { code: 0 });
        println!("{:?}", read.layers);
        let refused = stage.prepare("tail", &json!({"path": file, "lines": 1})).await.expect_err("refused");
        let expect = "programs need a PID namespace and an empty network namespace, which this machine does \
                      not provide";
        assert_eq!(refused.to_string(), expect);
    });
}

pub(super) fn keeps_time_when_the_front_does_not_read() {
    let world = World::new();
    world.program("floods", &["/usr/bin/yes"]);
    let seed = start(&world.spec).expect("a launcher");
    let catalog = world.catalog();
    let (tool, manifest) = ("floods".to_owned(), catalog.find("floods").expect("a tool").digest.hex());
    let (arguments, named) = ("{}".to_owned(), vec![]);
    let ask = Ask { tool: tool.clone(), manifest: manifest.clone(), arguments: arguments.clone(), named };
    let go = Go {
        tool,
        manifest,
        arguments: Digest::sha256(arguments.as_bytes()),
        decision: 1,
        object: Object::Fixed,
        exclusions: vec![],
        secrets: None,
    };
    let send = |id: u64, request: &Request| {
        for packet in protocol::packets(id, request).expect("packets") {
            assert_eq!(protocol::send_packet(&seed.socket, &packet), Ok(true));
        }
    };
    let mut assembler = protocol::Assembler::default();
    let mut next = || match protocol::receive(&seed.socket, protocol::PACKET_BYTES_MAX) {
        protocol::Received::Packet(packet) => assembler.take::<protocol::Reply>(&packet).expect("an arrival"),
        other => panic!("{other:?}"),
    };
    for id in 1..=16 {
        send(id, &Request::Prepare(ask.clone()));
        assert!(matches!(next(), protocol::Arrival::Message(_, protocol::Reply::Prepared(Object::Fixed))));
    }
    (1..=16).for_each(|id| send(id, &Request::Go(go.clone())));
    // Longer than the wall limit: what is not read by then was ended by the clock.
    std::thread::sleep(Duration::from_millis(1_200));
    let mut ends = Vec::new();
    while ends.len() < 16 {
        if let protocol::Arrival::Message(_, protocol::Reply::Ended(ended)) = next() {
            assert!(ended.wall_us < 1_100_000, "{ended:?}");
            ends.push(ended.end);
        }
    }
    assert!(ends.contains(&End::Timeout), "{ends:?}");
    assert!(ends.iter().all(|end| matches!(end, End::Timeout | End::OutputCap)), "{ends:?}");
}

fn kill_launcher(report: &Report) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(report.pid).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
}

pub(super) fn survives_the_death_of_a_launcher() {
    let world = &World::new();
    let file = world.write("workspace/f", b"x");
    world.program("sleeps", &["/usr/bin/sleep", "1000"]);
    world.with(|stage| async move {
        let arguments = json!({"path": file});
        let held = stage.prepare("read_file", &arguments).await.expect("prepared");
        let running = tokio::spawn(stage_sleep(stage.clone()));
        tokio::time::sleep(Duration::from_millis(100)).await;
        kill_launcher(&stage.launcher.report());
        assert_eq!(running.await.expect("joined"), End::Killed);
        let late = stage.run("read_file", &arguments, held).await;
        assert!(matches!(late.end, End::Killed | End::Refused { .. }), "{late:?}");
        let refused = stage.prepare("read_file", &arguments).await.expect_err("ended");
        assert_eq!(refused.to_string(), "the launcher ended");
    });
    // With a supervisor there is another one.
    let code = serve(&world.spec, |seed| {
        world.with_seed(seed, |stage| async move {
            let arguments = json!({"path": world.path("workspace/f").to_str()});
            let first = stage.launcher.report();
            kill_launcher(&first);
            until("the launcher is gone", || !alive(first.pid));
            let prepared = stage.prepare_soon("read_file", &arguments).await;
            let execution = stage.run("read_file", &arguments, prepared).await;
            assert_eq!(execution.end, End::Exit { code: 0 });
            assert_ne!(stage.launcher.report().pid, first.pid);
            // A reload: a prepared call continues at its launcher.
            let second = stage.launcher.report();
            let held = stage.prepare("read_file", &arguments).await.expect("prepared");
            let renewal = stage.launcher.renew().await.expect("renewed");
            assert_eq!(stage.launcher.report().pid, second.pid, "in use until the other is installed");
            renewal.install();
            assert_ne!(stage.launcher.report().pid, second.pid);
            let execution = stage.run("read_file", &arguments, held).await;
            assert_eq!(execution.end, End::Exit { code: 0 });
            while alive(second.pid) {
                tokio::task::yield_now().await;
            }
        });
        3
    });
    assert_eq!(code, Ok(3));
}

async fn stage_sleep(stage: Stage) -> End {
    stage.call("sleeps", json!({})).await.end
}

pub(super) fn dies_with_its_front() {
    let world = &World::new();
    world.program("sleeps", &["/usr/bin/sleep", "987"]);
    let seed = start(&world.spec).expect("a launcher");
    let pid = seed.report().pid;
    assert!(alive(pid));
    drop(seed);
    until("the launcher ends with its socket", || !alive(pid));

    // A front that is killed in the middle of a call.
    let note = &world.path("workspace/pids");
    let code = serve(&world.spec, |seed| {
        world.with_seed(seed, |stage| async move {
            let running = stage.call("sleeps", json!({}));
            tokio::time::timeout(Duration::from_millis(200), running).await.ok();
            let held = stage.prepare("sleeps", &json!({})).await.expect("prepared");
            std::fs::write(note, stage.launcher.report().pid.to_string()).expect("written");
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("killed");
            drop(held);
        });
        0
    });
    assert_eq!(code, Ok(1));
    let pid: u32 =
        std::fs::read_to_string(world.path("workspace/pids")).expect("read").parse().expect("a pid");
    until("the launcher ends with its front", || !alive(pid));
    until("no tool is left", || {
        let all = std::fs::read_dir("/proc").expect("proc").filter_map(Result::ok);
        !all.map(|item| std::fs::read(item.path().join("cmdline")).unwrap_or_default())
            .any(|line| line.ends_with(b"sleep\x00987\x00"))
    });
}

pub(super) fn forwards_signals() {
    if std::env::var_os(AS_UID).is_some() {
        // The harness's first thread is still root, and no ordinary user may signal it.
        return println!("skipped: the supervisor's process is another user's");
    }
    let world = World::new();
    let code = serve(&world.spec, |seed| {
        world.with_seed(seed, |_| async {
            use tokio::signal::unix::{SignalKind, signal};
            let mut term = signal(SignalKind::terminate()).expect("a handler");
            nix::sys::signal::SigSet::all().thread_unblock().expect("unblocked");
            let supervisor = rustix::process::getppid().expect("a parent");
            rustix::process::kill_process(supervisor, rustix::process::Signal::TERM).expect("sent");
            term.recv().await.expect("heard");
        });
        9
    });
    assert_eq!(code, Ok(9));
}

pub(super) fn locks_the_front() {
    let world = World::new();
    let code = serve(&world.spec, |seed| {
        let layers = lock_front(&[world.path("workspace")]).expect("locked");
        println!("{layers:?}");
        std::fs::write(world.path("workspace/mine"), "x").expect("written");
        std::fs::rename(world.path("workspace/mine"), world.path("workspace/yours")).expect("renamed");
        std::fs::write("/dev/null", "x").expect("written");
        std::fs::read(world.path("tools.d/read_file.toml")).expect("read");
        let denied = |done: std::io::Result<()>| done.expect_err("denied").kind();
        let no = std::io::ErrorKind::PermissionDenied;
        assert_eq!(denied(std::fs::write(world.path("tools.d/new.toml"), "x")), no);
        assert_eq!(denied(std::fs::write(world.path("tools.d/read_file.toml"), "x")), no);
        assert_eq!(denied(std::fs::remove_file(world.path("tools.d/read_file.toml"))), no);
        assert_eq!(denied(std::fs::create_dir(world.path("outside/d"))), no);
        assert_eq!(denied(Command::new("/usr/bin/true").status().map(drop)), no);
        assert!(start(&world.spec).is_err());
        assert_eq!(std::thread::spawn(|| 5).join().expect("a thread"), 5);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let stage = runtime.block_on(async {
            Stage {
                spec: world.spec.clone(),
                launcher: seed.connect().expect("connected"),
                catalog: Arc::new(world.catalog()),
            }
        });
        let path = world.path("workspace/yours");
        let file = path.to_str().expect("UTF-8").to_owned();
        let end = runtime.spawn(async move { stage.call("read_file", json!({"path": file})).await.end });
        assert_eq!(runtime.block_on(end).expect("joined"), End::Exit { code: 0 });
        let signal = rustix::process::getppid().expect("a parent");
        assert!(rustix::process::kill_process(signal, rustix::process::Signal::WINCH).is_err());
        5
    });
    assert_eq!(code, Ok(5));
}

pub(super) fn measures_latency() {
    let world = World::new();
    let file = world.write("workspace/f", &[b'x'; 4096]);
    let cat: Vec<u128> = (0..200)
        .map(|_| {
            let began = Instant::now();
            Command::new("/bin/cat").arg(&file).output().expect("cat");
            began.elapsed().as_micros()
        })
        .collect();
    world.with(|stage| async move {
        let mut read = Vec::new();
        for _ in 0..200 {
            let began = Instant::now();
            let execution = stage.call("read_file", json!({"path": file})).await;
            read.push(began.elapsed().as_micros());
            assert_eq!(execution.end, End::Exit { code: 0 });
        }
        println!("read_file {} us, cat {} us (median)", median(read), median(cat));
    });
}

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times[times.len() / 2]
}
