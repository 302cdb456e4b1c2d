//! What a program is given beside its words, and that nothing else comes with it.

use super::{World, compile};
use crate::gate::End;
use serde_json::{Value, json};

/// Takes its standard input, and whatever else could be taken of it.
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
    held("rewind behind", lseek(0, 0, SEEK_SET));
    errno = 0;
    printf("%s again\n", read(0, room + have, 1) == 0 ? "held" : "ALLOWED");
    printf("fds");
    for (int fd = 0; fd < 1024; fd++) if (fcntl(fd, F_GETFD) >= 0) printf(" %d", fd);
    printf("\n%.*s", (int)have, room);
    return 0;
}
"#;

/// A program `name` that has its arguments on standard input.
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
        let told = |execution: &crate::gate::Execution| {
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
        // The object that was decided on, whatever it was called.
        let mut expect = asked;
        expect["path"] = json!(file);
        assert_eq!(seen, expect);
        // As much as a call may say; and of two at once each has its own.
        let long = |letter: &str| json!({ "path": file, "words": [letter.repeat(65_000)] });
        let (first, second) = (long("a"), long("b"));
        let both = tokio::join!(stage.call("takes", first.clone()), stage.call("takes", second.clone()));
        assert_eq!((told(&both.0), told(&both.1)), (first.clone(), second));
        // Who never reads keeps nobody waiting.
        assert_eq!(stage.call("ignores", first.clone()).await.end, End::Exit { code: 0 });
        assert_eq!(stage.call("sleeps", first).await.end, End::Timeout);
    });
}
