//! `par doctor`: whether this host and this home are as they should be, one line per check.

mod path;
mod walls;

use super::exit::{self, Fail};
use super::{house, remote, show};
use crate::config::{Config, Home, trusted};
use crate::egress::{Client, Endpoint};
use crate::gate::Rules;
use crate::ledger::{self, Filter, Header, Order, Reader, Standing};
use crate::llm;
use crate::rules;
use crate::secrets::Finder;
use crate::types::clock::Wall;
use crate::types::{Secret, limits, text};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A clock this far behind the newest entry has been set back, in microseconds.
const CLOCK_BEHIND_US_MAX: u64 = 60_000_000;
/// The first of January 2025, before which no build of this program was made, in microseconds.
const CLOCK_US_MIN: u64 = 1_735_689_600_000_000;

/// Entries that are looked through for the newest of a kind.
const SCAN_MAX: usize = 1 << 20;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Doctor {
    /// Open the ledger without verifying all of it
    #[arg(long)]
    quick: bool,
    #[command(subcommand)]
    about: Option<About>,
}

#[derive(Debug, Subcommand)]
enum About {
    /// Say of each tool which layer refuses a path: its manifest, the rights of its user, the policy
    Path(path::Of),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One line.
#[derive(Debug, Serialize)]
struct Check {
    level: Level,
    what: &'static str,
    found: String,
}

#[derive(Debug, Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn ok(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Check { level: Level::Ok, what, found: found.into() });
    }

    fn warn(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Check { level: Level::Warn, what, found: found.into() });
    }

    fn fail(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Check { level: Level::Fail, what, found: found.into() });
    }
}

impl Doctor {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        if let Some(About::Path(of)) = &self.about {
            return of.run(&Config::load(home).map_err(Fail::usage)?, is_json);
        }
        let mut checks = Checks::default();
        match Config::load(home) {
            Ok(config) => self.examine(&config, &mut checks),
            Err(e) => checks.fail("configuration", e.to_string()),
        }
        if is_json {
            checks.0.iter().try_for_each(show::json)?;
        } else {
            checks.0.iter().try_for_each(|check| show::line(&line(check)))?;
        }
        let is_ill = checks.0.iter().any(|check| check.level == Level::Fail);
        Ok(if is_ill { exit::FAILED } else { exit::OK })
    }

    fn examine(&self, config: &Config, checks: &mut Checks) {
        // First of all, while this process has one thread.
        walls::examine(config, checks);
        match house::load_rules(config) {
            Ok(rules) => {
                let (tools, policies) = (rules.catalog.manifests().count(), rules.bundle.policies().count());
                checks.ok("configuration", format!("{tools} tools, {policies} policies"));
                in_force(config, &rules, checks);
            }
            Err(e) => checks.fail("configuration", e.what),
        }
        etc_modes(config, checks);
        // What a stranger would be told of keys, ledger and server is that they are not there.
        if let Err(e) = std::fs::read_dir(&config.home.data) {
            let whose = "only its owner and root can look into it";
            return checks.fail("files of data/", format!("{}: {e}: {whose}", config.home.data.display()));
        }
        data_modes(config, checks);
        let model_key = config.model_key().unwrap_or_else(|e| {
            checks.fail("model", e.to_string());
            None
        });
        secrets(config, model_key.as_ref(), checks);
        self.ledger(config, checks);
        anchors(config, checks);
        clock(config, checks);
        disk(config, checks);
        model(config, checks);
        match remote::url(&house::files(config)) {
            Some(url) => checks.ok("server", format!("running at {url}")),
            None => checks.ok("server", "not running"),
        }
    }

    fn ledger(&self, config: &Config, checks: &mut Checks) {
        let files = house::files(config);
        if !files.ledger().exists() {
            return checks.ok("ledger", "no entry yet");
        }
        if self.quick {
            return match Reader::open(&files.ledger())
                .map_err(|e| e.to_string())
                .and_then(|reader| reader.size().map_err(|e| e.to_string()))
            {
                Ok(size) => checks.ok("ledger", format!("{size} entries, not verified")),
                Err(e) => checks.fail("ledger", e),
            };
        }
        let report = ledger::audit(&files, &house::PROJECTIONS, &[]);
        for warning in &report.warnings {
            checks.warn("ledger", warning.clone());
        }
        match report.findings.first() {
            None if report.verdict.holds() => {
                checks.ok("ledger", format!("{} entries verified", report.entries));
            }
            found => {
                let what = found.map_or("not verified", |finding| finding.what.as_str());
                checks.fail("ledger", format!("{what}: run `par audit verify`"));
            }
        }
    }
}

/// Whether the running server decides by what is on disk.
fn in_force(config: &Config, rules: &Rules, checks: &mut Checks) {
    if remote::url(&house::files(config)).is_none() {
        return;
    }
    let loaded =
        newest(config, "kind:policy.load").and_then(|header| header.str("policy").map(str::to_owned));
    if loaded.is_some_and(|loaded| loaded != rules.bundle.digest().hex()) {
        checks.warn("configuration", "changed on disk, not loaded: `par reload`");
    }
}

/// What decides what may run is written by its owner alone.
fn etc_modes(config: &Config, checks: &mut Checks) {
    let etc = &config.home.etc;
    let mut count = 0;
    let mut wrong = Vec::new();
    for folder in [etc.clone(), etc.join("policies"), etc.join("tools.d")] {
        match files_of(&folder) {
            Ok(files) => {
                for path in std::iter::once(folder).chain(files) {
                    count += 1;
                    wrong.extend(trusted::examine(&path).err().map(|e| format!("{}: {e}", path.display())));
                }
            }
            Err(e) => wrong.push(format!("{}: {e}", folder.display())),
        }
    }
    report(checks, "files of etc/", wrong, format!("{count} files and folders that only their owner writes"));
}

/// Ledger and keys are for their owner alone.
fn data_modes(config: &Config, checks: &mut Checks) {
    let data = &config.home.data;
    let files = house::files(config);
    let mut wrong = Vec::new();
    let mut keys = vec![files.log_key(), data.join("pepper")];
    // The first entry makes it.
    if files.ledger().exists() {
        keys.push(data.join("epoch.key"));
    }
    for key in keys {
        if !key.is_file() {
            wrong.push(format!("{}: is not there", key.display()));
        }
    }
    let inside = files_of(data).unwrap_or_else(|e| {
        wrong.push(format!("{}: {e}", data.display()));
        Vec::new()
    });
    let owner = std::fs::metadata(data).map(|meta| meta.uid()).ok();
    for path in std::iter::once(data.clone()).chain(inside) {
        // A file of a running server may go while we look.
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if meta.mode() & 0o077 != 0 {
            wrong.push(format!("{}: mode {:04o} lets others in", path.display(), meta.mode() & 0o7777));
        }
        if Some(meta.uid()) != owner {
            wrong.push(format!(
                "{}: belongs to uid {}, not to the folder's owner",
                path.display(),
                meta.uid()
            ));
        }
    }
    report(checks, "files of data/", wrong, "keys and ledger are their owner's alone".to_owned());
}

/// What is replaced in all that comes from outside. A server does not start without one that is named.
fn secrets(config: &Config, model_key: Option<&Secret>, checks: &mut Checks) {
    match rules::load_secrets(config, model_key, &Finder::default()) {
        Ok(finder) => {
            let (own, named) = (finder.names().count(), config.secrets.len());
            let patterns = config.secret_patterns.len();
            let own = own.saturating_sub(named + patterns);
            checks.ok("secrets", format!("{named} named, {patterns} patterns, {own} of PAR's own"));
        }
        Err(e) => e.0.into_iter().for_each(|reason| checks.fail("secrets", reason)),
    }
    let least = limits::SECRET_BYTES_MIN;
    if model_key.is_some_and(|key| key.expose().len() < least) {
        checks.warn("secrets", format!("`llm.api_key` has less than {least} bytes: it is not looked for"));
    }
}

fn report(checks: &mut Checks, what: &'static str, wrong: Vec<String>, fine: String) {
    if wrong.is_empty() {
        return checks.ok(what, fine);
    }
    wrong.into_iter().for_each(|one| checks.fail(what, one));
}

/// The files in a folder, sorted; folders in it are left out.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let item = item?;
        if !item.file_type()?.is_dir() {
            found.push(item.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The clock against the newest entry: time does not run backwards on the ledger.
fn clock(config: &Config, checks: &mut Checks) {
    let now = Wall::now();
    if now.0 < CLOCK_US_MIN {
        return checks.fail("clock", format!("says {}", now.rfc3339()));
    }
    match newest(config, "").and_then(|header| header.u64("wall_us")).map(Wall) {
        Some(newest) if now.0.saturating_add(CLOCK_BEHIND_US_MAX) < newest.0 => {
            let (now, newest) = (now.rfc3339(), newest.rfc3339());
            checks.fail("clock", format!("says {now}, and the newest entry is of {newest}"));
        }
        _ => checks.ok("clock", now.rfc3339()),
    }
}

/// The newest entry that matches.
fn newest(config: &Config, query: &str) -> Option<Header> {
    let path = house::files(config).ledger();
    let reader = path.exists().then(|| Reader::open(&path).ok())??;
    let filter = Filter::parse(query).ok()?;
    let (headers, _) = reader.headers(&filter, u64::MAX >> 1, Order::Descending, 1, SCAN_MAX).ok()?;
    headers.into_iter().next()
}

/// Whether somebody outside has seen the ledger as it is.
fn anchors(config: &Config, checks: &mut Checks) {
    let place = &config.anchoring.place;
    let files = house::files(config);
    if matches!(place.as_str(), "" | "none") {
        return checks.warn("anchor", "`ledger.anchor` names no place: nobody outside holds a checkpoint");
    }
    let Some(standing) = Standing::read(&files).filter(|standing| standing.place == *place) else {
        return checks.ok("anchor", format!("{place}: none yet"));
    };
    let size = Reader::open(&files.ledger()).ok().and_then(|reader| reader.size().ok()).unwrap_or(0);
    let age_us = if standing.at_us == 0 { 0 } else { Wall::now().0.saturating_sub(standing.at_us) };
    // A server that does not run makes none.
    let age_us_max = match remote::url(&files) {
        Some(_) => config.anchoring.age_ms_max.saturating_mul(1_000),
        None => u64::MAX,
    };
    match ledger::anchor_warning(&standing, size, age_us, age_us_max) {
        Some(what) if standing.is_conflict => checks.fail("anchor", what),
        Some(what) => checks.warn("anchor", what),
        None if standing.error.is_some() => {
            checks.warn("anchor", format!("{place}: {}", standing.error.unwrap_or_default()));
        }
        None => checks.ok("anchor", format!("{place}: {} of {size} entries", standing.size)),
    }
}

fn disk(config: &Config, checks: &mut Checks) {
    let mib = |bytes: u64| bytes >> 20;
    let floor = config.free_bytes_min;
    match house::files(config).free_bytes() {
        None => checks.fail("disk", format!("{}: cannot be asked", config.home.data.display())),
        Some(free) if free < floor => checks.fail(
            "disk",
            format!("{} MiB are free under the ledger, below its floor of {} MiB", mib(free), mib(floor)),
        ),
        Some(free) if free < floor.saturating_mul(4) => {
            checks.warn(
                "disk",
                format!("{} MiB are free under the ledger, and {} is the floor", mib(free), mib(floor)),
            );
        }
        Some(free) => checks.ok("disk", format!("{} MiB are free under the ledger", mib(free))),
    }
}

/// Any answer of the model's server will do: whether the key is right, only a request would tell.
fn model(config: &Config, checks: &mut Checks) {
    let name = &config.llm.provider;
    let Some(kind) = llm::ProviderKind::parse(name) else {
        return checks.fail("model", format!("`llm.provider`: `{name}` is unknown"));
    };
    let Some(usual) = kind.base_url() else {
        return checks.ok("model", format!("{name}: no model, no network"));
    };
    let base = if config.llm.base_url.is_empty() { usual } else { &config.llm.base_url };
    match reach(base, config.llm.ca_file.clone()) {
        Ok(status) => checks.ok("model", format!("{name} {}: {base} answers ({status})", config.llm.model)),
        Err(e) => checks.fail("model", format!("{base}: {e}")),
    }
}

fn reach(base: &str, ca_file: Option<PathBuf>) -> Result<u16, String> {
    let endpoint = Endpoint::parse(base, "").map_err(|e| e.to_string())?;
    let client = Client::new(ca_file);
    let runtime = house::runtime().map_err(|e| e.what)?;
    let deadline = Duration::from_millis(limits::CONNECT_MS_MAX);
    runtime.block_on(client.reach(&endpoint, deadline)).map_err(|e| e.to_string())
}

fn line(check: &Check) -> String {
    let (color, word) = match check.level {
        Level::Ok => ("32", "ok"),
        Level::Warn => ("33", "warn"),
        Level::Fail => ("31", "fail"),
    };
    let word = show::paint(color, &format!("{word:<4}"));
    format!("{word}  {:<14}  {}", check.what, text::visible_line(&check.found))
}
