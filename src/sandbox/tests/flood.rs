//! A compromised front and a compromised launcher that send each other more than any receiver
//! takes, and a launcher that goes silent.

use super::super::{serve, start};
use super::World;
use crate::call::{End, Object, Prepared};
use crate::launcher::Report;
use crate::launcher::protocol::{
    Ask, PIECE_BYTES_MAX, PacketKind, Received, Reply, Request, packet, packets, receive,
};
use crate::sandbox::client::LinkSeed;
use crate::sandbox::source::{LauncherOrigin, pair};
use crate::types::limits::{LINK_UNFINISHED_BYTES_MAX, LINK_WAITING_PACKETS_MAX, PREPARE_MS_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::time::Timespec;
use serde_json::json;
use std::os::fd::OwnedFd;

/// Peak memory that a launcher may reach through what a front sends, in KiB: many times its usual
/// size plus one message.
const PEAK_KIB_MAX: u64 = 128 << 10;

/// Peak memory of process `pid`, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Sends `packet`, as long as the other side takes it within two seconds.
fn offer(socket: &OwnedFd, packet: &[u8]) -> bool {
    loop {
        match send(socket, packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => return true,
            Err(Errno::AGAIN) => {
                let time = Timespec { tv_sec: 2, tv_nsec: 0 };
                if poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&time)) == Ok(0) {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
}

pub(super) fn unfinished_messages_fill_no_memory() {
    let world = World::new();
    let LinkSeed { socket, report, .. } = start(&world.spec).expect("a launcher");
    let piece = vec![b' '; PIECE_BYTES_MAX];
    // 255 messages of less than 8 MiB each would come to 2 GiB.
    let mut taken = 0_u64;
    'all: for _ in 0..32 {
        for id in 1..256 {
            if !offer(&socket, &packet(PacketKind::Message, id, true, &piece)) {
                break 'all;
            }
            taken += PIECE_BYTES_MAX as u64;
        }
    }
    let left = std::fs::metadata(format!("/proc/{}", report.pid)).is_err();
    println!("{} MiB were taken; gone: {left}", taken >> 20);
    if !left {
        println!("the launcher came to {} KiB", peak_kib(report.pid));
    }
    // The socket's own buffer comes on top.
    assert!(taken <= LINK_UNFINISHED_BYTES_MAX as u64 * 2, "{taken}");
}

pub(super) fn unread_answers_fill_no_memory() {
    let world = World::new();
    let LinkSeed { socket, report, .. } = start(&world.spec).expect("a launcher");
    let ping = packets(1, &Request::Ping).expect("a packet").remove(0);
    let asked = (0..1_000_000).take_while(|_| offer(&socket, &ping)).count();
    println!("{asked} pings were taken; the launcher came to {} KiB", peak_kib(report.pid));
    assert!(asked < 100_000 && asked > LINK_WAITING_PACKETS_MAX, "{asked}");
    assert!(peak_kib(report.pid) < PEAK_KIB_MAX);
    // It continues once it is read again, and has lost nothing.
    let mut answered = 0;
    while answered < asked {
        assert!(matches!(receive(&socket, 1 << 16), Received::Packet(_)), "after {answered} of {asked}");
        answered += 1;
    }
    assert!(offer(&socket, &ping));
    assert!(matches!(receive(&socket, 1 << 16), Received::Packet(_)));
}

/// Sends packets as a launcher to a front that has asked it to prepare one call, which has id 1.
/// Returns whether the front still has the connection.
async fn said_to_a_front(packets: impl Iterator<Item = Vec<u8>>) -> bool {
    let (socket, launcher) = pair().expect("a pair");
    let seed = LinkSeed { socket, origin: LauncherOrigin::Forked, report: Report::default() };
    let front = seed.connect().expect("connected");
    let world = World::new();
    let catalog = world.catalog();
    let manifest = catalog.find("read_file").expect("a tool");
    let ask = Ask {
        tool: "read_file".to_owned(),
        manifest: manifest.digest.hex(),
        arguments: "{}".to_owned(),
        named: Vec::new(),
    };
    let asking = tokio::spawn({
        let front = front.clone();
        async move { front.prepare_ask(ask, PREPARE_MS_MAX).await }
    });
    rustix::io::ioctl_fionbio(&launcher, true).expect("set");
    // First the front's request.
    while !matches!(receive(&launcher, 1 << 16), Received::Packet(_)) {
        tokio::task::yield_now().await;
    }
    let mut there = true;
    for packet in packets {
        loop {
            match send(&launcher, &packet, SendFlags::NOSIGNAL) {
                Ok(_) => break,
                Err(Errno::AGAIN) => tokio::task::yield_now().await,
                Err(_) => {
                    there = false;
                    break;
                }
            }
        }
        tokio::task::yield_now().await;
    }
    // The last packet may be the one that ends it.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let told = receive(&launcher, 1 << 16);
    asking.abort();
    there && told != Received::End
}

#[tokio::test]
async fn a_front_takes_no_more_than_a_launcher_may_say() {
    let piece = vec![b' '; PIECE_BYTES_MAX];
    let pieces = LINK_UNFINISHED_BYTES_MAX / PIECE_BYTES_MAX;
    let unfinished = |count: usize| {
        (0..count).map(|at| packet(PacketKind::Message, at as u64 % 250, true, &piece)).collect::<Vec<_>>()
    };
    assert!(said_to_a_front(unfinished(pieces).into_iter()).await, "one bound for all");
    assert!(!said_to_a_front(unfinished(pieces + 1).into_iter()).await, "one bound for all");
    // Output of a call that was not started.
    let output = packet(PacketKind::Stdout, 1, false, b"x");
    assert!(!said_to_a_front(std::iter::once(output)).await);
    // Output of an unknown call is ignored.
    let output = packet(PacketKind::Stdout, 2, false, b"x");
    assert!(said_to_a_front(std::iter::once(output)).await);
    // That the call is prepared, again and again: no receiver takes that before there is a permit.
    let word = || packets(1, &Reply::Prepared(Object::Fixed)).expect("a packet").remove(0);
    assert!(said_to_a_front((0..2).map(|_| word())).await);
    assert!(!said_to_a_front((0..3).map(|_| word())).await);
}

/// Waits until the process is gone.
fn wait_for_end(process: &OwnedFd) {
    let time = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&time)), Ok(1), "it is still there");
}

pub(super) fn a_launcher_that_hangs_is_ended_and_replaced() {
    let world = World::new();
    let file = world.write("workspace/f", b"x");
    world.program("sleeps", &["/usr/bin/sleep", "3600"]);
    let manifest = std::fs::read_to_string(world.path("tools.d/sleeps.toml")).expect("written");
    world.tool("sleeps", &manifest.replace("wall_ms_max = 700", "wall_ms_max = 600000"));
    let code = serve(&world.spec, |seed| {
        world.with_seed(seed, |stage| async move {
            let none = json!({});
            let Prepared { object, held } = stage.prepare("sleeps", &none).await.expect("prepared");
            let asked = stage.clone();
            let running =
                tokio::spawn(async move { asked.run("sleeps", &json!({}), Prepared { object, held }).await });
            stage.launcher.check_or_replace().await.expect("it answers");
            assert_eq!(stage.launcher.obstacle(), None);
            let stuck = stage.launcher.report().pid;
            let stuck = Pid::from_raw(i32::try_from(stuck).expect("a number")).expect("a process");
            let process = pidfd_open(stuck, PidfdFlags::empty()).expect("it is there");
            kill_process(stuck, Signal::STOP).expect("stopped");
            // The first ping that it leaves unanswered makes it an obstacle, the second one ends
            // it.
            let silent = stage.launcher.check_or_replace().await.expect_err("silent");
            assert_eq!(silent.to_string(), "the launcher did not answer");
            assert_eq!(stage.launcher.obstacle(), Some("the launcher does not answer"));
            stage.launcher.check_or_replace().await.expect("another one");
            assert_eq!((stage.launcher.obstacle(), stage.launcher.renewals()), (None, 1));
            assert_eq!(running.await.expect("joined").end, End::Killed);
            wait_for_end(&process);
            let read = stage.call("read_file", json!({"path": file})).await;
            assert_eq!(read.end, End::Exit { code: 0 });
            stage.launcher.check_or_replace().await.expect("it answers");
        });
        6
    });
    assert_eq!(code, Ok(6));
}

pub(super) fn a_front_has_few_launchers() {
    let world = World::new();
    let code = serve(&world.spec, |seed| {
        world.with_seed(seed, |stage| async move {
            let mut others = Vec::new();
            // Sockets that are kept keep their launchers.
            let refused = loop {
                match stage.launcher.more().await {
                    Ok(another) => others.push(another),
                    Err(refused) => break refused,
                }
                assert!(others.len() < 64, "as many as it asks for");
            };
            println!("{} more, then: {refused}", others.len());
            assert_eq!(others.len() + 1, crate::types::limits::LAUNCHERS_MAX);
        });
        6
    });
    assert_eq!(code, Ok(6));
}
