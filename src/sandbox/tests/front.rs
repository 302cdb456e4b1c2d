//! What a compromised front tries, from inside: each step is seen to go through before the lock.

use super::super::{Dials, lock_front, narrow_front, serve};
use super::{Command, World};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, listen, socket};
use rustix::process::{
    DumpableBehavior, PidfdFlags, PidfdGetfdFlags, dumpable_behavior, pidfd_getfd, pidfd_open,
};
use std::io::{ErrorKind, IoSliceMut};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;

/// What is tried, and whether it went through.
type Tries = Vec<(&'static str, Result<(), ErrorKind>)>;

pub(super) fn the_front_reaches_nothing_else() {
    let world = World::new();
    for name in ["outside/file", "outside/gone", "workspace/own"] {
        world.write(name, b"x");
    }
    let secret = String::from("a text in the memory of the parent");
    let code = serve(&world.spec, |seed| {
        // Another process of the same user, with the same memory up to here.
        let parent = rustix::process::getppid().filter(|_| std::env::var_os(super::AS_UID).is_none());
        if parent.is_none() {
            println!("skipped: the supervisor's process is another user's");
        }
        let before = all(&world, &secret, parent);
        for (what, done) in &before {
            assert_eq!(*done, Ok(()), "{what}: it fails even before the lock");
        }
        for name in ["outside/gone", "outside/file", "workspace/own"] {
            world.write(name, b"x");
        }
        let own = TcpListener::bind("127.0.0.1:0").expect("a port");
        lock_front(&[world.path("workspace")]).expect("locked");
        let door = UnixListener::bind(world.path("workspace/door")).expect("its own socket");
        // Threads that already exist are confined too.
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv().map(|()| listens()));
        let early = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        narrow_front(Dials::Nothing).expect("narrowed");
        for (what, done) in all(&world, &secret, parent) {
            println!("{what}: {done:?}");
            assert!(matches!(done, Err(ErrorKind::PermissionDenied)), "{what}: {done:?}");
        }
        go.send(()).expect("heard");
        assert_eq!(thread.join().expect("joined"), Ok(Err(Errno::PERM)));
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        // What it exists for still works.
        let client = TcpStream::connect(own.local_addr().expect("an address")).expect("connected");
        own.accept().expect("accepted");
        drop(client);
        // Through a socket from before: it can no longer make one of that kind.
        let address = SocketAddrUnix::new(world.path("workspace/door")).expect("an address");
        connect(&early, &address).expect("connected");
        door.accept().expect("accepted");
        drop(seed);
        std::fs::write(world.path("workspace/own"), "y").expect("written");
        6
    });
    assert_eq!(code, Ok(6));
}

fn listens() -> Result<(), Errno> {
    listen(socket(AddressFamily::INET, SocketType::STREAM, None)?, 1)
}

fn all(world: &World, secret: &str, parent: Option<rustix::process::Pid>) -> Tries {
    let at = |name: &str| world.path(name);
    let io = |done: std::io::Result<()>| done.map_err(|e| e.kind());
    let raw = |done: Result<(), Errno>| done.map_err(|e| std::io::Error::from(e).kind());
    let mut tries = vec![
        ("write", io(std::fs::write(at("outside/file"), "y"))),
        ("make", io(std::fs::write(at("outside/made"), "y"))),
        ("remove", io(std::fs::remove_file(at("outside/gone")))),
        (
            "rules",
            io(std::fs::write(at("tools.d/new"), "y").and_then(|()| std::fs::remove_file(at("tools.d/new")))),
        ),
        ("take out", io(std::fs::rename(at("workspace/own"), at("outside/own")))),
        ("exec", io(Command::new("/usr/bin/true").status().map(drop))),
        ("listen", raw(listens())),
        ("take a port", io(TcpListener::bind("127.0.0.1:0").map(drop))),
    ];
    if let Some(parent) = parent {
        tries.push(("descriptor of another", raw(steal(parent))));
        tries.push(("memory of another", raw(peek(parent, secret))));
    }
    tries
}

/// Steals the standard input of another process.
fn steal(parent: rustix::process::Pid) -> Result<(), Errno> {
    let whom = pidfd_open(parent, PidfdFlags::empty())?;
    pidfd_getfd(whom, 0, PidfdGetfdFlags::empty()).map(drop)
}

fn peek(parent: rustix::process::Pid, secret: &str) -> Result<(), Errno> {
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    let mut got = vec![0; secret.len()];
    let there = RemoteIoVec { base: secret.as_ptr().addr(), len: secret.len() };
    let pid = nix::unistd::Pid::from_raw(parent.as_raw_nonzero().get());
    let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut got)], &[there]);
    assert!(read.is_err() || got == secret.as_bytes());
    read.map(drop).map_err(|e| Errno::from_raw_os_error(e as i32))
}
