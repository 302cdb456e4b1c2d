//! Runs a bundle's own tests.

use super::folders::Folders;
use super::outcome::{CaseFailure, NO_CALL, described};
use super::ready::ReadyCase;
use crate::policy::load::bundle::Bundle;
use crate::policy::load::suite::case::{AskCase, Offered, PowerCase, Who};
use crate::policy::load::suite::file::Suite;
use crate::tools::{Catalog, Manifest};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A suite that is ready to run: against its own bundle, and against each mutant.
#[derive(Debug)]
pub(in crate::policy) struct ReadySuite<'a> {
    pub(in crate::policy) ready: Vec<ReadyCase<'a>>,
    pub(in crate::policy) offered: &'a [Offered],
    uses: &'a [PowerCase],
    asks: &'a [AskCase],
    catalog: &'a Catalog,
}

impl Bundle {
    /// Runs the bundle's tests. Returns those that fail, in the order of the files.
    #[must_use]
    pub fn prove(&self, catalog: &Catalog, folders: &Folders) -> Vec<CaseFailure> {
        let (run, mut failures) = self.ready(catalog, folders);
        failures.extend(run.ready.iter().filter_map(|ready| self.check(ready)));
        failures.extend(run.offered.iter().filter_map(|offered| self.check_offered(offered, catalog)));
        failures.extend(self.suite.uses.iter().filter_map(|case| self.check_use(case)));
        failures.extend(self.suite.asks.iter().filter_map(|case| self.check_ask(case, catalog)));
        failures.sort_by(|a, b| a.place.cmp(&b.place));
        failures
    }

    /// The suite over `catalog`, and the cases that do not make a valid call.
    pub(in crate::policy) fn ready<'a>(
        &'a self,
        catalog: &'a Catalog,
        folders: &Folders,
    ) -> (ReadySuite<'a>, Vec<CaseFailure>) {
        let (mut ready, mut failures) = (Vec::new(), Vec::new());
        for case in &self.suite.cases {
            match ReadyCase::new(case, catalog, folders, self.named()) {
                Ok(one) => ready.push(one),
                Err(reason) => failures.push(case.failure(NO_CALL, reason)),
            }
        }
        let Suite { offered, uses, asks, .. } = &self.suite;
        (ReadySuite { ready, offered, uses, asks, catalog }, failures)
    }

    fn check(&self, ready: &ReadyCase<'_>) -> Option<CaseFailure> {
        let (case, groups) = (ready.case, &*ready.case.who.groups);
        let answer = self.decide_among(&ready.question(), groups).answer;
        (!case.expect.matches(&answer)).then(|| {
            let why = self.why(&answer, || self.explain_among(&ready.question(), groups));
            case.failure(&described(&answer), why)
        })
    }

    fn check_offered(&self, offered: &Offered, catalog: &Catalog) -> Option<CaseFailure> {
        let found = self.offer(&offered.who, catalog);
        (found != offered.tools).then(|| {
            let list = |tools: &BTreeSet<String>| tools.iter().cloned().collect::<Vec<_>>().join(", ");
            let missing_from = |what: &str, from: &BTreeSet<String>, those: &BTreeSet<String>| {
                let names = list(&those.difference(from).cloned().collect());
                if names.is_empty() { String::new() } else { format!("{what} {names}") }
            };
            let parts = [
                missing_from("too many:", &offered.tools, &found),
                missing_from("missing:", &found, &offered.tools),
            ];
            CaseFailure {
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
}

impl ReadySuite<'_> {
    /// Whether `bundle` answers any case differently than the suite expects.
    pub(in crate::policy) fn notices(&self, bundle: &Bundle) -> bool {
        let is_met = |ready: &ReadyCase<'_>| {
            ready.case.expect.matches(&bundle.decide_among(&ready.question(), &ready.case.who.groups).answer)
        };
        !self.ready.iter().all(is_met)
            || !self.uses.iter().all(|case| case.holds(bundle))
            || !self.asks.iter().all(|case| case.holds(bundle, self.catalog))
            || self.offered.iter().any(|offered| bundle.offer(&offered.who, self.catalog) != offered.tools)
    }
}
