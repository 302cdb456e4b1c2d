//! `par halt`: keeps calls and runs from beginning, until a person lifts it.

use super::exit::{self, Fail};
use super::show::word;
use super::table::{Cell, Column, Screen, Sheet};
use super::{compose, key, show};
use crate::auth::{self, Role};
use crate::config::Config;
use crate::gate::{HaltError, HaltOrder};
use crate::http::admin::{self, AdminError, Operation};
use crate::types::{StopScope, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct HaltCommand {
    #[command(subcommand)]
    command: Option<HaltVerb>,
    #[command(flatten)]
    set: HaltSet,
}

#[derive(Debug, Subcommand)]
enum HaltVerb {
    /// List the halts in force
    List,
    /// Lift a halt, or every one
    Lift(HaltLift),
}

#[derive(Debug, Args)]
struct HaltSet {
    #[command(flatten)]
    what: HaltedThing,
    /// Also end the calls and the requests to models that are under way. A call that acts may then
    /// have done half of its work
    #[arg(long)]
    now: bool,
    /// Reason, which is recorded and shown to everyone who is refused
    #[arg(long, value_name = "TEXT", required = true)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct HaltedThing {
    /// Halt everything: no run begins, and no call
    #[arg(long)]
    all: bool,
    /// Halt the runs of this key, by its id or name, or of a user of this host, as `os:NAME`
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Halt the calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Halt this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

#[derive(Debug, Args)]
struct HaltLift {
    /// Number of the halt, as `par halt list` shows it
    #[arg(value_name = "HALT", required_unless_present = "all", conflicts_with = "all")]
    halt: Option<u64>,
    /// Lift every halt in force
    #[arg(long)]
    all: bool,
    /// Reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl HaltCommand {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        match &self.command {
            None => {
                let scope = self.set.what.scope(config)?;
                let reason = self.set.reason.clone().unwrap_or_default();
                let order = HaltOrder { scope, reason, is_now: self.set.now };
                said(&set(config, &order)?, "halted", is_json)?;
            }
            Some(HaltVerb::List) => table(&list(config)?, is_json)?,
            Some(HaltVerb::Lift(lift)) => {
                let halts = match lift.halt {
                    Some(halt) => vec![halt],
                    None => list(config)?.iter().filter_map(|halt| halt.get("halt")?.as_u64()).collect(),
                };
                if halts.is_empty() {
                    show::note("par: no halt is in force");
                }
                for halt in halts {
                    said(&take(config, halt, lift.reason.as_deref())?, "lifted", is_json)?;
                }
            }
        }
        Ok(exit::OK)
    }
}

impl HaltedThing {
    fn scope(&self, config: &Config) -> Result<StopScope, Fail> {
        if let Some(key) = &self.key {
            if key.starts_with("os:") {
                return Ok(StopScope::Caller(key.clone()));
            }
            let found = key::find(config, key)?;
            let id = found.get("id").and_then(Value::as_str).unwrap_or_default();
            return Ok(StopScope::Caller(format!("key:{id}")));
        }
        if let Some(tool) = &self.tool {
            if let Ok(rules) = compose::load_unproven(config)
                && rules.catalog.find(tool).is_none()
            {
                let tool = text::visible_line(tool);
                return Err(Fail::usage(format!("no tool is called `{tool}`: `par tool list` shows them")));
            }
            return Ok(StopScope::Tool(tool.clone()));
        }
        match &self.session {
            Some(session) => StopScope::parse(&format!("session:{session}")).map_err(Fail::usage),
            None => Ok(StopScope::All),
        }
    }
}

fn set(config: &Config, order: &HaltOrder) -> Result<Value, Fail> {
    let HaltOrder { scope, reason, is_now } = order;
    let asked = json!({ "op": Operation::HaltSet.as_str(), "scope": scope, "reason": reason, "now": is_now });
    match admin::call(&config.home.data, &asked) {
        Err(AdminError::NotRunning) => {
            let (by, gate) = here(config)?;
            let halt = compose::runtime()?.block_on(gate.halt(&by, None, order.clone())).map_err(failed)?;
            one(&gate, &halt)
        }
        answered => first(&answered?),
    }
}

fn take(config: &Config, halt: u64, reason: Option<&str>) -> Result<Value, Fail> {
    let asked = json!({ "op": Operation::HaltLift.as_str(), "halt": halt, "reason": reason });
    match admin::call(&config.home.data, &asked) {
        Err(AdminError::NotRunning) => {
            let (by, gate) = here(config)?;
            let reason = reason.map(str::to_owned);
            let halt = compose::runtime()?.block_on(gate.lift(&by, None, halt, reason)).map_err(failed)?;
            one(&gate, &halt)
        }
        answered => first(&answered?),
    }
}

fn list(config: &Config) -> Result<Vec<Value>, Fail> {
    match admin::call(&config.home.data, &json!({ "op": Operation::HaltList.as_str() })) {
        Err(AdminError::NotRunning) => {
            let (_, gate) = here(config)?;
            gate.stops().iter().filter(|stop| stop.is_halt()).map(|stop| one(&gate, stop)).collect()
        }
        answered => {
            let mut answer = answered?;
            match answer.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => Ok(items),
                _ => Ok(Vec::new()),
            }
        }
    }
}

/// The owner of the home and a gate over its ledger, without a server.
fn here(config: &Config) -> Result<(auth::Principal, crate::gate::Gate), Fail> {
    let by = auth::local(&config.home.data, Role::Admin).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
    let secrets = compose::secrets(config, None)?;
    let rules = compose::load_or_close(config)?;
    Ok((by, compose::gate(config, &rules, compose::open_to_act(config)?, secrets)?))
}

fn one(gate: &crate::gate::Gate, stop: &crate::gate::StopInForce) -> Result<Value, Fail> {
    let names = gate.ledger().state(auth::key_names).map_err(Fail::failed)?;
    Ok(stop.json(&names))
}

fn first(answer: &Value) -> Result<Value, Fail> {
    answer.pointer("/items/0").cloned().ok_or_else(|| Fail::failed("the server named no halt"))
}

fn failed(error: HaltError) -> Fail {
    match error {
        HaltError::Invalid(..) | HaltError::Unknown(_) => Fail::usage(error),
        HaltError::MayRun | HaltError::MayNot(_) => Fail::new(exit::UNAUTHENTICATED, error),
        HaltError::Ledger(error) => Fail::failed(error),
    }
}

fn said(halt: &Value, verb: &str, is_json: bool) -> Result<(), Fail> {
    if is_json {
        return show::json(halt);
    }
    let (number, scope) = (word(halt, "/halt"), word(halt, "/scope"));
    show::line(&format!("{verb}: {scope}, halt {number}"))?;
    if verb == "halted" {
        show::note(&format!("par: `par halt lift {number}` ends it"));
    }
    Ok(())
}

fn table(halts: &[Value], is_json: bool) -> Result<(), Fail> {
    if is_json {
        return halts.iter().try_for_each(show::json);
    }
    let screen = Screen::stdout();
    let mut table = Sheet::new(&[
        Column::Whole("halt"),
        Column::Whole("scope"),
        Column::Cut("who"),
        Column::Whole("since"),
        Column::Words("reason"),
    ]);
    for halt in halts {
        table.push(vec![
            word(halt, "/halt").into(),
            word(halt, "/scope").into(),
            word(halt, "/who").into(),
            Cell::written_time(&word(halt, "/since"), &screen),
            word(halt, "/reason").into(),
        ]);
    }
    table.print_or(&screen, "par: no halt is in force")
}
