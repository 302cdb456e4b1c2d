//! Running a bundle's own tests.

use crate::policy::load::bundle::Bundle;
use crate::policy::decide::decision::{Answer, Considered, Gate};
use crate::policy::request::question::{Approved, Question, Resource, Session};
use crate::policy::load::suite::{Case, Expect, Offered, Place, Who, Yes};
use super::power_case::UseCase;
use crate::auth::{Source, Subject};
use crate::tools::{Catalog, HostForm, Manifest, ProposedCall, Resource as Declared};
use crate::types::KeyId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders of `[paths]`, by their names without `@`.
pub type Folders = BTreeMap<String, Folder>;

/// A folder of `[paths]`: as written, and where that leads.
#[derive(Clone, Debug)]
pub struct Folder {
    /// As written.
    pub lexical: PathBuf,
    /// Without links; as written where it is not there.
    pub real: PathBuf,
}

/// A case that was not answered as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where the case stands.
    pub place: Place,
    /// Its name; `offered` of a tool list.
    pub name: String,
    /// Who asks for what: `operator read_file @logs/syslog`.
    pub asked: String,
    /// The answer that it wants.
    pub expected: String,
    /// The answer that it got.
    pub got: String,
    /// What that answer comes from.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, name, asked, expected, got, why } = self;
        write!(f, "{place}: {name}: {asked}: expected {expected}, got {got}")?;
        if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
    }
}

/// A case brought together with a catalog: everything that a question borrows.
#[derive(Debug)]
pub(in crate::policy) struct Ready<'a> {
    pub(in crate::policy) case: &'a Case,
    subject: Subject,
    session: Session,
    manifest: Arc<Manifest>,
    arguments: Value,
    resource: Resource,
}

/// A suite ready to run: under its own bundle, and under each mutant of it.
#[derive(Debug)]
pub(in crate::policy) struct Run<'a> {
    pub(in crate::policy) ready: Vec<Ready<'a>>,
    pub(in crate::policy) offered: &'a [Offered],
    uses: &'a [UseCase],
    catalog: &'a Catalog,
}

impl Bundle {
    /// Runs the bundle's tests: those that fail, in the order of the files. Empty where all hold.
    #[must_use]
    pub fn prove(&self, catalog: &Catalog, folders: &Folders) -> Vec<Failure> {
        let (run, mut failures) = self.ready(catalog, folders);
        failures.extend(run.ready.iter().filter_map(|ready| self.check(ready)));
        failures.extend(run.offered.iter().filter_map(|offered| self.check_offered(offered, catalog)));
        failures.extend(self.suite.uses.iter().filter_map(|case| self.check_use(case)));
        failures.sort_by(|a, b| a.place.cmp(&b.place));
        failures
    }

    /// The suite over `catalog`, and the cases that no call can be made from.
    pub(in crate::policy) fn ready<'a>(&'a self, catalog: &'a Catalog, folders: &Folders) -> (Run<'a>, Vec<Failure>) {
        let (mut ready, mut failures) = (Vec::new(), Vec::new());
        for case in &self.suite.cases {
            match Ready::new(case, catalog, folders, self.named()) {
                Ok(one) => ready.push(one),
                Err(reason) => failures.push(case.failure("no call", reason)),
            }
        }
        (Run { ready, offered: &self.suite.offered, uses: &self.suite.uses, catalog }, failures)
    }

    fn check(&self, ready: &Ready<'_>) -> Option<Failure> {
        let (case, groups) = (ready.case, &*ready.case.who.groups);
        let answer = self.decide_among(&ready.question(), groups).answer;
        (!case.expect.meets(&answer)).then(|| {
            let why = self.why(&answer, || self.explain_among(&ready.question(), groups));
            case.failure(&told(&answer), why)
        })
    }

    fn check_offered(&self, offered: &Offered, catalog: &Catalog) -> Option<Failure> {
        let found = self.offer(&offered.who, catalog);
        (found != offered.tools).then(|| {
            let list = |tools: &BTreeSet<String>| tools.iter().cloned().collect::<Vec<_>>().join(", ");
            let lacking = |what: &str, from: &BTreeSet<String>, those: &BTreeSet<String>| {
                let names = list(&those.difference(from).cloned().collect());
                if names.is_empty() { String::new() } else { format!("{what} {names}") }
            };
            let parts =
                [lacking("too many:", &offered.tools, &found), lacking("lacks", &found, &offered.tools)];
            Failure {
                place: offered.place.clone(),
                name: "offered".to_owned(),
                asked: offered.who.to_string(),
                expected: format!("[{}]", list(&offered.tools)),
                got: format!("[{}]", list(&found)),
                why: parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "),
            }
        })
    }

    pub(in crate::policy) fn offer(&self, who: &Who, catalog: &Catalog) -> BTreeSet<String> {
        let (subject, session) = (who.subject(), who.session(catalog));
        let offered =
            |manifest: &&Arc<Manifest>| self.may_offer_among(&subject, &session, manifest, &who.groups);
        catalog.manifests().filter(offered).map(|manifest| manifest.name.clone()).collect()
    }

    /// What an answer comes from, with places: the determining policies, else the errors, else what is the
    /// nearest to a permit.
    pub(in crate::policy) fn why(&self, answer: &Answer, explain: impl FnOnce() -> Vec<Considered>) -> String {
        if let Answer::Deny { errors, .. } = answer
            && !errors.is_empty()
        {
            return errors.join("; ");
        }
        let placed = |id: &String| self.origin(id).map_or_else(|| id.clone(), |at| format!("{id} ({at})"));
        if !answer.policies().is_empty() {
            return answer.policies().iter().map(placed).collect::<Vec<_>>().join(", ");
        }
        let considered = explain();
        let nearest = crate::policy::decide::decision::nearest(&considered);
        nearest.map_or_else(
            || "no policy permits it".to_owned(),
            |one| {
                format!(
                    "no policy permits it; the nearest is {}, where {}",
                    placed(&one.policy),
                    one.failing()
                )
            },
        )
    }
}

impl Run<'_> {
    /// Whether `bundle` answers anything otherwise than the suite wants.
    pub(in crate::policy) fn notices(&self, bundle: &Bundle) -> bool {
        let is_met = |ready: &Ready<'_>| {
            ready.case.expect.meets(&bundle.decide_among(&ready.question(), &ready.case.who.groups).answer)
        };
        !self.ready.iter().all(is_met)
            || !self.uses.iter().all(|case| case.holds(bundle))
            || self.offered.iter().any(|offered| bundle.offer(&offered.who, self.catalog) != offered.tools)
    }
}

impl<'a> Ready<'a> {
    pub(in crate::policy) fn new(
        case: &'a Case,
        catalog: &Catalog,
        folders: &Folders,
        named: &[String],
    ) -> Result<Self, String> {
        let manifest = catalog.find(&case.tool).ok_or_else(|| format!("no tool is named `{}`", case.tool))?;
        if let Some(tool) = case.who.ceiling.iter().flatten().find(|tool| catalog.find(tool).is_none()) {
            return Err(format!("`ceiling`: no tool is named `{tool}`"));
        }
        let mut arguments = case.arguments.clone();
        let resource = case.resource(manifest, folders, named, &mut arguments)?;
        let proposed = ProposedCall {
            id: "case".to_owned(),
            tool: case.tool.clone(),
            arguments: Value::Object(arguments).to_string(),
        };
        let valid = catalog.validate(proposed, |_| true).map_err(|e| format!("arguments: {}", e.reason))?;
        Ok(Self {
            case,
            subject: case.who.subject(),
            session: case.who.session(catalog),
            manifest: manifest.clone(),
            arguments: valid.arguments().clone(),
            resource,
        })
    }

    pub(in crate::policy) fn question(&self) -> Question<'_> {
        let by = self.case.approver.as_deref();
        Question {
            subject: &self.subject,
            session: &self.session,
            manifest: &self.manifest,
            arguments: &self.arguments,
            resource: &self.resource,
            approved: match self.case.approved {
                Yes::No => Approved::No,
                Yes::Confirmed => Approved::Confirmed { by },
                Yes::Approved => Approved::Approved { by },
            },
            now_us: self.case.now_us,
            source_ip: self.case.source_ip,
            counts: self.case.counts,
        }
    }
}

impl Who {
    /// A key of the user, or a user of the host where the name starts with `os:`.
    pub(in crate::policy) fn subject(&self) -> Subject {
        let key = || KeyId::parse("testcase").map(|id| Source::Key { id, name: "case".to_owned() });
        let (source, user) = match self.user.as_deref().and_then(|user| user.strip_prefix("os:")) {
            Some(name) => (Some(Source::Os { name: name.to_owned() }), None),
            None => (key(), self.user.clone()),
        };
        let source = source.unwrap_or_else(|| Source::Os { name: "case".to_owned() });
        Subject { source, role: self.role, user }
    }

    pub(in crate::policy) fn session(&self, catalog: &Catalog) -> Session {
        Session {
            id: "case".to_owned(),
            ceiling: self
                .ceiling
                .clone()
                .unwrap_or_else(|| catalog.manifests().map(|manifest| manifest.name.clone()).collect()),
            taint: self.taint.clone(),
            tainted_by: Vec::new(),
            calls_used: self.calls_used,
            budget: self.budget,
            risk: self.risk,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role.as_str())?;
        if let Some(user) = &self.user {
            write!(f, " {user}")?;
        }
        if !self.taint.is_empty() {
            f.write_str(", tainted")?;
        }
        match &self.ceiling {
            None => Ok(()),
            Some(tools) => {
                write!(f, ", left [{}]", tools.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Expect {
    pub(in crate::policy) fn meets(&self, answer: &Answer) -> bool {
        let policies: BTreeSet<String> = answer.policies().iter().cloned().collect();
        self.word == answer.word()
            && self.policies.as_ref().is_none_or(|expect| *expect == policies)
            && self.asks.as_ref().is_none_or(|expect| *expect == groups_asked(answer))
    }

    /// The answer in a few words.
    pub(in crate::policy) fn told(&self) -> String {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut told = self.word.to_owned();
        if let Some(policies) = self.policies.as_ref().filter(|policies| !policies.is_empty()) {
            told.push_str(&format!(" by {}", list(policies)));
        }
        if let Some(groups) = &self.asks {
            told.push_str(&format!(" from {}", list(groups)));
        }
        told
    }
}

impl Case {
    /// Who asks for what, in a few words.
    pub(in crate::policy) fn asked(&self) -> String {
        let on = self.resource.as_ref().map_or_else(String::new, |resource| format!(" {resource}"));
        let yes = match self.approved {
            Yes::No => "",
            Yes::Confirmed => " (confirmed)",
            Yes::Approved => " (approved)",
        };
        format!("{} {}{on}{yes}", self.who, self.tool)
    }

    fn failure(&self, got: &str, why: String) -> Failure {
        let (place, name, asked) = (self.place.clone(), self.name.clone(), self.asked());
        Failure { place, name, asked, expected: self.expect.told(), got: got.to_owned(), why }
    }

    /// The object; the argument that names it is filled in where the case leaves it out.
    fn resource(
        &self,
        manifest: &Manifest,
        folders: &Folders,
        named: &[String],
        arguments: &mut serde_json::Map<String, Value>,
    ) -> Result<Resource, String> {
        let given = |argument: &str| {
            let words = self.resource.clone();
            words.or_else(|| self.arguments.get(argument).and_then(Value::as_str).map(str::to_owned))
        };
        let missing = || "it says no `resource`".to_owned();
        match &manifest.resource {
            Declared::Fixed { kind, id } => match &self.resource {
                Some(other) if other != id => Err(format!("`{}` has the resource `{id}`", self.tool)),
                _ => Ok(Resource::Fixed { kind: kind.clone(), id: id.clone() }),
            },
            Declared::Id { kind, argument } => {
                let id = given(argument).ok_or_else(missing)?;
                arguments.entry(argument.clone()).or_insert_with(|| Value::String(id.clone()));
                Ok(Resource::Id { kind: *kind, id })
            }
            Declared::Host { argument, form } => {
                let host = match self.arguments.get(argument).and_then(Value::as_str) {
                    Some(words) => form.read(words).map_err(|e| format!("`{argument}` {e}"))?,
                    None => HostForm::Host.read(&given(argument).ok_or_else(missing)?)?,
                };
                arguments.entry(argument.clone()).or_insert_with(|| Value::String(form.spell(&host)));
                Ok(Resource::host(host.as_str()))
            }
            Declared::Path { argument } => {
                let words = given(argument).ok_or_else(missing)?;
                let path = expand(&words, folders)?;
                arguments.entry(argument.clone()).or_insert_with(|| Value::String(path.clone()));
                Ok(place(&path, manifest, folders, named, &self.within))
            }
        }
    }
}

/// `@logs/syslog` with the folder's own path.
pub(in crate::policy) fn expand(words: &str, folders: &Folders) -> Result<String, String> {
    let path = match words.strip_prefix('@') {
        None => words.to_owned(),
        Some(rest) => {
            let (name, below) =
                rest.split_once('/').map_or((rest, None), |(name, below)| (name, Some(below)));
            let folder = folders.get(name).ok_or_else(|| format!("`[paths]` has no `{name}`"))?;
            let folder = folder.lexical.display();
            below.map_or_else(|| folder.to_string(), |below| format!("{folder}/{below}"))
        }
    };
    let is_plain = path == "/"
        || path
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(|name| !matches!(name, "" | "." | "..")));
    if is_plain {
        Ok(path)
    } else {
        Err(format!("`{words}` is no plain absolute path, nor below a name of `[paths]`"))
    }
}

/// Where prepare would find `path`, if no link but those on the way to a folder of `[paths]` is on it.
pub(in crate::policy) fn place(
    path: &str,
    manifest: &Manifest,
    folders: &Folders,
    named: &[String],
    within: &[String],
) -> Resource {
    let lexical = Path::new(path);
    let real = folders.values().find_map(|folder| {
        let below = lexical.strip_prefix(&folder.lexical).ok()?;
        Some(if below.as_os_str().is_empty() { folder.real.clone() } else { folder.real.join(below) })
    });
    let real = real.as_deref().unwrap_or(lexical);
    if !manifest.read.iter().any(|root| real.starts_with(root)) {
        return Resource::Outside { lexical: path.to_owned() };
    }
    let mut holds: BTreeSet<String> = within.iter().cloned().collect();
    holds.extend(named.iter().filter(|name| lexical.starts_with(name)).cloned());
    let is_in = |folder: &Folder| {
        real.starts_with(&folder.real) || within.iter().any(|name| Path::new(name) == folder.lexical)
    };
    holds.extend(folders.iter().filter(|(_, folder)| is_in(folder)).map(|(name, _)| format!("@{name}")));
    let canonical = real.to_str().unwrap_or(path).to_owned();
    Resource::Path { canonical, within: holds.into_iter().collect() }
}

fn groups_asked(answer: &Answer) -> BTreeSet<String> {
    let Answer::NeedsApproval { gates, .. } = answer else { return BTreeSet::new() };
    let groups = gates.iter().filter_map(|gate| match gate {
        Gate::Approval { group } => Some(group.clone()),
        Gate::Confirm => None,
    });
    groups.collect()
}

/// An answer in a word, with the groups that it asks.
pub(in crate::policy) fn told(answer: &Answer) -> String {
    let groups: Vec<String> = groups_asked(answer).into_iter().collect();
    match answer {
        Answer::NeedsApproval { .. } if groups.is_empty() => format!("{} from a person", answer.word()),
        Answer::NeedsApproval { .. } => format!("{} from {}", answer.word(), groups.join(", ")),
        Answer::Allow { .. } | Answer::Deny { .. } => answer.word().to_owned(),
    }
}
