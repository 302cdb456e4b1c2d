//! `par reload`: the running server loads the rules on disk and puts them in force.

use super::exit::{self, Fail};
use super::show;
use crate::config::Config;
use crate::http::admin::{self, AdminError, FailureCode, Operation};
use crate::types::text;
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct Reload {}

impl Reload {
    #[expect(clippy::unused_self, reason = "as every command")]
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let answer = match admin::call(&config.home.data, &json!({ "op": Operation::Reload.as_str() })) {
            Err(AdminError::Failed(FailureCode::Rules, why)) => {
                show::note("par: nothing was loaded; the previous rules remain in force:");
                return Err(Fail::usage(why.replace('\n', "\npar: ")));
            }
            Err(other) => return Err(other.into()),
            Ok(answer) => answer,
        };
        let reloaded = answer.get("reload").unwrap_or(&Value::Null);
        if is_json {
            show::json(reloaded)?;
        } else {
            lines(reloaded).iter().try_for_each(|line| show::line(&text::visible_line(line)))?;
        }
        Ok(exit::OK)
    }
}

/// The changes, one line each.
fn lines(reloaded: &Value) -> Vec<String> {
    let word = |name: &str| reloaded.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    let short = |name: &str| word(name).chars().take(12).collect::<String>();
    let each = |pointer: &str| {
        let names = reloaded.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut lines = vec![if word("policy") == word("was") {
        let is_same = reloaded.get("refused").and_then(Value::as_array).is_none_or(Vec::is_empty)
            && each("/accepted").is_empty();
        let what = if is_same { "nothing changed" } else { "the files did not change" };
        format!("loaded: {what}, rules {}", short("policy"))
    } else {
        format!("loaded: rules {}, before {}", short("policy"), short("was"))
    }];
    for (kind, what) in [("policies", "policy"), ("tools", "tool"), ("runbooks", "runbook")] {
        for (change, sign) in [("added", '+'), ("removed", '-'), ("changed", '~')] {
            let named = each(&format!("/{kind}/{change}"));
            lines.extend(named.iter().map(|name| format!("  {sign} {what} {name}")));
        }
    }
    for what in ["groups", "labels", "secrets"] {
        if reloaded.get(what).and_then(Value::as_bool) == Some(true) {
            lines.push(format!("  ~ {what}"));
        }
    }
    for (change, what) in [("added", "+"), ("removed", "-"), ("replaced", "~")] {
        let named = each(&format!("/model_keys/{change}"));
        lines.extend(named.iter().map(|name| format!("  {what} key of the model {name}")));
    }
    let not_taken = reloaded.pointer("/model_keys/not_taken").and_then(Value::as_object);
    for (name, settings) in not_taken.into_iter().flatten() {
        let settings: Vec<&str> =
            settings.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        lines.push(format!(
            "  ! the new key of the model {name} is not used: {} changed too, and both take effect at the next \
             start; until then the model is asked as before",
            settings.join(", ")
        ));
    }
    lines.extend(each("/accepted").iter().map(|name| format!("  + tool {name} is not refused any more")));
    for refused in reloaded.get("refused").and_then(Value::as_array).into_iter().flatten() {
        let word = |name: &str| refused.get(name).and_then(Value::as_str).unwrap_or("-");
        lines.push(format!("  ! tool {} is refused: {}", word("tool"), word("reason")));
    }
    lines.extend(each("/not_loaded").iter().map(|key| format!("  ! {key} takes effect at the next start")));
    lines
}
