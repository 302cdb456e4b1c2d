//! `par model list` and `par model status`.

use super::used::{self, FailedAsk, ModelUse};
use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::cli::show;
use crate::cli::table::{Cell, Column, Screen, Sheet, Tone};
use crate::config::{Config, KeyPlace, NamedModel};
use crate::llm::ProviderKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prints the models: first those that are asked, in order.
pub(super) fn list(config: &Config, is_json: bool) -> Result<(), Fail> {
    let asked = config.models.asked();
    let others = config.models.all.iter().filter(|model| place(config, model).is_none());
    let columns = ["use", "name", "wire", "model"].map(Column::Whole);
    let columns = columns.into_iter().chain([Column::Cut("server"), Column::Cut("key")]);
    let mut table = Sheet::new(&columns.collect::<Vec<_>>());
    for model in asked.chain(others) {
        let (server, key) = (server(model), places(model));
        if is_json {
            show::json(&json!({
                "use": place(config, model), "name": model.name, "wire": model.wire, "model": model.model,
                "server": server, "key": key,
            }))?;
        }
        table.push(vec![
            order(config, model).into(),
            model.name.clone().into(),
            model.wire.clone().into(),
            model.model.clone().into(),
            server.unwrap_or_else(|| "-".to_owned()).into(),
            key.join(", ").into(),
        ]);
    }
    if is_json { Ok(()) } else { table.print(&Screen::stdout()) }
}

/// Prints whether each model is in service and what it used.
pub(super) fn status<'a>(
    config: &Config,
    models: impl Iterator<Item = &'a NamedModel>,
    is_json: bool,
) -> Result<(), Fail> {
    // Another user may not read the ledger; the rest is still shown.
    let used = used::last_day(config).map_err(|e| show::note(&format!("par: {e}"))).ok();
    let columns = ["use", "name"].map(Column::Whole).into_iter().chain([
        Column::Words("reachable"),
        Column::Words("key"),
        Column::Whole("replies"),
        Column::Whole("errors"),
        Column::Whole("tokens read"),
        Column::Whole("written"),
        Column::Whole("money"),
    ]);
    let (mut table, mut failures) = (Sheet::new(&columns.collect::<Vec<_>>()), Vec::new());
    for model in models {
        let status = ModelStatus::of(config, model, used.as_ref());
        if is_json {
            show::json(&status.json(config, model))?;
        }
        table.push(status.row(config, model));
        failures.extend(status.failure(model));
    }
    if is_json {
        return Ok(());
    }
    table.print(&Screen::stdout())?;
    failures.iter().for_each(|failure| show::note(failure));
    show::note("par: replies, errors, tokens and money of the last 24 hours, as recorded");
    Ok(())
}

struct ModelStatus {
    /// The HTTP status of the server's answer; `None` without a server.
    reached: Option<Result<u16, String>>,
    /// The place of the key; `None` if no place has one.
    key: Result<Option<KeyPlace>, String>,
    /// `None` if the ledger cannot be read.
    used: Option<ModelUse>,
}

impl ModelStatus {
    fn of(config: &Config, model: &NamedModel, used: Option<&BTreeMap<String, ModelUse>>) -> Self {
        let reached = server(model).map(|base| compose::reach(model, &base).map_err(|e| e.to_string()));
        let key = config.model_key(model).map_err(|e| e.reason).map(|found| found.map(|found| found.place));
        let used = used.map(|used| used.get(&model.name).cloned().unwrap_or_default());
        Self { reached, key, used }
    }

    fn json(&self, config: &Config, model: &NamedModel) -> Value {
        let used = self.used.as_ref().map(|used| {
            let error = |error: &FailedAsk| json!({ "at": error.at.rfc3339(), "error": error.why });
            json!({
                "replies": used.replies, "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens, "erased": used.erased, "money": used.money(model),
                "errors": used.errors, "newest_error": used.newest_error.as_ref().map(error),
            })
        });
        let (status, unreached) = match &self.reached {
            None => (None, None),
            Some(Ok(status)) => (Some(*status), None),
            Some(Err(why)) => (None, Some(why)),
        };
        json!({
            "name": model.name, "use": place(config, model), "server": server(model), "status": status,
            "unreached": unreached, "key": self.key.as_ref().ok().and_then(Option::as_ref).map(ToString::to_string),
            "key_error": self.key.as_ref().err(), "last_24_hours": used,
        })
    }

    /// The newest request that had no reply.
    fn failure(&self, model: &NamedModel) -> Option<String> {
        let error = self.used.as_ref()?.newest_error.as_ref()?;
        let (at, why) = (error.at.rfc3339(), error.why.as_deref().unwrap_or("the reason was erased"));
        Some(format!("par: newest error of `{}`, {at}: {why}", model.name))
    }

    fn row(&self, config: &Config, model: &NamedModel) -> Vec<Cell> {
        let reached = match &self.reached {
            None => Cell::from("no server"),
            Some(Ok(status)) => Cell::from(format!("yes ({status})")),
            Some(Err(why)) => Cell::from(format!("no: {why}")).toned(Tone::Bad),
        };
        let key = match &self.key {
            Ok(Some(place)) => Cell::from(place.to_string()),
            Ok(None) if model.key.places().is_empty() => Cell::from("needs none"),
            Ok(None) => Cell::from(format!("not here: {}", places(model).join(", "))),
            Err(why) => Cell::from(why.clone()).toned(Tone::Bad),
        };
        let used = self.used.as_ref();
        let number =
            |of: fn(&ModelUse) -> u64| used.map_or_else(|| "-".to_owned(), |used| of(used).to_string());
        let money = used.and_then(|used| used.money(model));
        let errors = Cell::from(number(|used| used.errors));
        let failed = used.is_some_and(|used| used.errors > 0);
        vec![
            order(config, model).into(),
            model.name.clone().into(),
            reached,
            key,
            number(|used| used.replies).into(),
            if failed { errors.toned(Tone::Bad) } else { errors },
            number(|used| used.input_tokens).into(),
            number(|used| used.output_tokens).into(),
            money.map_or_else(|| "-".to_owned(), |money| money.to_string()).into(),
        ]
    }
}

/// When it is asked, from 1; `None` if it is not.
fn place(config: &Config, model: &NamedModel) -> Option<usize> {
    config.models.order.iter().position(|name| *name == model.name).map(|at| at + 1)
}

fn order(config: &Config, model: &NamedModel) -> String {
    place(config, model).map_or_else(|| "-".to_owned(), |place| place.to_string())
}

/// The base URL of its server; `None` without one.
fn server(model: &NamedModel) -> Option<String> {
    if !model.base_url.is_empty() {
        return Some(model.base_url.clone());
    }
    let usual = compose::wire(model).ok().and_then(ProviderKind::base_url);
    usual.map(str::to_owned)
}

/// The places that its key may be in.
fn places(model: &NamedModel) -> Vec<String> {
    model.key.places().iter().map(ToString::to_string).collect()
}
