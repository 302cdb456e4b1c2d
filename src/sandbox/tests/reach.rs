//! What a compromised front asks of the kernel, one row for each attempt: about files outside
//! `data/`, other processes of its user, and sockets of every kind. Each row goes through before
//! the front is locked.

use super::super::{Dials, lock_front, narrow_front, serve, start};
use super::{Command, World};
use crate::launcher::sys::{SyscallArg, attempt};
use BeforeLock::{AsRoot, Through, WhereKnown};
use SyscallArg::{Number, Room, Text};
use rustix::io::Errno;
use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Whether an attempt goes through before the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BeforeLock {
    Through,
    /// For root alone.
    AsRoot,
    /// On a kernel and a file system that have it.
    WhereKnown,
}

/// A name, whether it goes through before the lock, and the attempt.
type Row = (&'static str, BeforeLock, fn(&Aims) -> io::Result<()>);

/// What the attempts aim at.
struct Aims {
    /// Another process of the same user. It ends with this process, whose pipe it reads.
    other: Child,
    /// A file that decides what may run.
    rules: PathBuf,
    rules_text: CString,
    /// A socket with a path, outside `data/`.
    door: PathBuf,
    /// Name of an abstract socket.
    hidden: String,
    _doors: (UnixListener, UnixListener),
}

impl Aims {
    fn new(world: &World) -> Self {
        let other = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().expect("another process");
        let rules = world.path("tools.d/read_file.toml");
        let door = world.path("outside/door");
        let hidden = format!("par-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&hidden).expect("a name");
        let doors = (
            UnixListener::bind(&door).expect("a socket"),
            UnixListener::bind_addr(&address).expect("a socket"),
        );
        let rules_text = CString::new(rules.to_str().expect("UTF-8")).expect("no zero");
        Self { other, rules, rules_text, door, hidden, _doors: doors }
    }

    fn other(&self) -> SyscallArg<'static> {
        Number(i64::from(self.other.id()))
    }

    fn file(&self) -> SyscallArg<'_> {
        Text(&self.rules_text)
    }

    fn open(&self) -> io::Result<(std::fs::File, SyscallArg<'static>)> {
        let file = std::fs::File::open(&self.rules)?;
        let number = Number(i64::from(file.as_raw_fd()));
        Ok((file, number))
    }
}

fn ask<const N: usize>(call: i64, mut words: [SyscallArg<'_>; N]) -> io::Result<()> {
    attempt(call, &mut words).map(drop)
}

/// Makes something that outlives the process, and removes it with `remove`.
fn make<const N: usize>(call: i64, mut words: [SyscallArg<'_>; N], remove: (i64, usize)) -> io::Result<()> {
    let id = attempt(call, &mut words)?;
    let mut words = [Number(id), Number(0), Number(0), Number(0)];
    debug_assert_eq!(libc::IPC_RMID, 0, "the zeros above");
    words[remove.1] = Number(i64::from(libc::IPC_RMID));
    attempt(remove.0, &mut words).map(drop)
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<()> {
    let mut words = [family, kind, protocol].map(|word| Number(i64::from(word)));
    let fd = attempt(libc::SYS_socket, &mut words)?;
    ask(libc::SYS_close, [Number(fd)])
}

const HERE: SyscallArg<'static> = Number(libc::AT_FDCWD as i64);
const NULL: SyscallArg<'static> = Number(0);

/// Numbers that the `libc` crate does not have for each architecture; they are the same on all.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_FILE_SETATTR: i64 = 469;

const PROCESSES: &[Row] = &[
    ("limits of another", Through, |aims| {
        let mut limits = [3_600_u64.to_ne_bytes(), 3_600_u64.to_ne_bytes()].concat();
        ask(libc::SYS_prlimit64, [aims.other(), Number(0), Room(&mut limits), NULL])
    }),
    ("limits of another, read", Through, |aims| {
        let mut limits = [0; 16];
        ask(libc::SYS_prlimit64, [aims.other(), Number(0), NULL, Room(&mut limits)])
    }),
    ("priority of another", Through, |aims| {
        ask(libc::SYS_setpriority, [Number(0), aims.other(), Number(19)])
    }),
    ("scheduler of another", Through, |aims| {
        ask(libc::SYS_sched_setscheduler, [aims.other(), Number(3), Room(&mut [0; 4])])
    }),
    ("scheduling parameters of another", Through, |aims| {
        ask(libc::SYS_sched_setparam, [aims.other(), Room(&mut [0; 4])])
    }),
    ("scheduling attributes of another", Through, |aims| {
        // Size 48, SCHED_BATCH, and a nice value of 19.
        let mut attributes = [0_u8; 48];
        (attributes[0], attributes[4], attributes[16]) = (48, 3, 19);
        ask(libc::SYS_sched_setattr, [aims.other(), Room(&mut attributes), NULL])
    }),
    ("processors of another", Through, |aims| {
        ask(libc::SYS_sched_setaffinity, [aims.other(), Number(128), Room(&mut [0xff; 128])])
    }),
    ("disk priority of another", Through, |aims| {
        ask(libc::SYS_ioprio_set, [Number(1), aims.other(), Number(2 << 13 | 6)])
    }),
    ("signal to another", Through, |aims| ask(libc::SYS_kill, [aims.other(), NULL])),
    ("signal to another's thread", Through, |aims| ask(libc::SYS_tgkill, [aims.other(), aims.other(), NULL])),
    ("signal to a thread by its number alone", Through, |aims| ask(libc::SYS_tkill, [aims.other(), NULL])),
    ("signal with a value", Through, |aims| {
        // si_code is SI_QUEUE, which user programs may set.
        let mut word = [0_u8; 128];
        word[8..12].copy_from_slice(&(-1_i32).to_ne_bytes());
        ask(libc::SYS_rt_sigqueueinfo, [aims.other(), NULL, Room(&mut word)])
    }),
    ("descriptor of another process", Through, |aims| ask(libc::SYS_pidfd_open, [aims.other(), NULL])),
    ("signal by a descriptor's owner", Through, |aims| {
        let (_file, fd) = aims.open()?;
        ask(libc::SYS_fcntl, [fd, Number(i64::from(libc::F_SETOWN)), aims.other()])
    }),
    ("memory of another is moved", WhereKnown, |aims| {
        let mut nodes = [1_u64.to_ne_bytes(), 1_u64.to_ne_bytes()];
        let [from, to] = &mut nodes;
        ask(libc::SYS_migrate_pages, [aims.other(), Number(2), Room(from), Room(to)])
    }),
    ("own memory is shown to others", Through, |_| ask(libc::SYS_prctl, [Number(4), Number(1)])),
];

const FILES: &[Row] = &[
    ("mode", Through, |aims| ask(libc::SYS_fchmodat, [HERE, aims.file(), Number(0o666)])),
    ("mode, the newer call", WhereKnown, |aims| ask(SYS_FCHMODAT2, [HERE, aims.file(), Number(0o666), NULL])),
    ("mode by a descriptor", Through, |aims| {
        let (_file, fd) = aims.open()?;
        ask(libc::SYS_fchmod, [fd, Number(0o666)])
    }),
    ("owner", Through, |aims| {
        let [uid, gid] = own_ids();
        ask(libc::SYS_fchownat, [HERE, aims.file(), uid, gid, NULL])
    }),
    ("owner by a descriptor", Through, |aims| {
        let ((_file, fd), [uid, gid]) = (aims.open()?, own_ids());
        ask(libc::SYS_fchown, [fd, uid, gid])
    }),
    ("times", Through, |aims| ask(libc::SYS_utimensat, [HERE, aims.file(), NULL, NULL])),
    ("attribute", WhereKnown, |aims| {
        ask(libc::SYS_setxattr, [aims.file(), Text(c"user.par"), Text(c"x"), Number(1), NULL])
    }),
    ("attribute, not of what a link leads to", WhereKnown, |aims| {
        ask(libc::SYS_lsetxattr, [aims.file(), Text(c"user.par"), Text(c"x"), Number(1), NULL])
    }),
    ("attribute by a descriptor", WhereKnown, |aims| {
        let (_file, fd) = aims.open()?;
        ask(libc::SYS_fsetxattr, [fd, Text(c"user.par"), Text(c"x"), Number(1), NULL])
    }),
    ("attribute, the newer call", WhereKnown, |aims| {
        let mut value = [c"x".as_ptr().addr().to_ne_bytes(), [1, 0, 0, 0, 0, 0, 0, 0]].concat();
        ask(SYS_SETXATTRAT, [HERE, aims.file(), NULL, Text(c"user.par"), Room(&mut value), Number(16)])
    }),
    ("attribute taken away", WhereKnown, |aims| ask(libc::SYS_removexattr, [aims.file(), Text(c"user.par")])),
    ("flags of a file", WhereKnown, |aims| {
        let (_file, fd) = aims.open()?;
        ask(libc::SYS_ioctl, [fd, Number(0x4008_6602), Room(&mut [0; 8])])
    }),
    ("flags of a file, the newer call", WhereKnown, |aims| {
        ask(SYS_FILE_SETATTR, [HERE, aims.file(), Room(&mut [0; 24]), Number(24), NULL])
    }),
    ("lease", Through, |aims| {
        let (_file, fd) = aims.open()?;
        ask(libc::SYS_fcntl, [fd, Number(i64::from(libc::F_SETLEASE)), NULL])
    }),
    ("length", Through, |aims| ask(libc::SYS_truncate, [aims.file(), Number(10)])),
    ("watch on a folder", Through, |_| {
        let fd = attempt(libc::SYS_inotify_init1, &mut [NULL])?;
        ask(libc::SYS_inotify_add_watch, [Number(fd), Text(c"/etc"), Number(0x20)])?;
        ask(libc::SYS_close, [Number(fd)])
    }),
    ("watch on a file system", WhereKnown, |_| ask(libc::SYS_fanotify_init, [Number(0x200), NULL])),
    ("older watch on a folder", WhereKnown, |_| {
        let folder = std::fs::File::open("/etc")?;
        ask(libc::SYS_fcntl, [Number(i64::from(folder.as_raw_fd())), Number(1026), Number(1)])
    }),
    ("shared memory", WhereKnown, |_| {
        make(libc::SYS_shmget, [NULL, Number(4096), Number(0o1600)], (libc::SYS_shmctl, 1))
    }),
    ("semaphores", WhereKnown, |_| {
        make(libc::SYS_semget, [NULL, Number(1), Number(0o1600)], (libc::SYS_semctl, 2))
    }),
    ("queue of messages", WhereKnown, |_| {
        make(libc::SYS_msgget, [NULL, Number(0o1600)], (libc::SYS_msgctl, 1))
    }),
    ("named queue of messages", WhereKnown, |_| {
        let name = CString::new(format!("par-test-{}", std::process::id())).expect("no zero");
        let flags = i64::from(libc::O_RDWR | libc::O_CREAT);
        let fd = attempt(libc::SYS_mq_open, &mut [Text(&name), Number(flags), Number(0o600), NULL])?;
        ask(libc::SYS_close, [Number(fd)])?;
        ask(libc::SYS_mq_unlink, [Text(&name)])
    }),
];

/// Calls that only one architecture has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Row] = &[
    ("mode, the older call", Through, |aims| ask(libc::SYS_chmod, [aims.file(), Number(0o666)])),
    ("owner, the older call", Through, |aims| {
        let [uid, gid] = own_ids();
        ask(libc::SYS_chown, [aims.file(), uid, gid])
    }),
    ("owner, not of what a link leads to", Through, |aims| {
        let [uid, gid] = own_ids();
        ask(libc::SYS_lchown, [aims.file(), uid, gid])
    }),
    ("times, the oldest call", Through, |aims| ask(libc::SYS_utime, [aims.file(), NULL])),
    ("times, the older call", Through, |aims| ask(libc::SYS_utimes, [aims.file(), NULL])),
    ("times below a folder", Through, |aims| ask(libc::SYS_futimesat, [HERE, aims.file(), NULL])),
    ("watch, the older call", Through, |_| {
        let fd = attempt(libc::SYS_inotify_init, &mut [])?;
        ask(libc::SYS_close, [Number(fd)])
    }),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Row] = &[];

const SOCKETS: &[Row] = &[
    ("socket with a path", Through, |aims| UnixStream::connect(&aims.door).map(drop)),
    ("socket with an abstract name", Through, |aims| {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(&aims.hidden)?).map(drop)
    }),
    ("unix datagrams", Through, |_| socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)),
    ("pair of unix datagrams", Through, |_| {
        ask(libc::SYS_socketpair, [Number(1), Number(2), NULL, Room(&mut [0; 8])])
    }),
    ("netlink", Through, |_| socket(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
    ("vsock", WhereKnown, |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    ("packets", AsRoot, |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    ("raw addresses", AsRoot, |_| socket(libc::AF_INET, libc::SOCK_RAW, 255)),
    ("raw addresses of version 6", AsRoot, |_| socket(libc::AF_INET6, libc::SOCK_RAW, 255)),
    ("echo requests", WhereKnown, |_| socket(libc::AF_INET, libc::SOCK_DGRAM, 1)),
    ("TCP of several paths", WhereKnown, |_| socket(libc::AF_INET, libc::SOCK_STREAM, 262)),
    ("SCTP", WhereKnown, |_| socket(libc::AF_INET, libc::SOCK_STREAM, 132)),
    ("the kernel's ciphers", WhereKnown, |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    ("bluetooth", WhereKnown, |_| socket(libc::AF_BLUETOOTH, libc::SOCK_RAW, 1)),
];

fn own_ids() -> [SyscallArg<'static>; 2] {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    [uid.as_raw(), gid.as_raw()].map(|id| Number(i64::from(id)))
}

fn rows() -> impl Iterator<Item = &'static Row> {
    [PROCESSES, FILES, OLDER, SOCKETS].into_iter().flatten()
}

fn tell(done: &io::Result<()>) -> String {
    match done {
        Ok(()) => "goes through".to_owned(),
        Err(e) => Errno::from_io_error(e).map_or_else(|| e.to_string(), |errno| format!("{errno:?}")),
    }
}

/// Makes every attempt, locks this process as a front, and makes them again.
fn play(world: &World, dials: Dials) {
    let aims = Aims::new(world);
    let before: Vec<_> = rows().map(|(_, _, row)| row(&aims)).collect();
    std::fs::set_permissions(&aims.rules, PermissionsExt::from_mode(0o644)).expect("mode");
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    lock_front(&[world.workspace()]).expect("locked");
    narrow_front(dials).expect("narrowed");
    let root = rustix::process::getuid().is_root();
    let mut through = Vec::new();
    for ((name, expect, row), before) in rows().zip(&before) {
        let after = row(&aims);
        println!("{name}: {} before, {} after", tell(before), tell(&after));
        let is_expected = match expect {
            Through => before.is_ok(),
            AsRoot => before.is_ok() == root,
            WhereKnown => true,
        };
        assert!(is_expected, "{name}: it fails even before the lock");
        let refused = [ErrorKind::PermissionDenied, ErrorKind::Unsupported];
        if !after.is_err_and(|e| refused.contains(&e.kind()) || e.raw_os_error() == Some(libc::ENOTTY)) {
            through.push(name);
        }
    }
    let mode = std::fs::metadata(&aims.rules).expect("there").permissions().mode() & 0o777;
    println!("mode of the rules: {mode:o}");
    assert!(through.is_empty(), "{through:?}");
    assert_eq!(mode, 0o644);
    goes_on(&own, &world.workspace());
    // With the one type on which launchers listen.
    let dialled = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0);
    assert_eq!(dialled.is_ok(), dials == Dials::Launchers, "{dialled:?}");
}

/// The regular work of a front still succeeds.
fn goes_on(own: &TcpListener, workspace: &Path) {
    let client = TcpStream::connect(own.local_addr().expect("an address")).expect("connected");
    own.accept().expect("accepted");
    drop(client);
    // The C library sorts its results with sockets that it makes, and tries daemons that it may not
    // reach.
    let found = ("localhost", 80).to_socket_addrs().expect("looked up");
    assert!(found.count() > 0);
    drop(UnixStream::pair().expect("a pair"));
    std::fs::write(workspace.join("own"), "x").expect("written");
    std::thread::Builder::new()
        .name("named".to_owned())
        .spawn(|| ())
        .expect("a thread")
        .join()
        .expect("joined");
    // A process that aborts signals its own thread.
    let [own, thread] =
        [libc::SYS_getpid, libc::SYS_gettid].map(|call| attempt(call, &mut []).expect("a number"));
    ask(libc::SYS_tgkill, [Number(own), Number(thread), NULL]).expect("its own");
    let mut limits = [0; 16];
    ask(libc::SYS_prlimit64, [NULL, Number(7), NULL, Room(&mut limits)]).expect("its own");
}

pub(super) fn a_compromised_front_is_refused() {
    let world = World::new();
    let code = serve(&world.spec, |seed| {
        play(&world, Dials::Nothing);
        drop(seed);
        6
    });
    assert_eq!(code, Ok(6));
}

pub(super) fn a_front_with_its_own_launcher_is_refused() {
    let world = World::new();
    let seed = start(&world.spec).expect("a launcher");
    play(&world, seed.dials());
    drop(seed);
}

pub(super) fn a_front_that_dials_launchers_is_refused() {
    play(&World::new(), Dials::Launchers);
}
