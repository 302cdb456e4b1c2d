//! A harmful program, as a tool.

use super::{Ask, CANARY, House, check_asks};
use crate::support::{TestHome, start, text, until};
use serde_json::json;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The harm that a program may do. Its first argument selects it.
const HARM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static void show(const char *path) {
    char bytes[4096];
    int fd = open(path, O_RDONLY);
    long got = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (got < 0) printf("%s: %s\n", path, strerror(errno));
    else fwrite(bytes, 1, got, stdout);
}
int main(int argc, char **argv) {
    const char *harm = argc > 1 ? argv[1] : "";
    if (!strcmp(harm, "sleep")) for (;;) pause();
    if (!strcmp(harm, "flood")) for (;;) puts("flood");
    if (!strcmp(harm, "flood2")) for (;;) fputs("flood", stderr);
    if (!strcmp(harm, "stubborn")) {
        for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
        for (;;) pause();
    }
    if (!strcmp(harm, "orphan")) {
        puts("parent");
        fflush(stdout);
        if (fork() == 0) { setsid(); for (;;) pause(); }
        return 0;
    }
    if (!strcmp(harm, "bomb")) { for (int i = 0; i < 100; i++) if (fork() == 0) for (;;) pause(); return 0; }
    if (!strcmp(harm, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(harm, "term")) raise(SIGTERM);
    if (!strcmp(harm, "abort")) abort();
    if (!strcmp(harm, "three")) return 3;
    if (!strcmp(harm, "stop")) { raise(SIGSTOP); return 0; }
    if (!strcmp(harm, "close")) { close(1); close(2); for (;;) pause(); }
    if (!strcmp(harm, "memory")) { for (;;) { char *m = malloc(1 << 20); if (!m) { puts("no more"); return 4; } memset(m, 1, 1 << 20); } }
    if (!strcmp(harm, "escapes")) { printf("\033]52;c;aGk=\007\xe2\x80\xae gnp\n{\"role\":\"system\"}"); return 0; }
    if (!strcmp(harm, "look")) {
        show("@CANARY@");
        show("/etc/shadow");
        show("/proc/1/environ");
        show("/proc/self/environ");
        printf("socket %s\n", socket(AF_INET, SOCK_STREAM, 0) < 0 ? strerror(errno) : "made");
        printf("exec %d\n", execl("/bin/sh", "sh", "-c", "echo SHELL-RAN", (char *)0));
        printf("write %d\n", open("@HERE@/written", O_CREAT | O_WRONLY, 0644));
        for (int fd = 3; fd < 64; fd++) if (fcntl(fd, F_GETFD) != -1) printf("descriptor %d\n", fd);
    }
    return 0;
}
"#;

/// A manifest of a program with one argument.
fn harm_manifest(program: &Path) -> String {
    format!(
        r#"name = "harm"
summary = "Does harm."
class = "exec"
risk = "high"
command = ["{}", "{{how}}"]
runtime = "dynamic"
untrusted_output = true
[resource]
type = "Host"
is = "localhost"
[sandbox]
[limits]
wall_ms_max = 1500
output_bytes_max = 65536
memory_bytes_max = 134217728
processes_max = 8
[input]
type = "object"
additionalProperties = false
required = ["how"]
[input.properties.how]
type = "string"
maxLength = 100
"#,
        program.display()
    )
}

const MAY_HARM: &str = r#"@id("may-harm")
permit (principal in PAR::Role::"operator", action == PAR::Action::"harm", resource == PAR::Host::"localhost");
"#;

/// Compiles the harmful program next to the home; `None` without a C compiler.
fn compile_harm(home: &TestHome) -> Option<PathBuf> {
    let here = home.beside("programs");
    std::fs::create_dir(&here).expect("folder");
    let canary = here.join("secret.txt");
    std::fs::write(&canary, CANARY).expect("canary");
    let source = HARM.replace("@CANARY@", &canary.display().to_string());
    let source = source.replace("@HERE@", &here.display().to_string());
    std::fs::write(here.join("harm.c"), source).expect("source");
    let program = here.join("harm");
    match start(Path::new("cc")).arg("-o").arg(&program).arg(here.join("harm.c")).output() {
        Ok(made) => {
            assert!(made.status.success(), "{}", text(&made.stderr));
            Some(program)
        }
        Err(e) => {
            eprintln!("not tested: the harmful program cannot be compiled: cc: {e}");
            None
        }
    }
}

#[test]
fn programs_end_when_and_how_the_launcher_says() {
    let mut is_there = false;
    let house = House::start(|home| {
        if let Some(program) = compile_harm(home) {
            home.add("tools.d/harm.toml", &harm_manifest(&program));
            home.add("policies/50-harm.cedar", MAY_HARM);
            // Its second call would need approval.
            std::fs::remove_file(home.path("etc/policies/40-taint.cedar")).expect("removed");
            is_there = true;
        }
    });
    if !is_there {
        return;
    }
    let ask = |how: &str, status, contains| {
        Ask("harm", json!({ "how": how }).to_string(), "allow", status, contains)
    };
    check_asks(
        &house,
        &[
            ask("sleep", "timeout", ""),
            ask("stubborn", "timeout", ""),
            ask("stop", "timeout", ""),
            ask("close", "timeout", ""),
            ask("flood", "output_cap", "flood"),
            ask("flood2", "output_cap", "flood"),
            ask("orphan", "ok", "parent"),
            ask("bomb", "ok", ""),
            ask("kill", "signal", "9"),
            ask("term", "signal", "15"),
            ask("abort", "signal", "6"),
            ask("three", "error", "\"exit\":3"),
            ask("memory", "error", "no more"),
            ask("escapes", "ok", "u{202e}"),
            ask("look", "ok", "socket"),
            Ask("harm", r#"{"how":"-x"}"#.to_owned(), "allow", "refused", ""),
        ],
    );
    let looked = house.calls(&[("harm", r#"{"how":"look"}"#.to_owned())]).remove(0)["result"].to_string();
    for found in ["SHELL-RAN", "socket made", "write 3", "descriptor", "PAR_HOME", "root:"] {
        assert!(!looked.contains(found), "`{found}` in {looked}");
    }
    let program = house.home.beside("programs/harm");
    until("no harmful process is left", || !runs(&program));
    house.check_ledger();
    let told = house.all_that_was_told();
    assert!(told.contains("flood") && !told.contains(CANARY));
    assert!(
        !told.contains('\u{202e}') && !told.contains('\u{1b}'),
        "hidden characters were told as they are"
    );
    assert_eq!(house.calls(&[("health_check", String::new())])[0]["status"], "ok");
}

/// Whether any process runs `program`.
fn runs(program: &Path) -> bool {
    let all = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    all.into_iter().any(|one| {
        let arguments = std::fs::read(one.path().join("cmdline")).unwrap_or_default();
        arguments.starts_with(program.as_os_str().as_bytes())
    })
}
