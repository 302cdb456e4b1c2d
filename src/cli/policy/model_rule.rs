//! `par policy new --may model.ask`: who may use a language model.

use super::holder::RuleHolder;
use crate::cli::exit::Fail;
use crate::cli::new::{NewCase, Proposal, text};
use crate::config::Config;
use crate::policy::MODEL_ASK;
use crate::types::ModelSink;

/// Adds a rule by which `holder`, and no other, may use the model that `on` names.
///
/// The shipped rule permits every configured model to all who may run, so what is written is a
/// `forbid` for the others; a permit too if no rule in force permits the model.
pub(super) fn add(
    config: &Config,
    holder: &RuleHolder,
    on: &str,
    id: &str,
    is_json: bool,
) -> Result<u8, Fail> {
    let name = model(config, on)?;
    let sink = format!("{}{name}", ModelSink::PREFIX);
    let (who, caller) = holder.caller();
    let (others, other) = holder.others();
    let case = |name: String, caller: String, expect| NewCase {
        name,
        caller,
        sink: Some(sink.clone()),
        expect,
        is_needed: true,
        ..NewCase::default()
    };
    let mut cases = vec![case(format!("{who} may use the model {name}"), caller, "allow")];
    if !others.is_empty() {
        cases.push(case(format!("{others} may not use the model {name}"), other, "deny"));
    }
    let proposal = Proposal {
        command: "policy new",
        stem: format!("60-{id}"),
        rules: rules(id, holder, &who, &sink),
        cases,
        next: vec!["par reload    # if a server runs".to_owned(), "par policy test".to_owned()],
        ..Proposal::default()
    };
    proposal.add(config, is_json).map_err(|fail| match fail.what.contains("05-models.toml") {
        true => Fail {
            what: format!(
                "{}\npar: a shipped case says that every run may use this model: change that case in \
                 policies/tests/05-models.toml first",
                fail.what
            ),
            ..fail
        },
        false => fail,
    })
}

/// The configured model that `word` names as `model:NAME`.
fn model<'a>(config: &'a Config, word: &'a str) -> Result<&'a str, Fail> {
    let wrong = |what: String| Fail::usage(format!("`--on {word}`: {what}"));
    let name = word.strip_prefix(ModelSink::PREFIX).filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| wrong(format!("expected `{}NAME` with `--may {MODEL_ASK}`", ModelSink::PREFIX)))?;
    if config.models.find(name).is_some() {
        return Ok(name);
    }
    let mend = config.models.nearest(name).map_or_else(
        || "`par model list` shows the models".to_owned(),
        |close| format!("did you mean `{}{close}`?", ModelSink::PREFIX),
    );
    Err(wrong(format!("no model of that name is in par.toml: {mend}")))
}

/// The least rule first.
fn rules(id: &str, holder: &RuleHolder, who: &str, sink: &str) -> Vec<String> {
    let action = format!("action == PAR::Action::{}", text(MODEL_ASK));
    let resource = format!("resource == PAR::Sink::{}", text(sink));
    let only = format!(
        "@id({})\n@advice({})\nforbid (\n    principal,\n    {action},\n    {resource}\n)\nunless {{ {} }};\n",
        text(&format!("{id}-only")),
        text(&format!("only {who} may use this model")),
        holder.cedar()
    );
    let permit =
        format!("@id({})\npermit (\n    {},\n    {action},\n    {resource}\n);\n", text(id), holder.cedar());
    let both = format!("{permit}\n{only}");
    vec![only, permit, both]
}
