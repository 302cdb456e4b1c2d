//! Levels, the demanded minimum, and what older kernels would provide.

use super::super::start;
use super::{World, compile, has};
use crate::call::End;
use crate::launcher::Report;
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::confine::seccomp::filters::without_namespaces;
use crate::types::Level;
use serde_json::json;
use std::collections::BTreeMap;

/// The protections of `table` that `layer` provides.
fn by<'a>(table: &'a BTreeMap<String, Vec<String>>, layer: &str) -> Vec<&'a str> {
    table
        .iter()
        .filter(|(_, layers)| layers.iter().any(|one| one == layer))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// With the rights of each Landlock version the same attempts are refused, and the record says by
/// which layers.
pub(super) fn older_kernels_give_fewer_protections() {
    const CODE: &str = "#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n#include <string.h>\n\
        int main(int n,char**a){int r=open(a[1],O_RDONLY|O_TRUNC);printf(\"%s\\n\",r<0?strerror(errno):\"emptied\");\
        r=open(a[1],O_RDONLY);printf(\"%s\\n\",r<0?strerror(errno):\"read\");return 0;}\n";
    let mut world = World::new();
    let file = world.write("workspace/f", b"x");
    let Some(empties) = compile(&world, "empties", CODE) else { return };
    let Some(probe) = compile(&world, "probe", super::apart::PROBE) else { return };
    // A process outside the sandbox empties it.
    let plain = super::Command::new(&empties).arg(&file).output().expect("started");
    assert_eq!(
        (plain.stdout.as_slice(), std::fs::read(&file).expect("read")),
        (&b"emptied\nread\n"[..], vec![])
    );
    let workspace = world.workspace();
    super::view::program(&world, "empties", &[&empties, &file], &[&workspace], &[]);
    let outside = world.path("outside");
    world.program("probe", &[probe.as_str(), outside.to_str().expect("UTF-8")]);
    let kernel = has_abi(&start(&world.spec).expect("a launcher").report().clone());
    let all = [
        (1, vec!["files"]),
        (2, vec!["files"]),
        (4, vec!["files", "tcp", "truncate"]),
        (6, vec!["device ioctl", "files", "signals", "tcp", "truncate"]),
    ];
    for (abi, expect) in all.into_iter().filter(|(abi, _)| *abi <= kernel) {
        world.write("workspace/f", b"x");
        world.spec.landlock_abi_max = Some(abi);
        world.with(|stage| async move {
            let report = stage.launcher.report();
            assert!(has(&report, &format!("landlock abi {abi}")), "{report:?}");
            assert_eq!(by(&report.protections, "landlock"), expect, "{abi}");
            assert_eq!(by(&report.program_protections, "landlock"), expect, "{abi}");
            let tried = stage.call("empties", json!({})).await;
            assert_eq!(String::from_utf8_lossy(&tried.stdout), "Operation not permitted\nread\n", "{abi}");
            assert_eq!((tried.level, &tried.protections), (report.level, &report.program_protections));
            let tried = stage.call("probe", json!({})).await;
            let text = String::from_utf8_lossy(&tried.stdout).into_owned();
            assert_eq!(tried.end, End::Exit { code: 0 }, "{abi}: {text}");
            assert!(text.contains("refused") && !text.contains("ALLOWED"), "{abi}: {text}");
            let read = stage.call("health_check", json!({})).await;
            // A builtin's filter stops signals too.
            assert_eq!((read.level, &read.protections), (Some(Level::Strict), &report.protections), "{abi}");
        });
        assert_eq!(std::fs::read(&file).expect("read"), b"x", "{abi}");
    }
}

fn has_abi(report: &Report) -> u32 {
    let abi = report.layers.iter().find_map(|layer| layer.strip_prefix("landlock abi "));
    abi.and_then(|abi| abi.parse().ok()).expect("a version")
}

/// A machine below the demanded level is refused, and the message names what is missing.
pub(super) fn less_than_the_minimum_is_refused() {
    let mut world = World::new();
    let first = start(&world.spec).expect("a launcher").report().clone();
    println!("{:?} {:?} {:?}", first.level, first.lacking, first.program_protections);
    assert_eq!(first.level == Some(Level::Strict), first.lacking.is_empty(), "{first:?}");
    world.spec.minimum = first.level;
    drop(start(&world.spec).expect("what it reaches may be demanded"));
    load(&without_namespaces()).expect("loaded");
    for (minimum, starts) in [(Some(Level::Strict), false), (Some(Level::Standard), true), (None, true)] {
        world.spec.minimum = minimum;
        match start(&world.spec) {
            Ok(seed) => {
                assert!(starts, "{minimum:?}");
                let report = seed.report();
                assert_eq!(report.level, Some(Level::Standard), "{report:?}");
                assert!(by(&report.protections, "mount view").is_empty(), "{report:?}");
                assert!(report.lacking.iter().any(|row| row.starts_with("other network: given by seccomp")));
            }
            Err(e) => {
                assert!(!starts, "{minimum:?}: {e}");
                let told = e.to_string();
                let says = "`sandbox.minimum` is `strict`, and this machine reaches `standard`: ";
                assert!(told.contains(says) && told.contains("other network: given by seccomp"), "{told}");
            }
        }
    }
}
