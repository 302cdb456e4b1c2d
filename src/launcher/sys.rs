//! The calls that need `unsafe`, each in a safe function.
//!
//! Architecture invariant: no other file of the package has an `unsafe` block.
#![expect(unsafe_code, reason = "process creation and the calls that no safe wrapper offers")]

use nix::sched::CloneFlags;
use rustix::fd::FromRawFd as _;
use rustix::mount::MountAttrFlags;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use tokio::io::unix::AsyncFd;

/// Stack of the vforked child until its exec, in bytes.
const SPAWN_STACK_BYTES: usize = 64 << 10;

/// Proof that this process has a single thread, so that no other thread holds a lock when this one
/// forks.
///
/// Made by counting, and in a child by the fork itself. The holder of one starts no thread:
/// launcher, supervisor and children never start any, and a front gives its own proof away before
/// it starts a runtime.
#[derive(Debug)]
pub(crate) struct SingleThread(());

/// Number of threads of a single-threaded process. A test harness has one more, which waits.
const THREADS: usize = if cfg!(test) { 2 } else { 1 };
/// How long a thread that was joined may still be visible, in milliseconds.
const LEAVING_MS_MAX: u32 = 200;

impl SingleThread {
    /// For a scenario of the tests, whose harness only waits; `/proc` may belong to another
    /// namespace.
    #[cfg(test)]
    pub(crate) fn in_scenario() -> Self {
        Self(())
    }

    /// Counts the threads of this process.
    pub(crate) fn counted() -> io::Result<Self> {
        for _ in 0..LEAVING_MS_MAX {
            if std::fs::read_dir("/proc/self/task")?.count() <= THREADS {
                return Ok(Self(()));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err(io::Error::other("this process has other threads"))
    }
}

/// The side on which a fork returned.
pub(crate) enum Fork {
    /// In the child, whose one thread is a copy of the caller's.
    Child(SingleThread),
    Parent(OwnedFd),
}

/// Forks a long-lived process; the parent holds its pidfd.
pub(crate) fn fork(_one: &SingleThread) -> io::Result<Fork> {
    // SAFETY: this is the only thread; glibc's `fork` takes care of glibc's own locks.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => Ok(Fork::Child(SingleThread(()))),
        nix::unistd::ForkResult::Parent { child } => {
            let pid = rustix::process::Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::NotFound)?;
            // No other code reaps the child, so the pid still names it.
            Ok(Fork::Parent(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?))
        }
    }
}

/// Forks the child of one call into the new `namespaces` (`CLONE_NEW*`).
///
/// `None` in the child, which has one thread, like the caller.
pub(crate) fn clone_call(_one: &SingleThread, namespaces: CloneFlags) -> io::Result<Option<OwnedFd>> {
    let mut pidfd: RawFd = -1;
    let flags = namespaces.bits() | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM the child has its own copy of the memory and, the stack being null,
    // continues on its own copy of this stack; the kernel writes one descriptor to `pidfd`.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, i64::from(flags), 0_usize, &raw mut pidfd, 0_usize, 0_usize)
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        // SAFETY: the call succeeded, so `pidfd` is a fresh descriptor that has no other owner.
        _ => Ok(Some(unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Like [`clone_call`], with the child in the `group` (cgroups(7)) from its first moment on.
pub(crate) fn clone_into(
    _one: &SingleThread,
    namespaces: CloneFlags,
    group: BorrowedFd<'_>,
) -> io::Result<Option<OwnedFd>> {
    let mut pidfd: RawFd = -1;
    // SAFETY: every field of the structure is an integer, of which none needs a value.
    let mut wanted: libc::clone_args = unsafe { std::mem::zeroed() };
    let flags = namespaces.bits() | libc::CLONE_PIDFD;
    wanted.flags = u64::from(flags.unsigned_abs()) | CLONE_INTO_CGROUP;
    wanted.pidfd = (&raw mut pidfd).expose_provenance() as u64;
    wanted.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    wanted.cgroup = u64::from(group.as_raw_fd().unsigned_abs());
    // SAFETY: as in `clone_call`; the kernel reads the structure, of the given size.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const wanted, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        // SAFETY: the call succeeded, so `pidfd` is a fresh descriptor that has no other owner.
        _ => Ok(Some(unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// A flag of clone3(2), too large for an `int`.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// What the vforked child does before it becomes the program.
pub(crate) type Before<'a> = &'a mut dyn FnMut() -> Result<(), String>;

/// Starts `program` by its descriptor and returns its pid, or why exec failed.
///
/// The child shares the memory of the caller, which waits until the exec; `before` runs in the
/// child and must not rely on its effects on memory being undone.
pub(crate) fn spawn(
    _one: &SingleThread,
    program: BorrowedFd<'_>,
    argv: &[CString],
    envp: &[CString],
    before: Before<'_>,
) -> Result<nix::unistd::Pid, String> {
    let argv = pointers(argv);
    let envp = pointers(envp);
    let mut failure = None;
    let mut stack = vec![0_u8; SPAWN_STACK_BYTES];
    let start = Box::new(|| {
        failure = Some(match before() {
            Ok(()) => execute(program, &argv, &envp),
            Err(reason) => reason,
        });
        127
    });
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: CLONE_VFORK stops this thread, the only one, until the child has left the shared
    // memory; the child runs on `stack`, which outlives it.
    let pid = unsafe { nix::sched::clone(start, &mut stack, flags, Some(libc::SIGCHLD)) };
    let pid = pid.map_err(|e| format!("clone: {e}"))?;
    match failure {
        None => Ok(pid),
        Some(reason) => Err(reason),
    }
}

fn pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Returns only if exec failed, with the reason.
fn execute(program: BorrowedFd<'_>, argv: &[*const c_char], envp: &[*const c_char]) -> String {
    let empty: &CStr = c"";
    // SAFETY: both arrays end with a null pointer, their strings outlive the call, and the kernel
    // only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            empty.as_ptr(),
            argv.as_ptr(),
            envp.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    format!("exec: {}", io::Error::last_os_error())
}

/// Overwrites in place each variable of the environment for whose name `goes` returns true: the
/// kernel's copy of the environment, which every fork inherits.
///
/// The caller keeps nothing that it borrowed from the environment.
pub(crate) fn overwrite_environment(_one: &SingleThread, goes: impl Fn(&[u8]) -> bool) {
    // SAFETY: no other code reads or changes the environment: this is the only thread, and nothing
    // is borrowed by the contract above. `environ` is null or an array that ends with a null
    // pointer, of strings that this process may write (environ(7)); each stays in place and ends
    // earlier.
    unsafe {
        let mut at: *const *mut c_char = libc::environ;
        while !at.is_null() && !(*at).is_null() {
            let variable = *at;
            let bytes = CStr::from_ptr(variable).to_bytes();
            let (goes, length) = (goes(bytes.split(|b| *b == b'=').next().unwrap_or(bytes)), bytes.len());
            if goes {
                std::ptr::write_bytes(variable, 0, length);
            }
            at = at.add(1);
        }
    }
}

/// Ends the process at once: no destructor, no exit handler, no buffer is flushed.
pub(crate) fn exit_now(code: u8) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Closes every descriptor except those in `keep`. The caller must not use an owner of a closed
/// descriptor again.
pub(crate) fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut from = 0;
    for fd in keep {
        if from < fd {
            close_range(from, fd - 1)?;
        }
        from = fd + 1;
    }
    close_range(from, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: closing descriptors is safe for memory; the contract of `close_all_but` covers
    // owners, which live in a process that ends with `exit_now`.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Duplicates `fd` to the number `at`, which exec leaves open; a descriptor that had this number is
/// closed. The caller must not use the owner of that one again.
pub(crate) fn put_at(fd: BorrowedFd<'_>, at: RawFd) -> io::Result<()> {
    // SAFETY: duplicating descriptors is safe for memory; the contract above covers the owner of a
    // closed one.
    let done = unsafe { libc::dup3(fd.as_raw_fd(), at, 0) };
    if done == at { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's Landlock ABI version; `None` if it has none or a filter hides it.
pub(crate) fn landlock_abi() -> Option<i32> {
    const VERSION: u32 = 1;
    // SAFETY: with a null attribute, size 0 and this flag the kernel only returns a number.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    i32::try_from(abi).ok().filter(|abi| *abi > 0)
}

/// Whether the kernel's clock is synchronized with another (adjtimex(2)). `None` if it does not
/// say.
pub(crate) fn is_clock_synchronized() -> Option<bool> {
    // SAFETY: all bytes zero are a valid `timex`; with its `modes` 0 the call changes nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `timex` is a valid object that the kernel fills.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    let is_synchronized = state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0;
    (state >= 0).then_some(is_synchronized)
}

/// Leaves the shared namespaces for new ones.
pub(crate) fn unshare(namespaces: CloneFlags) -> io::Result<()> {
    Ok(nix::sched::unshare(namespaces)?)
}

/// Sets `attributes` (mount_setattr(2)) on the mount whose root is `at`, and on all mounts below it
/// if `recursive`. Clears none.
pub(crate) fn set_mount_attributes(
    at: BorrowedFd<'_>,
    attributes: MountAttrFlags,
    recursive: bool,
) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let wanted =
        Attributes { set: u64::from(attributes.bits()), clear: 0, propagation: 0, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let empty: &CStr = c"";
    // SAFETY: the kernel reads `wanted`, of the given size, and the empty path.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_raw_fd(),
            empty.as_ptr(),
            flags,
            &raw const wanted,
            size_of::<Attributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes this process yield to others that wake up (SCHED_BATCH of sched(7)).
pub(crate) fn run_as_batch() -> io::Result<()> {
    // SCHED_BATCH takes no priority.
    let none: libc::c_int = 0;
    // SAFETY: the kernel reads one integer, which is all of a `sched_param`. Called directly, since
    // some C libraries refuse this call.
    let done = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const none) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a network socket, which the self-test expects to be refused; it is closed at once.
pub(crate) fn try_socket() -> rustix::io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    socket(AddressFamily::INET, SocketType::DGRAM, None).map(drop)
}

/// Raises `lo` of the caller's network namespace, over which it has NET_ADMIN (netdevice(7)).
pub(crate) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: a structure of integers and plain arrays, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (at, byte) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *at = c_char::from_ne_bytes([*byte]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: the kernel reads the request, which is of the type that this call asks for.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes over the descriptor `fd`, which another process passed to this one at its start.
///
/// The caller guarantees that nothing else in this process owns it.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD only checks whether the number is an open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and by the contract above this is its only owner.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned)
}

/// Registers a socket with the running runtime.
pub(crate) fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps the one descriptor it names open for as long as it lives.
    Ok(unsafe { AsyncFd::register(socket) }?)
}

/// One argument of [`attempt`].
#[cfg(test)]
pub(crate) enum SyscallArg<'a> {
    Number(i64),
    /// The kernel reads the text.
    Text(&'a CStr),
    /// The kernel reads and writes there.
    Room(&'a mut [u8]),
}

/// Makes one system call by its number, for tests of what a filter answers. The kernel uses as much
/// memory of each room as the call specifies: the caller makes it large enough.
#[cfg(test)]
pub(crate) fn attempt(call: i64, words: &mut [SyscallArg<'_>]) -> io::Result<i64> {
    let mut arguments = [0_i64; 6];
    for (at, word) in arguments.iter_mut().zip(words) {
        *at = match word {
            SyscallArg::Number(number) => *number,
            SyscallArg::Text(text) => i64::try_from(text.as_ptr().expose_provenance()).expect("an address"),
            SyscallArg::Room(room) => {
                i64::try_from(room.as_mut_ptr().expose_provenance()).expect("an address")
            }
        };
    }
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: each pointer is to memory that `words` borrows, and by the contract above the kernel
    // stays within it.
    match unsafe { libc::syscall(call, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error()),
        done => Ok(done),
    }
}
