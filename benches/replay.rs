//! The cost of making decisions again from a ledger, in two threads: under their own rules, and
//! under those and others with one more rule.
//!
//! `cargo bench --bench replay` writes a ledger of 100,000 decisions below the temporary folder (or
//! as many as the variable `PAR_DECISIONS` says) and prints microseconds for each, by the clock and
//! per thread.

#![expect(clippy::disallowed_methods, reason = "a bench is told by the environment how much to do")]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a bench that fails stops")]

#[path = "../tests/it/history.rs"]
mod history;

use par::config::{Config, Home};
use par::ledger::Reader;
use par::rules::{self, Replay};
use std::path::Path;
use std::time::Instant;

const THREADS: usize = 2;

fn main() {
    let wanted = std::env::var("PAR_DECISIONS").ok().and_then(|number| number.parse().ok());
    let decisions: usize = wanted.unwrap_or(100_000);
    let folder = tempfile::tempdir().expect("folder");
    let home = folder.path().join("home");
    make(&home);
    let started = Instant::now();
    let made = history::write(&home, decisions);
    let denied = made.iter().filter(|one| one.word == "deny").count();
    println!(
        "{decisions} decisions written in {:.1} s, {denied} of them deny",
        started.elapsed().as_secs_f64()
    );

    let config = Config::load(Home::locate(Some(&home), None).expect("home")).expect("configuration");
    std::fs::write(
        home.join("etc/policies/95-more.cedar"),
        "@id(\"no-nginx\") forbid(principal, action, resource in PAR::Path::\"/var/log/nginx\");",
    )
    .expect("policies");
    let rules = rules::load_rules(&config).expect("rules");
    for (what, against) in [("own rules", None), ("own and others", Some(&*rules.bundle))] {
        let open = |_| Reader::open(&config.home.data.join("ledger.db")).expect("reader");
        let readers: Vec<Reader> = (0..THREADS).map(open).collect();
        let started = Instant::now();
        let replay = Replay { data: &config.home.data, against, since_us: 0 };
        let told = replay.run(&readers, &|_, _| {}).expect("replayed");
        let took = started.elapsed();
        assert_eq!((told.different, told.decisions), (0, decisions as u64));
        let each = took.as_secs_f64() * 1e6 / decisions as f64;
        let flipped: u64 = told.flips.iter().map(|flips| flips.count).sum();
        let by_path = made
            .iter()
            .filter(|one| one.word == "allow" && one.path.is_some_and(|p| p.starts_with("/var/log/nginx")));
        assert_eq!(flipped, if against.is_some() { by_path.count() as u64 } else { 0 });
        println!(
            "{what:<16} {:>8.2} s  {each:>7.1} µs each, {:>7.1} µs a thread  {flipped} flips; last entry {}",
            took.as_secs_f64(),
            each * THREADS as f64,
            made[made.len() - 1].seq
        );
    }
}

/// A home with the shipped tools and policies, as `par init` makes one.
fn make(home: &Path) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (from, endings) in [("policies", ["cedar", "toml"]), ("tools.d", ["toml"; 2]), ("jobs.d", ["sh"; 2])]
    {
        let folder = home.join("etc").join(from);
        std::fs::create_dir_all(&folder).expect("folder");
        for item in std::fs::read_dir(top.join(from)).into_iter().flatten() {
            let path = item.expect("entry").path();
            if endings.iter().any(|ending| path.extension().is_some_and(|is| is == *ending)) {
                let bytes = std::fs::read(&path).expect("file");
                std::fs::write(folder.join(path.file_name().expect("name")), bytes).expect("file");
            }
        }
    }
    std::fs::create_dir_all(home.join("data")).expect("folder");
    std::fs::create_dir_all(home.join("workspace")).expect("folder");
    std::fs::write(home.join("etc/par.toml"), "[paths]\nlogs = \"/var/log\"\n").expect("par.toml");
    par::ledger::key::make(&home.join("data/log.key")).expect("log key");
}
