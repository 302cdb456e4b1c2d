//! Putting the rooms of one home together.

use super::exit::{self, Fail};
use crate::agent::{self, Agent, Askers};
use crate::auth::{self, Authority, Principal, Role};
use crate::config::{self, Config};
use crate::gate::{self, Gate, Rules};
use crate::launcher::Report;
use crate::ledger::payload::{ConfigLoadPayload, ConfigValue, StartPayload};
use crate::ledger::{Draft, Files, Hour, Ledger, Lock, LockError, OpenError, Projection, Rotation};
use crate::llm::{self, Provider};
use crate::rules;
use crate::sandbox;
use crate::secrets::Secrets;
use crate::types::{Secret, limits};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Every room's share of state.db.
pub(super) static PROJECTIONS: [Projection; 3] = [auth::PROJECTION, gate::PROJECTION, agent::PROJECTION];

/// The ledger's files of a home.
pub(super) fn files(config: &Config) -> Files {
    Files {
        free_bytes_min: config.free_bytes_min,
        log_key: config::log_key_file(),
        rotation: Rotation {
            segment_bytes_max: config.segments.bytes_max,
            segment_ms_max: config.segments.s_max.map(|s| s.saturating_mul(1_000)),
            payload_ms_max: config.segments.payload_s_max.map(|s| s.saturating_mul(1_000)),
        },
        ..Files::below(&config.home.data)
    }
}

/// Loads tools and policies; the error names file, line and reason.
pub(super) fn load_rules(config: &Config) -> Result<Rules, Fail> {
    rules::load_rules(config).map_err(|e| Fail::usage(e.0.join("\npar: ")))
}

/// Loads tools and policies for a server, and says so where its policies are closed.
pub(super) fn load_or_close(config: &Config) -> Result<Rules, Fail> {
    let rules = rules::load_or_close(config).map_err(|e| Fail::usage(e.0.join("\npar: ")))?;
    let broken = rules.bundle.broken();
    broken.iter().for_each(|reason| super::show::note(&format!("par: {reason}")));
    if !broken.is_empty() {
        super::show::note(
            "par: the policies are not loaded: nothing runs and nothing is approved. An administrator reads, and \
             `par reload` loads them once they are mended",
        );
    }
    Ok(rules)
}

/// Loads tools and policies without running the policies' own tests: to look at, not to decide by.
pub(super) fn load_unproven(config: &Config) -> Result<Rules, Fail> {
    rules::load_unproven(config).map_err(|e| Fail::usage(e.0.join("\npar: ")))
}

/// Opens the ledger for writing, waiting up to [`limits::LOCK_WAIT_MS_MAX`] for its lock.
pub(super) fn open_ledger(config: &Config) -> Result<Ledger, Fail> {
    let files = files(config);
    let wait = Duration::from_millis(limits::LOCK_WAIT_MS_MAX);
    let lock = Lock::take(&files, wait).map_err(|e| match e {
        LockError::Held(_) => Fail::failed(e),
        LockError::File(..) => Fail::usage(e),
    })?;
    Ledger::open(files, lock, &PROJECTIONS).map_err(|e| match e {
        OpenError::Incomplete(_) | OpenError::Read(_) => Fail::new(exit::UNVERIFIED, e),
        other => Fail::usage(other),
    })
}

/// The entries that a server or a command with tools begins with, one commit. The bundle that they name is
/// kept when this returns.
pub(super) fn start_drafts(
    config: &Config,
    rules: &Rules,
    what: &str,
    report: &Report,
    secrets: &Secrets,
) -> Result<Vec<Draft>, Fail> {
    rules::keep_bundle(&config.home.data, &rules.bundle)
        .map_err(|e| Fail::failed(format!("{}: {e}", config.home.data.join("bundles").display())))?;
    let shown = config.shown.iter().map(|s| ConfigValue {
        key: s.key.clone(),
        value: s.value.clone(),
        from: s.from.clone(),
    });
    let start = StartPayload { command: what.to_owned(), program: crate::types::VERSION.to_owned() };
    let mut drafts = vec![Draft::new(start), Draft::new(ConfigLoadPayload { keys: shown.collect() })];
    drafts.extend(rules::load_drafts(rules, report));
    // What was written where it does not belong, such as in an address, is not recorded either.
    let cleaned = |draft: Draft| Draft {
        body: draft.body.changed(|members| secrets.clean(members).into_inner()),
        ..draft
    };
    Ok(drafts.into_iter().map(cleaned).collect())
}

/// The model's key. Read behind the fork of the launcher.
pub(super) fn model_key(config: &Config) -> Result<Option<Secret>, Fail> {
    config.model_key().map_err(Fail::usage)
}

/// What is replaced in all that comes from outside; one that cannot be read refuses the start by its name.
pub(super) fn secrets(config: &Config, model_key: Option<&Secret>) -> Result<Secrets, Fail> {
    let secrets = Secrets::default();
    exchange_secrets(config, model_key, &secrets)?;
    Ok(secrets)
}

/// The same anew: a ledger that was opened may have made its first epoch key.
pub(super) fn load_secrets(config: &Config, secrets: &Secrets) -> Result<(), Fail> {
    exchange_secrets(config, None, secrets)
}

fn exchange_secrets(config: &Config, model_key: Option<&Secret>, secrets: &Secrets) -> Result<(), Fail> {
    let finder = rules::load_secrets(config, model_key, &secrets.now());
    secrets.exchange(finder.map_err(|e| Fail::usage(e.0.join("\npar: ")))?);
    Ok(())
}

/// The configured provider, with its key.
pub(super) fn provider(
    config: &Config,
    api_key: Option<Secret>,
    secrets: &Secrets,
) -> Result<Arc<dyn Provider>, Fail> {
    let name = &config.llm.provider;
    let kind = llm::ProviderKind::parse(name).ok_or_else(|| {
        Fail::usage(format!("`llm.provider`: `{name}` is none of `offline`, `openai` and `anthropic`"))
    })?;
    llm::build(llm::Settings {
        provider: kind,
        base_url: config.llm.base_url.clone(),
        model: config.llm.model.clone(),
        api_key,
        ca_file: config.llm.ca_file.clone(),
        reply_tokens_max: config.llm.reply_tokens_max,
        secrets: secrets.clone(),
        logs: config.paths.get("logs").cloned().unwrap_or_else(|| PathBuf::from("/var/log")),
    })
    .map_err(|e| Fail::usage(format!("`[llm]`: {e}")))
}

/// The agent over an open ledger.
pub(super) fn agent(
    config: &Config,
    rules: &Rules,
    ledger: Ledger,
    launcher: sandbox::Launcher,
    provider: Arc<dyn Provider>,
    secrets: Secrets,
) -> Result<Agent, Fail> {
    let gate = Gate::new(ledger, rules.clone(), config.paths.clone(), secrets).map_err(Fail::failed)?;
    let key_hour = Hour { runs: config.key_runs_hour_max, bytes: config.key_bytes_hour_max };
    let agent = Agent::new(gate.with_approval_ms(config.approval_ms), launcher, provider);
    Ok(agent.with_key_hour(key_hour))
}

/// The role of commands without a server.
fn local_role(config: &Config) -> Result<Role, Fail> {
    Role::parse(&config.local_role)
        .ok_or_else(|| Fail::usage(format!("`auth.local_role`: `{}` is no role", config.local_role)))
}

/// In whose name runs that waited go on.
pub(super) fn askers(config: &Config, authority: Authority) -> Result<Askers, Fail> {
    Ok(Askers { authority, local: local_role(config)? })
}

/// Knows the keys of a home.
pub(super) fn authority(config: &Config, ledger: Ledger) -> Result<Authority, Fail> {
    Authority::open(ledger, &config.home.data.join("pepper")).map_err(Fail::usage)
}

/// The user of this process, with the configured role.
pub(super) fn local_principal(config: &Config) -> Result<Principal, Fail> {
    auth::local(&config.home.data, local_role(config)?).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))
}

/// A user of this host, with the group that is its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The user of this host that `name` names, or that has this number; a number that nobody has stands for
/// itself and the group of the same number.
pub(super) fn user(name: &str) -> Result<HostUser, Fail> {
    use nix::unistd::{Uid, User};
    let number = name.parse::<u32>().ok();
    let found = match number {
        Some(uid) => User::from_uid(Uid::from_raw(uid)),
        None => User::from_name(name),
    };
    match found {
        Ok(Some(user)) => Ok(HostUser { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
        Ok(None) => number
            .map(|uid| HostUser { uid, gid: uid })
            .ok_or_else(|| Fail::usage(format!("this host has no user `{name}`"))),
        Err(e) => Err(Fail::failed(format!("the user `{name}` cannot be looked up: {e}"))),
    }
}

/// The stack of a thread that works on requests.
const STACK_BYTES: usize = 8 << 20;

/// A runtime for commands; the server's has as many threads as there are processors.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Fail> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Policies are evaluated by recursion.
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(Fail::failed)
}
