//! The effect of a change of rules: the decisions that differ between two bundles.
//!
//! The questions are the cases of both sides, and a table of every role, untainted and tainted,
//! with every tool and the resources that either side names. This proves nothing about
//! other questions.

use crate::auth::Role;
use crate::policy::decide::ruling::Ruling;
use crate::policy::load::bundle::Bundle;
use crate::policy::load::suite::case::{AskCase, Case, NOW_US, Who};
use crate::policy::request::question::{Approved, Counts, Question, Resource, UNTRUSTED};
use crate::policy::testing::folders::{Folders, expand, place};
use crate::policy::testing::outcome::described;
use crate::policy::testing::ready::ReadyCase;
use crate::tools::{Catalog, IdKind, Manifest, ResourceSpec};
use crate::types::{Decision, HostPort, ModelSink, limits};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rules, with the tools and folders that questions need.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The policies.
    pub bundle: &'a Bundle,
    /// The tools.
    pub catalog: &'a Catalog,
    /// The folders of `[paths]`.
    pub folders: &'a Folders,
}

/// A question that the two sides answer differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The request.
    pub asked: String,
    /// The answer of the first side.
    pub old: SideRuling,
    /// The answer of the second side.
    pub new: SideRuling,
}

/// The answer of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideRuling {
    /// The side has no such tool, or the tool takes no such argument.
    NoCall,
    /// The side's rules decide.
    Ruled {
        /// The decision, with the groups that it asks.
        answer: String,
        /// The determining policies.
        policies: Vec<String>,
    },
}

/// The questions that the two sides answer differently, and how many were asked.
#[must_use]
pub fn flips(old: Side<'_>, new: Side<'_>) -> (Vec<Flip>, usize) {
    let mut found = Vec::new();
    let mut asked = BTreeSet::new();
    let mut compare = |words: String, old: SideRuling, new: SideRuling| {
        if asked.insert(words.clone()) && old.effect() != new.effect() {
            found.push(Flip { asked: words, old, new });
        }
    };
    for case in old.bundle.suite().asks.iter().chain(&new.bundle.suite().asks) {
        compare(format!("{} ({})", case.asked(), case.name), old.ask(case), new.ask(case));
    }
    for case in old.bundle.suite().cases.iter().chain(&new.bundle.suite().cases) {
        compare(format!("{} ({})", case.asked(), case.name), old.case(case), new.case(case));
    }
    for (case, words) in old.asks().into_iter().chain(new.asks()) {
        compare(words, old.ask(&case), new.ask(&case));
    }
    let (mut objects, more) = (old.objects(), new.objects());
    objects.extend(more);
    let tools: BTreeSet<&String> =
        old.catalog.manifests().chain(new.catalog.manifests()).map(|manifest| &manifest.name).collect();
    for role in Role::ALL {
        for tool in &tools {
            let kinds =
                [old, new].into_iter().filter_map(|side| Some(side.catalog.find(tool)?.resource.kind()));
            let kinds: BTreeSet<&str> = kinds.collect();
            for (_, words) in objects.iter().filter(|(kind, _)| kinds.contains(kind.as_str())) {
                let cells = |who: &Who| (old.cell(who, tool, words), new.cell(who, tool, words));
                let (who, tainted) = (caller_with(role, false), caller_with(role, true));
                let ((old, new), (mut old_tainted, new_tainted)) = (cells(&who), cells(&tainted));
                // A change that does not depend on taint is listed once.
                if (old_tainted.effect(), new_tainted.effect()) == (old.effect(), new.effect()) {
                    old_tainted = new_tainted.clone();
                }
                compare(format!("{who} {tool} {words}"), old, new);
                compare(format!("{tainted} {tool} {words}"), old_tainted, new_tainted);
            }
        }
    }
    let count = asked.len();
    (found, count)
}

/// A caller with `role`, whose session is tainted or not.
fn caller_with(role: Role, is_tainted: bool) -> Who {
    let taint = is_tainted.then(|| UNTRUSTED.to_owned()).into_iter().collect();
    let budget = i64::from(limits::CALLS_PER_RUN_MAX);
    Who {
        role,
        user: None,
        key: None,
        groups: Arc::default(),
        ceiling: None,
        taint,
        seen: BTreeSet::new(),
        calls_used: 0,
        budget,
        risk: 0,
    }
}

impl SideRuling {
    /// The decision in words: `no call`, or the answer.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::NoCall => "no call",
            Self::Ruled { answer, .. } => answer,
        }
    }

    /// The determining policies.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        match self {
            Self::NoCall => &[],
            Self::Ruled { policies, .. } => policies,
        }
    }

    /// The effect for the caller: a call that cannot be made counts as denied.
    fn effect(&self) -> &str {
        match self {
            Self::NoCall => Decision::Deny.as_str(),
            Self::Ruled { answer, .. } => answer,
        }
    }
}

impl Side<'_> {
    fn case(self, case: &Case) -> SideRuling {
        match ReadyCase::new(case, self.catalog, self.folders, self.bundle.named()) {
            Ok(ready) => ruled(&self.bundle.decide_among(&ready.question(), &case.who.groups).answer),
            Err(_) => SideRuling::NoCall,
        }
    }

    fn ask(self, case: &AskCase) -> SideRuling {
        ruled(&case.answer(self.bundle, self.catalog))
    }

    /// Requests of each role to each model that these rules name, and to the one of `[llm]`.
    fn asks(self) -> Vec<(AskCase, String)> {
        let named = self.bundle.literals().into_iter().filter(|(kind, _)| kind == "Sink");
        let mut names: BTreeSet<String> =
            named.filter_map(|(_, id)| Some(id.strip_prefix(ModelSink::PREFIX)?.to_owned())).collect();
        names.insert(ModelSink::DEFAULT.to_owned());
        let roles = Role::ALL.into_iter().flat_map(|role| [(role, false), (role, true)]);
        let ask = |(role, is_tainted), name: &String| {
            let case = AskCase::of(caller_with(role, is_tainted), name.clone());
            let words = case.asked();
            (case, words)
        };
        roles.flat_map(|who| names.iter().map(move |name| ask(who, name))).collect()
    }

    fn cell(self, who: &Who, tool: &str, words: &str) -> SideRuling {
        let Some(manifest) = self.catalog.find(tool) else { return SideRuling::NoCall };
        let Some((resource, arguments)) = self.object(manifest, words) else { return SideRuling::NoCall };
        let (subject, session) = (who.subject(), who.session(self.catalog));
        let question = Question {
            subject: &subject,
            session: &session,
            manifest,
            arguments: &arguments,
            resource: &resource,
            approved: Approved::No,
            now_us: NOW_US,
            source_ip: None,
            channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
        };
        ruled(&self.bundle.decide_among(&question, &who.groups).answer)
    }

    /// The object that `words` name for a tool, and arguments that name it.
    fn object(self, manifest: &Manifest, words: &str) -> Option<(Resource, Value)> {
        let mut arguments = sample(&manifest.input);
        let resource = match &manifest.resource {
            ResourceSpec::Fixed { kind, id } if id == words => {
                Resource::Fixed { kind: kind.clone(), id: id.clone() }
            }
            ResourceSpec::Fixed { .. } => return None,
            ResourceSpec::Id { kind, argument } => {
                arguments.insert(argument.clone(), json!(words));
                Resource::Id { kind: *kind, id: words.to_owned() }
            }
            ResourceSpec::Host { argument, form } => {
                let host = HostPort::parse(words).ok()?;
                arguments.insert(argument.clone(), json!(form.spell(&host)));
                Resource::host(host.as_str())
            }
            ResourceSpec::Path { argument } => {
                let path = expand(words, self.folders).ok()?;
                arguments.insert(argument.clone(), json!(path));
                place(&path, manifest, self.folders, self.bundle.named(), &[])
            }
        };
        Some((resource, Value::Object(arguments)))
    }

    /// The resources that these rules name, each with another one of its kind.
    fn objects(self) -> BTreeSet<(String, String)> {
        let path = |words: String| ("Path".to_owned(), words);
        let mut found: BTreeSet<(String, String)> = [path("/etc/shadow".to_owned())].into();
        let names = self.folders.keys().map(|name| format!("@{name}"));
        for folder in names.chain(self.bundle.named().iter().cloned()) {
            found.insert(path(format!("{}/file", folder.trim_end_matches('/'))));
            found.insert(path(folder));
        }
        let kinds = IdKind::ALL.iter().map(|kind| (kind.as_str(), "another"));
        let is_host = |manifest: &Arc<Manifest>| matches!(manifest.resource, ResourceSpec::Host { .. });
        let other = self.catalog.manifests().any(is_host).then_some(("Host", "another.example:443"));
        let kinds: BTreeMap<&str, &str> = kinds.chain(other).collect();
        found.extend(kinds.iter().map(|(kind, other)| ((*kind).to_owned(), (*other).to_owned())));
        found
            .extend(self.bundle.literals().into_iter().filter(|(kind, _)| kinds.contains_key(kind.as_str())));
        for manifest in self.catalog.manifests() {
            match &manifest.resource {
                ResourceSpec::Fixed { kind, id } => {
                    found.insert((kind.clone(), id.clone()));
                }
                ResourceSpec::Host { .. } => {
                    let hosts = manifest.reach.hosts.iter();
                    found.extend(hosts.map(|host| ("Host".to_owned(), host.as_str().to_owned())));
                }
                ResourceSpec::Id { .. } | ResourceSpec::Path { .. } => {}
            }
        }
        found
    }
}

impl Bundle {
    /// Types, without the namespace, and ids of the entities that the files' policies name.
    fn literals(&self) -> BTreeSet<(String, String)> {
        let literals = self.set.policies().flat_map(cedar_policy::Policy::entity_literals);
        literals.map(|uid| (uid.type_name().basename().to_owned(), uid.id().unescaped().to_owned())).collect()
    }
}

/// The required arguments of a tool, with values of the right types.
fn sample(input: &Value) -> Map<String, Value> {
    let required = input.get("required").and_then(Value::as_array).into_iter().flatten();
    let each = required.filter_map(Value::as_str).map(|name| {
        let property = input.get("properties").and_then(|all| all.get(name));
        let word = |key: &str| property.and_then(|property| property.get(key)).cloned();
        let kind = match word("type") {
            Some(Value::Array(kinds)) => kinds.into_iter().find(|kind| kind != "null"),
            kind => kind,
        };
        let value = match kind.as_ref().and_then(Value::as_str) {
            Some("integer" | "number") => word("minimum").unwrap_or(json!(1)),
            Some("boolean") => json!(false),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => word("enum").and_then(|some| some.get(0).cloned()).unwrap_or(json!("x")),
        };
        (name.to_owned(), value)
    });
    each.collect()
}

fn ruled(answer: &Ruling) -> SideRuling {
    SideRuling::Ruled { answer: described(answer), policies: answer.policies().to_vec() }
}
