//! `par policy explain`.

use super::lead;
use super::model::configured;
use super::subject::{EXPLAIN_USER, counts, key_subject, ran, resource};
use crate::auth::{Role, Source, Subject};
use crate::cli::exit::{self, Fail};
use crate::cli::table::{Cell, Column, Screen, Sheet, words};
use crate::cli::tool::unknown;
use crate::cli::{compose, key, show};
use crate::config::Config;
use crate::gate::Rules;
use crate::ledger::Kind;
use crate::ledger::payload::NearestRule;
use crate::policy::{
    Approved, AskQuestion, Considered, Door, HeldOver, MODEL_ASK, Obligation, Over, Power, Question,
    Resource, Ruling, Session, UNTRUSTED, Use, Via, nearest,
};
use crate::runbooks::WrittenCall;
use crate::tools::ProposedCall;
use crate::types::{KeyId, clock::Wall, limits, text, told_origins};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

#[derive(Debug, Default, Args)]
pub(in crate::cli) struct Explain {
    /// Name of a tool; or a power of the API such as `run`, or `model.ask`, or the number of a
    /// `call.decision` or `model.ask` entry
    #[arg(value_name = "TOOL|POWER|SEQ")]
    tool: String,
    /// Arguments of the tool, a JSON object [default: {}]
    arguments: Option<String>,
    /// Decide as for this key (its id or name) or for this role [default: operator]
    #[arg(long = "as", value_name = "KEY")]
    who: Option<String>,
    /// Decide for this user: a name from `par key create --user`, or `os:NAME`
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Owner of the run or approval, for a power: `self`, `other` or a principal in the ledger
    /// [default: other]
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Door through which the request comes, for a power: `http`, `page`, `socket` or `local`
    /// [default: http]
    #[arg(long, value_name = "DOOR")]
    via: Option<String>,
    /// IP address that the request comes from
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Decide for a run that has read untrusted text; for a tool or `model.ask` only
    #[arg(long)]
    tainted: bool,
}

/// A ruling with everything that led to it.
struct Explanation {
    answer: Ruling,
    considered: Vec<Considered>,
    /// The resource.
    about: String,
    /// The limit of this answer, as a clause after the resource.
    caveat: &'static str,
    /// Where the sensitive arguments were found, on one line; `None` if the tool names none.
    origins: Option<String>,
    /// The recorded decision, if the question comes from the ledger.
    recorded: Option<RecordedDecision>,
    /// The command that writes a rule for exactly this call, if only a permit is missing.
    permit: Option<String>,
    /// Where to look if the manifest does not grant the path, or if the run was tainted.
    lead: Option<String>,
}

/// What a recorded decision was made of, and why it was a deny.
#[derive(serde::Deserialize)]
struct RecordedQuestion {
    request: Option<Value>,
    reason: Option<String>,
    nearest: Option<NearestRule>,
}

/// A decision as recorded.
struct RecordedDecision {
    seq: u64,
    decision: String,
    policies: Vec<String>,
    /// Digest of the bundle that decided it.
    policy: String,
    /// Digest of the bundle on disk.
    now: String,
}

impl Explain {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        // Loads also when a case fails: that is when people ask.
        let rules = compose::load_unproven(config)?;
        let seq = self.tool.trim_start_matches('#').parse::<u64>().ok();
        let is_tool = self.arguments.is_some() || rules.catalog.find(&self.tool).is_some();
        let is_power = seq.is_none() && !is_tool;
        if !is_power && (self.owner.is_some() || self.via.is_some()) {
            return Err(Fail::usage("`--owner` and `--via` are for a power of the API only"));
        }
        let explanation = match (seq, &self.arguments) {
            (Some(_), None) if self.who.is_some() || self.user.is_some() || self.from.is_some() => {
                return Err(Fail::usage(
                    "the entry names the caller: leave out `--as`, `--user` and `--from`",
                ));
            }
            (Some(seq), None) => recorded(config, &rules, seq)?,
            (None, None) if Power::parse(&self.tool).is_some() => self.power(config, &rules)?,
            (None, None) if self.tool == MODEL_ASK => self.model(config, &rules)?,
            (None, None) if is_tool => self.asked(config, &rules, "{}")?,
            (None, None) => {
                let no_tool = unknown(config, &rules, &self.tool);
                let no_tool = if no_tool.ends_with('?') { no_tool } else { no_tool + "." };
                return Err(Fail::usage(format!(
                    "{no_tool} It is not a power of the API or an entry either"
                )));
            }
            (_, Some(arguments)) => self.asked(config, &rules, arguments)?,
        };
        explanation.print(is_json)?;
        Ok(match explanation.answer {
            Ruling::Allow { .. } => exit::OK,
            Ruling::Deny { .. } => exit::DENIED,
            Ruling::NeedsApproval { .. } => exit::WAITING,
        })
    }

    /// Asks for a power, with a key that does not expire.
    fn power(&self, config: &Config, rules: &Rules) -> Result<Explanation, Fail> {
        let power = Power::parse(&self.tool).ok_or_else(|| Fail::usage("unknown power"))?;
        let subject = self.subject(config)?;
        let word = self.via.as_deref().unwrap_or("http");
        let doors = || Via::ALL.map(Via::as_str).join(", ");
        let via = Via::parse(word)
            .ok_or_else(|| Fail::usage(format!("unknown door `{word}`, expected one of {}", doors())))?;
        let own = subject.id();
        let owner = match self.owner.as_deref().unwrap_or("other") {
            "self" => &own,
            "other" => "key:another",
            name => name,
        };
        let (over, about) = match power.over() {
            HeldOver::Server if self.owner.is_some() => {
                return Err(Fail::usage(format!(
                    "`{}` is a power over the server, which has no owner",
                    self.tool
                )));
            }
            HeldOver::Server => (Over::Server, "Server self".to_owned()),
            kind => (
                Over::Owned { id: "explain", owner },
                format!("{} of {}", kind.as_str(), text::visible_line(owner)),
            ),
        };
        let door = Door { via, source_ip: self.from };
        let ran = ran(config, &own)?;
        let asked =
            Use { subject: &subject, power, over, door, expires_us: None, now_us: Wall::now().0, ran };
        Ok(Explanation {
            answer: rules.bundle.decide_use(&asked).answer,
            considered: rules.bundle.explain_use(&asked),
            about,
            caveat: if power == Power::Approve {
                "; a key that may run never answers approvals, whatever the policies say"
            } else {
                ""
            },
            origins: None,
            recorded: None,
            permit: None,
            lead: None,
        })
    }

    fn asked(&self, config: &Config, rules: &Rules, arguments: &str) -> Result<Explanation, Fail> {
        let subject = self.subject(config)?;
        if rules.catalog.find(&self.tool).is_none() {
            return Err(Fail::usage(unknown(config, rules, &self.tool)));
        }
        let proposed = ProposedCall {
            id: "explain".to_owned(),
            tool: self.tool.clone(),
            arguments: arguments.to_owned(),
        };
        let valid = rules.catalog.validate(proposed, |_| true).map_err(|e| Fail::usage(e.reason))?;
        let session = self.session(rules);
        let resource = resource(config, &valid);
        let question = Question {
            subject: &subject,
            session: &session,
            manifest: valid.manifest(),
            arguments: valid.arguments(),
            resource: &resource,
            approved: Approved::No,
            now_us: Wall::now().0,
            source_ip: self.from,
            channel: crate::types::Channel::Http,
            counts: counts(config, &self.tool)?,
            origins: None,
            is_chosen: false,
            is_halted: false,
        };
        let (answer, considered) = (rules.bundle.decide(&question).answer, rules.bundle.explain(&question));
        let is_open = lead::lacks_permit(&answer, &considered, |policy| rules.bundle.asks(policy));
        let on = lead::object_of(&resource).filter(|_| is_open);
        let path = if let Resource::Outside { lexical } = &resource { lexical } else { "" };
        Ok(Explanation {
            permit: on.map(|on| lead::permitting(&self.holder(), &self.tool, &on)),
            lead: lead::outside(&answer, Some(valid.manifest()), path)
                .or_else(|| lead::confirmable(&answer, &considered)),
            answer,
            considered,
            about: resource_text(&resource),
            caveat: ", as the first call of a run; the sandbox checks the resource again when the call runs",
            origins: None,
            recorded: None,
        })
    }

    /// The caller, as `par policy new --who` takes it.
    fn holder(&self) -> String {
        let who = self.who.as_deref().unwrap_or("operator");
        match (&self.user, Role::parse(who)) {
            (Some(user), _) => format!("user:{user}"),
            (None, Some(role)) => role.as_str().to_owned(),
            (None, None) => format!("key:{who}"),
        }
    }

    /// Asks for a request to the configured model.
    fn model(&self, config: &Config, rules: &Rules) -> Result<Explanation, Fail> {
        let (subject, session, sink) = (self.subject(config)?, self.session(rules), configured(config)?);
        let asked = AskQuestion {
            subject: &subject,
            session: &session,
            sink: &sink,
            is_halted: false,
            input_tokens: 0,
            fallback_of: None,
            now_us: Wall::now().0,
            source_ip: self.from,
            channel: crate::types::Channel::Http,
        };
        Ok(Explanation {
            answer: rules.bundle.decide_ask(&asked).answer,
            considered: rules.bundle.explain_ask(&asked),
            about: format!("Sink {} at {}", sink.id(), sink.host),
            caveat: ", before the first call of a run",
            origins: None,
            recorded: None,
            permit: None,
            lead: None,
        })
    }

    /// The session of a run that has not called a tool yet.
    fn session(&self, rules: &Rules) -> Session {
        Session {
            id: "explain".to_owned(),
            ceiling: rules.catalog.manifests().map(|m| m.name.clone()).collect(),
            taint: self.tainted.then(|| UNTRUSTED.to_owned()).into_iter().collect(),
            seen: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: i64::from(limits::CALLS_PER_RUN_MAX),
            risk: 0,
        }
    }

    /// The subject: an existing key, or a role, held by a key of the named user or by a user of
    /// this host.
    fn subject(&self, config: &Config) -> Result<Subject, Fail> {
        let word = self.who.as_deref().unwrap_or("operator");
        let Some(role) = Role::parse(word) else {
            if self.user.is_some() {
                return Err(Fail::usage("the key already has a user: give `--user` only with a role"));
            }
            return key_subject(&key::find(config, word)?);
        };
        let user = self.user.as_deref().unwrap_or(EXPLAIN_USER);
        if let Some(name) = user.strip_prefix("os:") {
            return Ok(Subject { source: Source::Os { name: name.to_owned() }, role, user: None });
        }
        let id = KeyId::parse("explain0").ok_or_else(|| Fail::failed("no id for a key"))?;
        let source = Source::Key { id, name: "explain".to_owned() };
        Ok(Subject { source, role, user: Some(user.to_owned()) })
    }
}

/// What the rules decide on a call for `who`, a key or a role: as the first call of a run, or as
/// one after untrusted text was read.
pub(in crate::cli) fn ruling_on(
    config: &Config,
    rules: &Rules,
    who: Option<&str>,
    call: &WrittenCall,
    tainted: bool,
) -> Result<Ruling, Fail> {
    let explain =
        Explain { tool: call.tool.clone(), who: who.map(str::to_owned), tainted, ..Explain::default() };
    Ok(explain.asked(config, rules, &call.arguments)?.answer)
}

/// Makes the decision `seq` of the ledger again, under the rules on disk.
fn recorded(config: &Config, rules: &Rules, seq: u64) -> Result<Explanation, Fail> {
    let reader = compose::HomeReader::open(config)?;
    let stored = reader.entry(seq).map_err(|e| Fail::new(exit::UNVERIFIED, e))?;
    let stored = stored.ok_or_else(|| Fail::failed(format!("entry {seq} does not exist")))?;
    if !(stored.header.is(Kind::CallDecision) || stored.header.is(Kind::ModelAsk)) {
        let kind = &stored.header.kind;
        let query = "`par audit show kind:call.decision` lists decisions";
        return Err(Fail::usage(format!("entry {seq} is a `{kind}`, not a `call.decision`: {query}")));
    }
    let body = stored
        .body
        .as_deref()
        .ok_or_else(|| Fail::failed(format!("the payload of entry {seq} is erased")))?;
    // Both kinds have a request and a reason.
    let payload: RecordedQuestion = serde_json::from_slice(body).map_err(Fail::failed)?;
    let request = payload.request.as_ref().unwrap_or(&Value::Null);
    let words =
        |name: &str| text::visible_line(request.pointer(name).and_then(Value::as_str).unwrap_or_default());
    let reason = payload.reason.as_deref().map(text::visible_line);
    if request.get("action").is_none() {
        let reason = reason.unwrap_or_else(|| "its request was not recorded".to_owned());
        let nearest = payload.nearest.map_or_else(String::new, |rule| format!("; {}", rule.line()));
        return Err(Fail::failed(format!(
            "no rule decided entry {seq}, so there is nothing to explain: {reason}{nearest}"
        )));
    }
    let (answer, considered) = rules.bundle.explain_recorded(&rules.catalog, request).map_err(|e| {
        let reason = reason.map_or_else(String::new, |reason| format!("; it was denied because {reason}"));
        Fail::failed(format!("decision {seq} cannot be repeated: {e}{reason}"))
    })?;
    let word = |name: &str| stored.header.str(name).unwrap_or_default();
    let is_open = lead::lacks_permit(&answer, &considered, |policy| rules.bundle.asks(policy));
    let on = lead::recorded_object(request).filter(|_| is_open && stored.header.is(Kind::CallDecision));
    Ok(Explanation {
        permit: on.map(|on| lead::permitting(&lead::holder(word("principal")), word("tool"), &on)),
        lead: lead::outside(
            &answer,
            rules.catalog.find(word("tool")).map(AsRef::as_ref),
            request.pointer("/resource/id").and_then(Value::as_str).unwrap_or_default(),
        )
        .or_else(|| lead::confirmable(&answer, &considered)),
        answer,
        considered,
        about: format!("{} {}", words("/resource/type").trim_start_matches("PAR::"), words("/resource/id")),
        caveat: "",
        origins: request.pointer("/context/from").and_then(told_origins),
        recorded: Some(RecordedDecision {
            seq,
            decision: stored.header.str("decision").unwrap_or_default().to_owned(),
            policies: stored.header.policies().iter().map(|policy| text::visible_line(policy)).collect(),
            policy: stored.header.str("policy").unwrap_or_default().to_owned(),
            now: rules.bundle.digest().hex(),
        }),
    })
}

impl Explanation {
    fn print(&self, is_json: bool) -> Result<(), Fail> {
        if is_json {
            return show::json(&self.json());
        }
        let screen = Screen::stdout();
        let word = self.answer.word();
        let mut verdict = Sheet::bare(&[Column::Whole("decision"), Column::Words("why")]);
        verdict.push(vec![Cell::outcome(word), why(&self.answer, self.considered.len()).into()]);
        verdict.print(&screen)?;
        let columns =
            [Column::Whole(""), Column::Whole("policy"), Column::Words("effect"), Column::Cut("origin")];
        let mut listed = Sheet::bare(&columns);
        self.considered.iter().filter(|one| is_listed(one)).for_each(|one| listed.push(row(one)));
        listed.print(&screen)?;
        if let Some(lead) = &self.lead {
            words(&screen, &format!("  {lead}"))?;
        } else if let (Ruling::Deny { .. }, Some(nearest)) = (&self.answer, nearest(&self.considered)) {
            words(
                &screen,
                &format!("  nearest to a permit: {}, but {}", nearest.policy, nearest.failing_line()),
            )?;
        }
        if let Ruling::Deny { advice, .. } = &self.answer {
            advice.iter().try_for_each(|line| words(&screen, &format!("  advice: {line}")))?;
        }
        if let Some(permit) = &self.permit {
            // A command is not folded: it is to be copied.
            show::line(&format!("  to permit exactly this: {permit}"))?;
        }
        let about = &self.about;
        let Some(then) = &self.recorded else {
            return words(&screen, &format!("  decided for {about}{}", self.caveat));
        };
        words(&screen, &format!("  decided for {about}, as recorded in entry {}", then.seq))?;
        if let Some(origins) = &self.origins {
            words(&screen, &format!("  {origins}"))?;
        }
        let by = if then.policies.is_empty() { "default".to_owned() } else { then.policies.join(", ") };
        words(&screen, &format!("  recorded: {} by {by}", then.decision))?;
        if then.policy != then.now {
            words(
                &screen,
                &format!(
                    "  recorded under other rules: bundle {}; the rules on disk are bundle {}",
                    then.policy, then.now
                ),
            )?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let none: &[String] = &[];
        let (advice, errors) = match &self.answer {
            Ruling::Deny { advice, errors, .. } => (advice.as_slice(), errors.as_slice()),
            Ruling::Allow { .. } | Ruling::NeedsApproval { .. } => (none, none),
        };
        let listed = self.considered.iter().map(|c| {
            let failing = c.failing.iter().map(|part| json!({ "words": part.words, "line": part.line }));
            json!({ "policy": c.policy, "permits": c.permits, "matched": c.matched, "failed": c.failed,
                    "failed_at": c.failed_at, "failing": failing.collect::<Vec<_>>(),
                    "error": c.error, "origin": c.origin })
        });
        let then = self.recorded.as_ref().map(|then| {
            json!({ "seq": then.seq, "decision": then.decision, "policies": then.policies,
                    "policy": then.policy, "same_rules": then.policy == then.now })
        });
        json!({
            "decision": self.answer.word(),
            "policies": self.answer.policies(),
            "why": why(&self.answer, self.considered.len()),
            "advice": advice,
            "errors": errors,
            "resource": self.about,
            "considered": listed.collect::<Vec<_>>(),
            "nearest": nearest(&self.considered).map(|one| &one.policy),
            "permit": self.permit,
            "from": self.origins,
            "recorded": then,
        })
    }
}

/// Built-in policies are listed only if they forbid.
fn is_listed(one: &Considered) -> bool {
    one.origin.is_some() || one.matched || one.error.is_some()
}

/// A policy with its effect, or with the condition that fails and the position of that condition.
fn row(one: &Considered) -> Vec<Cell> {
    let text = match (&one.error, &one.failed) {
        (Some(error), _) => error.clone(),
        (None, Some(failed)) if one.permits => failed.clone(),
        (None, Some(failed)) => format!("does not forbid: {failed}"),
        (None, None) if one.permits => "permits".to_owned(),
        (None, None) => "forbids".to_owned(),
    };
    let at = one.failed_at.as_ref().or(one.origin.as_ref());
    vec!["".into(), one.policy.clone().into(), text.into(), at.map_or("built in", String::as_str).into()]
}

pub(in crate::cli) fn why(answer: &Ruling, considered: usize) -> String {
    match answer {
        Ruling::Deny { reason, .. } => format!("{reason} ({considered} considered)"),
        Ruling::Allow { policies } => policies.join(", "),
        Ruling::NeedsApproval { policies, gates } => {
            format!("required by {}: {} must approve", policies.join(", "), who(gates))
        }
    }
}

/// Who must approve for the gates: one person who is in every named group.
fn who(gates: &[Obligation]) -> String {
    let groups: BTreeSet<&str> = gates
        .iter()
        .filter_map(|gate| match gate {
            Obligation::Approval { group } => Some(group.as_str()),
            Obligation::Confirm => None,
        })
        .collect();
    let named = groups.iter().copied().collect::<Vec<_>>().join(" and ");
    match groups.len() {
        0 => "a person".to_owned(),
        1 => format!("another user in the group {named}"),
        _ => format!("another user in each of the groups {named}"),
    }
}

fn resource_text(resource: &Resource) -> String {
    match resource {
        Resource::Fixed { kind, id } => format!("{kind} {id}"),
        Resource::Id { kind, id } => format!("{} {id}", kind.as_str()),
        Resource::Path { canonical, .. } => canonical.clone(),
        Resource::Outside { lexical } => format!("{lexical}, outside the tool's folders"),
    }
}
