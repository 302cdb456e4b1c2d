//! What a program is given in addition to its arguments, and that nothing else comes with it.

use super::{Stage, World, compile};
use crate::call::{End, Execution};
use crate::config::Home;
use crate::launcher::protocol::Go;
use crate::types::Digest;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::socket_peercred};
use serde_json::{Value, json};
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Reads its standard input, and tries everything else that could be done with it.
const TAKES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
static void held(const char *what, long got) {
    printf("%s %s %s\n", got < 0 ? "held" : "ALLOWED", what, got < 0 ? strerror(errno) : "");
}
int main(void) {
    static char room[1 << 20];
    long have = 0, got;
    held("rewind before", lseek(0, 0, SEEK_SET));
    held("map", mmap(0, 4096, PROT_READ, MAP_SHARED, 0, 0) == MAP_FAILED ? -1 : 0);
    held("write", write(0, "x", 1));
    held("truncate", ftruncate(0, 0));
    held("send", send(0, "x", 1, 0));
    while ((got = read(0, room + have, sizeof room - have)) > 0) have += got;
    held("rewind after", lseek(0, 0, SEEK_SET));
    errno = 0;
    printf("%s again\n", read(0, room + have, 1) == 0 ? "held" : "ALLOWED");
    printf("fds");
    for (int fd = 0; fd < 1024; fd++) if (fcntl(fd, F_GETFD) >= 0) printf(" %d", fd);
    printf("\n%.*s", (int)have, room);
    return 0;
}
"#;

/// A program `name` that gets its arguments on standard input.
fn on_stdin(world: &World, name: &str, command: &[&str]) {
    let manifest = format!(
        "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\ncommand = {command:?}\nstdin = \"json\"\n\
         runtime = \"dynamic\"\nuntrusted_output = true\n[resource]\ntype = \"Path\"\nfrom = \"/path\"\n\
         canonical = \"path\"\n[sandbox]\nread = [\"@workspace\"]\n[limits]\nwall_ms_max = 700\n\
         output_bytes_max = 262144\nmemory_bytes_max = 268435456\nprocesses_max = 8\n[input]\ntype = \"object\"\n\
         additionalProperties = false\nrequired = [\"path\"]\nproperties.path = {{ type = \"string\" }}\n\
         properties.words = {{ type = \"array\", items = {{ type = \"string\" }} }}\n\
         properties.deep = {{ type = \"object\", opaque = true }}\n"
    );
    world.tool(name, &manifest);
}

pub(super) fn gives_arguments_on_standard_input() {
    let world = World::new();
    let Some(takes) = compile(&world, "takes", TAKES) else { return };
    let file = world.write("workspace/f", b"x");
    let written = file.replace("/workspace/", "/workspace/../workspace/./");
    on_stdin(&world, "takes", &[&takes]);
    on_stdin(&world, "ignores", &["/usr/bin/true"]);
    on_stdin(&world, "sleeps", &["/usr/bin/sleep", "100"]);
    world.with(|stage| async move {
        let told = |execution: &Execution| {
            let text = String::from_utf8(execution.stdout.clone()).expect("UTF-8");
            assert_eq!(execution.end, End::Exit { code: 0 }, "{execution:?}");
            assert!(!text.contains("ALLOWED") && text.matches("held ").count() == 7, "{text}");
            assert!(text.contains("\nfds 0 1 2\n"), "{text}");
            let line = text.lines().last().expect("a line").to_owned();
            serde_json::from_str::<Value>(&line).expect("JSON")
        };
        let words = ["-x", "a b", "--", "$(id)", "é"];
        let asked =
            json!({ "path": written, "words": words, "deep": { "a": [1, true, null, { "b": "\n" }] } });
        let seen = told(&stage.call("takes", asked.clone()).await);
        // The object that was decided on, however the argument spelled it.
        let mut expect = asked;
        expect["path"] = json!(file);
        assert_eq!(seen, expect);
        // As long as a call's arguments may be; and two concurrent calls each get their own.
        let long = |letter: &str| json!({ "path": file, "words": [letter.repeat(65_000)] });
        let (first, second) = (long("a"), long("b"));
        let both = tokio::join!(stage.call("takes", first.clone()), stage.call("takes", second.clone()));
        assert_eq!((told(&both.0), told(&both.1)), (first.clone(), second));
        // A program that never reads blocks no other call.
        assert_eq!(stage.call("ignores", first.clone()).await.end, End::Exit { code: 0 });
        assert_eq!(stage.call("sleeps", first).await.end, End::Timeout);
    });
}

/// Lists what it has, reads its secrets, and tries to change them.
const KEEPS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char **environ;
static void held(const char *what, long got) {
    printf("%s %s %s\n", got < 0 ? "held" : "ALLOWED", what, got < 0 ? strerror(errno) : "");
}
int main(int argc, char **argv) {
    char room[9000], *none[] = {"x", 0};
    signal(SIGXFSZ, SIG_IGN);
    printf("words %d\nfds", argc);
    for (int fd = 0; fd < 1024; fd++) if (fcntl(fd, F_GETFD) >= 0) printf(" %d", fd);
    printf("\n");
    for (char **word = environ; *word; word++) {
        printf("env %s\n", *word);
        char *path = strchr(*word, '=') + 1;
        if (strncmp(*word, "PAR_SECRET_", 11)) continue;
        int fd = open(path, O_RDONLY), own = atoi(strrchr(path, '/') + 1);
        printf("by name %.*s\n", (int)read(fd, room, sizeof room), room);
        printf("by number %.*s\n", (int)read(own, room, sizeof room), room);
        int again = open(path, O_RDWR);
        held("write", write(own, "x", 1));
        held("write reopened", again < 0 ? -1 : write(again, "x", 1));
        held("empty", again < 0 ? -1 : ftruncate(again, 0));
        held("open emptied", open(path, O_RDWR | O_TRUNC));
        held("map", again < 0 ? -1 : mmap(0, 4096, PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED ? -1 : 0);
        held("mode", fchmod(own, 0777));
        held("punch", fallocate(own, 3, 0, 1));
        held("run", syscall(SYS_execveat, own, "", none, environ, AT_EMPTY_PATH));
        held("signals", fcntl(own, F_SETOWN, getpid()));
    }
    return 0;
}
"#;

/// A program `name` that is given `secrets`.
fn with_secrets(world: &World, name: &str, command: &[&str], secrets: &[&str]) {
    let manifest = format!(
        "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\ncommand = {command:?}\n\
         runtime = \"dynamic\"\nuntrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n\
         [sandbox]\nsecrets = {secrets:?}\n[limits]\nwall_ms_max = 5000\noutput_bytes_max = 65536\n\
         memory_bytes_max = 268435456\nprocesses_max = 8\n[input]\ntype = \"object\"\nadditionalProperties = false\n"
    );
    world.tool(name, &manifest);
}

/// A home whose `par.toml` names secrets, each with the value that a front knows.
fn secrets(world: &mut World, names: &[&str]) {
    let root = world.path("home");
    let home = Home {
        etc: root.join("etc"),
        data: root.join("data"),
        workspace: world.workspace(),
        root,
        is_named: false,
    };
    std::fs::create_dir_all(&home.etc).expect("made");
    let mut toml = "[secrets]\n".to_owned();
    for name in names {
        let file = home.etc.join(format!("secret-{name}"));
        std::fs::write(&file, Stage::value(name) + "\n").expect("written");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("mode");
        toml += &format!("\"{name}\" = \"file:{}\"\n", file.display());
    }
    std::fs::write(home.file(), toml).expect("written");
    world.spec.secrets = Some(home);
}

pub(super) fn gives_secrets_by_descriptor() {
    let mut world = World::new();
    let Some(keeps) = compile(&world, "keeps", KEEPS) else { return };
    secrets(&mut world, &["db.main", "smtp", "gone", "short"]);
    let file = |world: &World, name: &str| world.path("home/etc").join(format!("secret-{name}"));
    std::fs::remove_file(file(&world, "gone")).expect("removed");
    std::fs::write(file(&world, "short"), "seven77").expect("written");
    with_secrets(&world, "keeps", &[&keeps], &["smtp", "db.main"]);
    with_secrets(&world, "has_none", &[&keeps], &[]);
    with_secrets(&world, "absent", &[&keeps], &["smtp", "gone"]);
    with_secrets(&world, "too_short", &[&keeps], &["short"]);
    with_secrets(&world, "unnamed", &[&keeps], &["other"]);
    let absent = file(&world, "gone").display().to_string();
    world.with(|stage| async move {
        let text = |execution: &Execution| {
            assert_eq!(execution.end, End::Exit { code: 0 }, "{execution:?}");
            String::from_utf8_lossy(&execution.stdout).into_owned()
        };
        // Each call reads from the beginning, also when another runs.
        let (first, second) = tokio::join!(stage.call("keeps", json!({})), stage.call("keeps", json!({})));
        for execution in [&first, &second, &stage.call("keeps", json!({})).await] {
            let told = text(execution);
            println!("{told}");
            assert!(
                told.starts_with("words 1\nfds 0 1 2 3 4\nenv PATH=/usr/bin\nenv LANG=C.UTF-8\n"),
                "{told}"
            );
            for (word, number, value) in [("SMTP", 3, "smtp"), ("DB_MAIN", 4, "db.main")] {
                let value = Stage::value(value);
                let expect = format!(
                    "env PAR_SECRET_{word}=/proc/self/fd/{number}\nby name {value}\nby number {value}\n"
                );
                assert!(told.contains(&expect), "{told}");
            }
            assert!(!told.contains("ALLOWED") && told.matches("held ").count() == 18, "{told}");
            assert_eq!(execution.given.secrets, ["smtp", "db.main"]);
        }
        let plain = stage.call("has_none", json!({})).await;
        assert_eq!(text(&plain), "words 1\nfds 0 1 2\nenv PATH=/usr/bin\nenv LANG=C.UTF-8\n");
        assert_eq!(plain.given.secrets, [""; 0]);
        // A missing secret is a refusal that names it.
        let refused = stage.launcher.report().refused;
        for (tool, expect) in [
            ("absent", format!("the secret `gone`: {absent}: No such file or directory (os error 2)")),
            ("too_short", "the secret `short`: the value must have 8 to 8192 bytes".to_owned()),
            ("unnamed", "the secret `other`: is missing in `[secrets]` of par.toml".to_owned()),
        ] {
            assert!(
                refused.iter().any(|one| one.tool == tool && one.reason == expect),
                "{tool}: {refused:?}"
            );
            let error = stage.prepare(tool, &json!({})).await.expect_err(tool);
            assert_eq!(error.to_string(), expect);
        }
        // A front that does not search for them, or searches for others, starts nothing.
        let other = |proof: Option<String>| {
            let (stage, ask) = (stage.clone(), stage.ask("keeps", &json!({})));
            async move {
                let prepared = stage.prepare("keeps", &json!({})).await.expect("prepared");
                let (object, exclusions) = (prepared.object, Vec::new());
                let (tool, manifest) = (ask.tool, ask.manifest);
                let arguments = Digest::sha256(ask.arguments.as_bytes());
                let go = Go { tool, manifest, arguments, decision: 1, object, exclusions, secrets: proof };
                stage.launcher.run_go(go, None, &prepared.held, stage.manifest("keeps").limits).await
            }
        };
        for proof in [None, Some(String::new()), Some("0".repeat(64))] {
            let execution = other(proof).await;
            let End::Refused { reason } = &execution.end else { panic!("{execution:?}") };
            let expect = "the tool's secrets are not those that the front replaces";
            assert!(reason.starts_with(expect), "{reason}");
            assert!(execution.stdout.is_empty() && execution.given.secrets.is_empty(), "{execution:?}");
        }
    });
}

/// Talks to its peer, and tries all else that a socket could be used for.
const SPEAKS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static void held(const char *what, long got) {
    printf("%s %s %s\n", got < 0 ? "held" : "ALLOWED", what, got < 0 ? strerror(errno) : "");
}
static void list(const char *when) {
    printf("fds %s", when);
    for (int fd = 0; fd < 1024; fd++) if (fcntl(fd, F_GETFD) >= 0) printf(" %d", fd);
    printf("\n");
}
int main(int argc, char **argv) {
    const char *told = getenv("PAR_CONNECT_1");
    int fd = told ? atoi(told) : 3, one = 1;
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct sockaddr_un other = {.sun_family = AF_UNIX};
    char byte, room[256], path[64];
    strcpy(other.sun_path, argv[1]);
    printf("told %s\n", told ? told : "nothing");
    list("before");
    if (told) {
        write(fd, "hello", 5);
        int have = 0, got;
        while (have < 5 && (got = read(fd, room + have, 5 - have)) > 0) have += got;
        printf("heard %.*s\n", have, room);
    }
    list("after");
    struct iovec vector = {"x", 1}, into = {&byte, 1};
    struct msghdr out = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&out);
    head->cmsg_level = SOL_SOCKET; head->cmsg_type = SCM_RIGHTS; head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &one, sizeof one);
    struct msghdr in = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    held("send a descriptor", sendmsg(fd, &out, MSG_DONTWAIT));
    held("receive a descriptor", recvmsg(fd, &in, MSG_DONTWAIT));
    held("let go", connect(fd, &none, sizeof none));
    held("connect elsewhere", connect(fd, (void *)&other, sizeof other));
    held("send to another", sendto(fd, "x", 1, 0, (void *)&other, sizeof other));
    held("send", send(fd, "x", 1, 0));
    held("receive", recv(fd, &byte, 1, MSG_DONTWAIT));
    held("bind", bind(fd, (void *)&other, sizeof other));
    held("listen", listen(fd, 1));
    held("accept", accept(fd, 0, 0));
    held("pass credentials", setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    held("owner", fcntl(fd, F_SETOWN, 1));
    held("owner by ioctl", ioctl(fd, 0x8901, &one));
    held("unix socket", socket(AF_UNIX, SOCK_STREAM, 0));
    held("connect a new one", connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&other, sizeof other));
    held("internet socket", socket(AF_INET, SOCK_STREAM, 0));
    held("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)room));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    held("open again", open(path, O_RDWR));
    return 0;
}
"#;

/// A program `name` that is connected to `sockets`, and knows the path of the first.
fn connected(world: &World, name: &str, program: &str, sockets: &[&Path], more: &str) {
    let at: Vec<String> = sockets.iter().map(|socket| format!("unix:{}", socket.display())).collect();
    let place = sockets.first().map_or("/nowhere".to_owned(), |socket| socket.display().to_string());
    let manifest = format!(
        "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\ncommand = [\"{program}\", \"{place}\"]\n\
         runtime = \"dynamic\"\nuntrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n\
         [sandbox]\nconnect = {at:?}\n{more}\n[limits]\nwall_ms_max = 5000\noutput_bytes_max = 65536\n\
         memory_bytes_max = 268435456\nprocesses_max = 8\n[input]\ntype = \"object\"\nadditionalProperties = false\n"
    );
    world.tool(name, &manifest);
}

fn listen(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).expect("a socket");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).expect("mode");
    listener.set_nonblocking(true).expect("a socket");
    listener
}

/// The peer of the next call, once it says hello; the answer comes with a descriptor.
fn answer(listener: &UnixListener) -> UnixStream {
    let mut peer = loop {
        match listener.accept() {
            Ok((peer, _)) => break peer,
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        std::thread::yield_now();
    };
    peer.set_nonblocking(false).expect("a socket");
    let mut said = [0; 5];
    peer.read_exact(&mut said).expect("read");
    assert_eq!(&said, b"hello");
    let root = std::fs::File::open("/").expect("open");
    let fds = [root.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&peer, &[IoSlice::new(b"w")], &mut ancillary, SendFlags::empty()).expect("sent");
    peer.write_all(b"orld").expect("written");
    peer
}

pub(super) fn connects_to_named_sockets() {
    let mut world = World::new();
    let Some(speaks) = compile(&world, "speaks", SPEAKS) else { return };
    let at = |name: &str| world.path("outside").join(name);
    let [open, closed, file, link, gone] = ["open", "closed", "file", "link", "gone"].map(at);
    let (listener, _closed) = (listen(&open), listen(&closed));
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).expect("mode");
    std::fs::write(&file, "x").expect("written");
    connected(&world, "speaks", &speaks, &[&open], "");
    connected(&world, "shut", &speaks, &[&closed], "");
    connected(&world, "is_file", &speaks, &[&file], "");
    connected(&world, "is_link", &speaks, &[&link], "");
    connected(&world, "is_gone", &speaks, &[&gone], "");
    connected(&world, "alone", &speaks, &[], "");
    connected(&world, "secretive", &speaks, &[&open], "secrets = [\"smtp\"]");
    secrets(&mut world, &["smtp"]);
    let root = rustix::process::geteuid().is_root();
    world.with(|stage| async move {
        // A link that appears later is not followed.
        symlink(&open, &link).expect("linked");
        // No peer is contacted before a permit.
        drop(stage.prepare("speaks", &json!({})).await.expect("prepared"));
        assert_eq!(listener.accept().expect_err("no peer").kind(), ErrorKind::WouldBlock);
        let spoken = |tool: &'static str, listener: UnixListener| {
            let stage = stage.clone();
            async move {
                let peer = std::thread::spawn(move || (answer(&listener), listener));
                let execution = stage.call(tool, json!({})).await;
                let (peer, listener) = peer.join().expect("answered");
                let told = String::from_utf8_lossy(&execution.stdout).into_owned();
                assert_eq!(execution.end, End::Exit { code: 0 }, "{execution:?}");
                assert!(!told.contains("ALLOWED") && told.matches("held ").count() == 18, "{told}");
                (execution, told, peer, listener)
            }
        };
        let (execution, told, peer, listener) = spoken("speaks", listener).await;
        // As the tool's own user, and with no additional descriptor.
        let uid = if root { super::ORDINARY } else { rustix::process::geteuid().as_raw() };
        assert_eq!(socket_peercred(&peer).expect("credentials").uid.as_raw(), uid);
        assert!(told.starts_with("told 3\nfds before 0 1 2 3\nheard world\nfds after 0 1 2 3\n"), "{told}");
        assert_eq!(execution.given.connect, [format!("unix:{}", open.display())]);
        let (execution, told, _, listener) = spoken("secretive", listener).await;
        assert!(told.starts_with("told 4\nfds before 0 1 2 3 4\nheard world\n"), "{told}");
        assert_eq!((execution.given.connect.len(), execution.given.secrets.len()), (1, 1));
        // A restarted service has a new socket under its name.
        drop(listener);
        let refused = stage.call("speaks", json!({})).await.end;
        assert_eq!(
            refused,
            End::Refused { reason: format!("`unix:{}`: Connection refused (os error 111)", open.display()) }
        );
        std::fs::remove_file(&open).expect("removed");
        let listener = listen(&open);
        let (_, _, _, _listener) = spoken("speaks", listener).await;
        // A program without connections has no number at all.
        let alone = stage.call("alone", json!({})).await;
        let told = String::from_utf8_lossy(&alone.stdout).into_owned();
        assert!(told.starts_with("told nothing\nfds before 0 1 2\n") && !told.contains("ALLOWED"), "{told}");
        for (tool, path, expect) in [
            ("is_file", &file, "not a socket"),
            ("is_link", &link, "Too many levels of symbolic links (os error 40)"),
        ] {
            let error = stage.prepare(tool, &json!({})).await.expect_err(tool);
            assert_eq!(error.to_string(), format!("`unix:{}`: {expect}", path.display()));
        }
        // Issue 15, finding A5: in words, with what to do.
        let error = stage.prepare("is_gone", &json!({})).await.expect_err("gone").to_string();
        let expect = format!("the socket {} is not there: start the service that makes it", gone.display());
        assert!(error.starts_with(&expect), "{error}");
        if root {
            let shut = stage.call("shut", json!({})).await.end;
            let reason = format!("`unix:{}`: Permission denied (os error 13)", closed.display());
            assert_eq!(shut, End::Refused { reason });
        }
        let skipped = stage.launcher.report().skipped;
        assert!(skipped.iter().any(|one| one.tool == "is_gone" && one.path == gone), "{skipped:?}");
    });
}
