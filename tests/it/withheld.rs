//! A kernel that offers less than this one: `withheld/withhold.c` starts the product that way. The
//! output of `par doctor`, and of a server that demands more, is in `golden/withheld.txt`, for root
//! and for an ordinary user.

use crate::support::{TestHome, is_root, start, text};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SOURCE: &str = include_str!("withheld/withhold.c");
const GOLDEN: &str = include_str!("golden/withheld.txt");

/// The program that withholds, built here.
pub(crate) struct Withhold {
    _folder: TempDir,
    program: PathBuf,
}

impl Withhold {
    /// `None` with a message without a C compiler, unless one is required.
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says what must be there")]
    pub(crate) fn build() -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("par-it-").tempdir().expect("temporary folder");
        let (source, program) = (folder.path().join("withhold.c"), folder.path().join("withhold"));
        std::fs::write(&source, SOURCE).expect("source");
        match start(Path::new("cc")).arg("-O1").arg("-o").arg(&program).arg(&source).output() {
            Ok(made) if made.status.success() => Some(Self { _folder: folder, program }),
            Ok(made) => panic!("{}", text(&made.stderr)),
            Err(e) if std::env::var_os("PAR_REQUIRE_CC").is_some() => panic!("no C compiler: {e}"),
            Err(e) => {
                eprintln!("\nSKIPPED: there is NO C compiler: nothing can be withheld: {e}\n");
                None
            }
        }
    }

    /// Starters of a command from which `what` is withheld.
    pub(crate) fn starters<'a>(&'a self, what: &'a str) -> [&'a OsStr; 2] {
        [self.program.as_os_str(), OsStr::new(what)]
    }
}

/// What is withheld, one at a time, and whether a server that demands `strict` starts without it:
/// as root, and as an ordinary user, whose programs only Landlock and the PID namespace keep from
/// signalling others.
const ALL: [(&str, [bool; 2]); 12] = [
    ("user", [true, false]),
    ("pid", [false, false]),
    ("net", [false, false]),
    ("mount", [false, false]),
    ("namespaces", [false, false]),
    ("mounts", [false, false]),
    ("landlock", [false, false]),
    ("landlock=1", [true, false]),
    ("landlock=2", [true, false]),
    ("landlock=4", [true, false]),
    ("landlock=6", [true, true]),
    ("seccomp", [false, false]),
];

/// Each is named, and so is what is refused without it; a server that demands more is refused.
#[test]
fn each_withheld_feature_is_reported_and_refused() {
    let Some(withhold) = Withhold::build() else { return };
    let home = TestHome::init();
    // This test is not about policies.
    home.drop_cases();
    let demand = |level: &str| {
        home.configure(&format!("[paths]\nlogs = \"/var/log\"\n[sandbox]\nminimum = \"{level}\"\n"));
    };
    demand("");
    let (whole, report) = doctor(&home, &[]);
    assert_eq!(whole, Some(0), "{report}");
    if !report.contains("level           strict") || report.contains("missing: ") {
        eprintln!(
            "\nSKIPPED: this machine itself gives less, so nothing is told of one thing alone:\n{report}\n"
        );
        return;
    }
    let who = if is_root() { "root" } else { "an ordinary user" };
    let mut told = format!("== nothing, as {who}\n{report}");
    for (what, starts) in ALL {
        let starters = withhold.starters(what);
        demand("");
        let (code, report) = doctor(&home, &starters);
        write!(told, "\n== {what}, as {who}: doctor {}\n{report}", code.unwrap_or(-1)).expect("written");
        demand("strict");
        let started = home.try_serve_by(&starters, &[]);
        assert_eq!(started.is_ok(), starts[usize::from(!is_root())], "{what}: {:?}", started.err());
        match started {
            Ok(_) => told.push_str("serve, strict demanded: starts\n"),
            Err((code, log)) => {
                let log = neutral(&log);
                writeln!(told, "serve, strict demanded: {} {}", code.unwrap_or(-1), log.trim())
                    .expect("written");
            }
        }
    }
    // The protections by Landlock, and their numbers, are the same in these versions.
    let abi = report.split_once("landlock abi ").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
    match abi {
        Some(6..=8) => {
            compare(&told.replace(&format!("landlock abi {}", abi.unwrap_or(0)), "landlock abi N"))
        }
        other => eprintln!("\nNOT COMPARED: the file is of another Landlock than {other:?}:\n{told}\n"),
    }
}

/// Control groups are optional: without them the level is the same, and the missing bounds are
/// named.
#[test]
fn groups_that_are_withheld_are_named() {
    let home = TestHome::init();
    home.drop_cases();
    let hide = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let starters = ["unshare", "--mount", "sh", "-c", hide, "sh"].map(OsStr::new);
    // An ordinary user has them only if they were delegated.
    let starters = if is_root() { &starters[..] } else { &[] };
    let (with, without) = (
        home.command(&["doctor", "--quick"]).output(),
        home.command_by(starters, &["doctor", "--quick"]).output(),
    );
    let (with, without) =
        (text(&with.expect("par starts").stdout), text(&without.expect("it starts").stdout));
    let level = |told: &str| {
        told.lines().find_map(|line| {
            line.strip_prefix("ok    level           ")?.split(',').next().map(str::to_owned)
        })
    };
    if level(&without).is_none() || !is_root() && with.contains("cgroup kill") {
        eprintln!("\nSKIPPED: groups cannot be withheld here:\n{without}\n");
        return;
    }
    assert_eq!(level(&with), level(&without));
    assert!(
        without.contains("\nwarn  cgroups         missing: ") && !without.contains("cgroup kill"),
        "{without}"
    );
    assert!(without.contains("and not added up"), "{without}");
}

/// Exit code, and the output about the sandbox.
fn doctor(home: &TestHome, starters: &[&OsStr]) -> (Option<i32>, String) {
    let output = home.command_by(starters, &["doctor", "--quick"]).output().expect("par starts");
    let told = text(&output.stdout);
    let about = ["protections", "level", "tool"];
    let is_about = |line: &&str| line.split_whitespace().nth(1).is_some_and(|what| about.contains(&what));
    // Which log folders exist differs between hosts.
    let lines = told.lines().filter(is_about).filter(|line| !line.ends_with("does not exist"));
    (output.status.code(), lines.map(|line| neutral(line) + "\n").collect())
}

/// Without what differs between machines: the user that runs tools, and control groups, which are
/// optional.
fn neutral(text: &str) -> String {
    let groups = [", cgroup kill", ", cgroup memory", ", cgroup pids", ", cgroup cpu"];
    let text = groups.iter().fold(text.to_owned(), |text, group| text.replace(group, ""));
    let text = text.replace(", cgroup;", ";");
    let words = text.split(' ').scan("", |before, word| {
        let is_number = *before == "uid";
        *before = word;
        Some(if is_number { word.replace(|c: char| c.is_ascii_digit(), "") } else { word.to_owned() })
    });
    words.collect::<Vec<_>>().join(" ").replace("uid ,", "uid N,")
}

/// This user's half of the golden file.
fn compare(told: &str) {
    let who = if is_root() { ", as root" } else { ", as an ordinary user" };
    let expect: String = GOLDEN
        .split_inclusive('\n')
        .scan(false, |is_own, line| {
            if line.starts_with("== ") {
                *is_own = line.contains(who);
            }
            Some(if *is_own { line } else { "" })
        })
        .collect();
    if told.trim() != expect.trim() {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("withheld.txt");
        // If it cannot be written, the panic below shows everything.
        let _written = std::fs::write(&place, told);
        panic!("tests/it/golden/withheld.txt is not {}\n{told}", place.display());
    }
}
