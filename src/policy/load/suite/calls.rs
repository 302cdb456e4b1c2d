//! Cases of calls and lists of tools, as they are written: `[[case]]`, `[[offered]]`.
//!
//! `role`, `tool` and `resource` may be lists: the case then covers each combination.

use super::case::{Case, CasePlace, Expect, NOW_US, Offered, Who, Yes};
use super::words::{Many, RawGroups, check_combinations, each, moment};
use crate::auth::Role;
use crate::policy::request::question::{Counts, UNTRUSTED};
use crate::provenance::ArgumentOrigins;
use crate::types::{Channel, FoundIn, KeyId, limits};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RawCase {
    name: String,
    role: Many,
    user: Option<String>,
    key: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    ceiling: Option<BTreeSet<String>>,
    #[serde(default)]
    taint: BTreeSet<String>,
    #[serde(default)]
    tainted: bool,
    #[serde(default)]
    seen: BTreeSet<String>,
    #[serde(default)]
    calls_used: i64,
    budget: Option<i64>,
    #[serde(default)]
    risk: i64,
    tool: Many,
    #[serde(default)]
    arguments: Map<String, Value>,
    resource: Option<Many>,
    #[serde(default)]
    within: Vec<String>,
    #[serde(default)]
    approved: Yes,
    approver: Option<String>,
    source_ip: Option<String>,
    channel: Option<Channel>,
    now: Option<String>,
    #[serde(default)]
    calls_hour: i64,
    #[serde(default)]
    failures_hour: i64,
    failed_ago_s: Option<i64>,
    /// Where sensitive arguments were found; one that is left out is not known.
    #[serde(default)]
    from: BTreeMap<String, FoundIn>,
    #[serde(default)]
    chosen: bool,
    #[serde(default)]
    halted: bool,
    expect: String,
    policies: Option<Vec<String>>,
    asks: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RawOffered {
    role: Many,
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    ceiling: Option<BTreeSet<String>>,
    #[serde(default)]
    taint: BTreeSet<String>,
    #[serde(default)]
    tainted: bool,
    #[serde(default)]
    seen: BTreeSet<String>,
    #[serde(default)]
    calls_used: i64,
    budget: Option<i64>,
    #[serde(default)]
    risk: i64,
    tools: Vec<String>,
}

impl RawCase {
    /// Each combination as its own case. The error names an unknown role or answer, or a value that
    /// is not a time or an address.
    pub(in crate::policy) fn cases(
        &self,
        place: &CasePlace,
        groups: &RawGroups,
    ) -> Result<Vec<Case>, String> {
        let expect = self.expected()?;
        let now_us = self.now.as_deref().map(moment).transpose()?.unwrap_or(NOW_US);
        let source_ip = self.source_ip()?;
        let counts = Counts {
            calls_hour: self.calls_hour,
            failures_hour: self.failures_hour,
            failed_ago_s: self.failed_ago_s,
        };
        let resources: Vec<Option<String>> = match &self.resource {
            None => vec![None],
            Some(many) => many.words().iter().cloned().map(Some).collect(),
        };
        check_combinations(&[self.role.words().len(), self.tool.words().len(), resources.len()])?;
        let combined = || {
            self.tool.words().iter().flat_map(|tool| resources.iter().map(move |resource| (tool, resource)))
        };
        let mut cases = Vec::new();
        for who in each(&self.role, &self.who()?, &self.groups, groups)? {
            for (tool, resource) in combined() {
                cases.push(Case {
                    place: place.clone(),
                    name: self.name.clone(),
                    who: who.clone(),
                    tool: tool.clone(),
                    arguments: self.arguments.clone(),
                    resource: resource.clone(),
                    within: self.within.clone(),
                    approved: self.approved,
                    approver: self.approver.clone(),
                    now_us,
                    source_ip,
                    channel: self.channel.unwrap_or(Channel::Http),
                    counts,
                    origins: ArgumentOrigins::given(self.from.clone()),
                    is_chosen: self.chosen,
                    is_halted: self.halted,
                    expect: expect.clone(),
                });
            }
        }
        Ok(cases)
    }

    /// Everything that is wrong with the case and can be said of one member alone.
    pub(in crate::policy) fn faults(&self, groups: &RawGroups) -> Vec<String> {
        let who = self.who().and_then(|who| each(&self.role, &who, &self.groups, groups));
        let found = [
            who.err(),
            self.expected().err(),
            self.now.as_deref().and_then(|now| moment(now).err()),
            self.source_ip().err(),
        ];
        found.into_iter().flatten().collect()
    }

    fn expected(&self) -> Result<Expect, String> {
        let word = ["allow", "deny", "needs_approval"].into_iter().find(|word| *word == self.expect);
        let word = word.ok_or_else(|| {
            format!("unknown answer `{}`, expected one of allow, deny, needs_approval", self.expect)
        })?;
        if self.asks.is_some() && word != "needs_approval" {
            return Err("`asks` needs `expect = \"needs_approval\"`".to_owned());
        }
        let set = |words: &Option<Vec<String>>| words.as_ref().map(|words| words.iter().cloned().collect());
        Ok(Expect { word, policies: set(&self.policies), asks: set(&self.asks) })
    }

    fn source_ip(&self) -> Result<Option<IpAddr>, String> {
        let parse =
            |words: &str| words.parse().map_err(|_| format!("`source_ip`: `{words}` is not an IP address"));
        self.source_ip.as_deref().map(parse).transpose()
    }

    fn who(&self) -> Result<Who, String> {
        Ok(Who {
            role: Role::Viewer,
            user: self.user.clone(),
            key: key_id(self.key.as_deref())?,
            groups: Arc::default(),
            ceiling: self.ceiling.clone(),
            taint: tainted(&self.taint, self.tainted),
            seen: self.seen.clone(),
            calls_used: self.calls_used,
            budget: self.budget.unwrap_or(i64::from(limits::CALLS_PER_RUN_MAX)),
            risk: self.risk,
        })
    }
}

impl RawOffered {
    /// One list for each role.
    pub(in crate::policy) fn lists(
        &self,
        place: &CasePlace,
        groups: &RawGroups,
    ) -> Result<Vec<Offered>, String> {
        let tools: BTreeSet<String> = self.tools.iter().cloned().collect();
        let each = each(&self.role, &self.who(), &self.groups, groups)?.into_iter();
        Ok(each.map(|who| Offered { place: place.clone(), who, tools: tools.clone() }).collect())
    }

    fn who(&self) -> Who {
        Who {
            role: Role::Viewer,
            user: self.user.clone(),
            key: None,
            groups: Arc::default(),
            ceiling: self.ceiling.clone(),
            taint: tainted(&self.taint, self.tainted),
            seen: self.seen.clone(),
            calls_used: self.calls_used,
            budget: self.budget.unwrap_or(i64::from(limits::CALLS_PER_RUN_MAX)),
            risk: self.risk,
        }
    }
}

/// The key that a case names by its id.
pub(super) fn key_id(word: Option<&str>) -> Result<Option<KeyId>, String> {
    let parse = |word| KeyId::parse(word).ok_or_else(|| format!("`key`: `{word}` is not the id of a key"));
    word.map(parse).transpose()
}

/// The labels of a session: `tainted = true` is `taint = ["untrusted"]`.
pub(super) fn tainted(taint: &BTreeSet<String>, is_tainted: bool) -> BTreeSet<String> {
    taint.iter().cloned().chain(is_tainted.then(|| UNTRUSTED.to_owned())).collect()
}
