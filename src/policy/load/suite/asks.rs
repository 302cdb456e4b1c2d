//! Cases about requests to language models, as they are written: `[[ask]]`.
//!
//! `role` and `sink` may be lists: the case then covers each combination.

use super::calls::{key_id, tainted};
use super::case::{AskCase, CasePlace, Expect, NOW_US, Who};
use super::words::{Many, RawGroups, check_combinations, each, moment};
use crate::auth::Role;
use crate::types::{Channel, ModelSink, limits};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RawAsk {
    name: String,
    role: Many,
    user: Option<String>,
    /// The id of the caller's key.
    key: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    taint: BTreeSet<String>,
    #[serde(default)]
    tainted: bool,
    #[serde(default)]
    seen: BTreeSet<String>,
    /// Such as `model:default`, which is also the default.
    sink: Option<Many>,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    host: String,
    reply_tokens_max: Option<u32>,
    #[serde(default)]
    input_tokens: u32,
    fallback_of: Option<String>,
    source_ip: Option<IpAddr>,
    channel: Option<Channel>,
    now: Option<String>,
    expect: String,
    policies: Option<Vec<String>>,
}

impl RawAsk {
    /// Each combination as its own case. The error names an unknown role, sink or answer.
    pub(in crate::policy) fn cases(
        &self,
        place: &CasePlace,
        groups: &RawGroups,
    ) -> Result<Vec<AskCase>, String> {
        let word = self.expected()?;
        let policies = self.policies.as_ref().map(|policies| policies.iter().cloned().collect());
        let expect = Expect { word, policies, asks: None };
        let now_us = self.now.as_deref().map(moment).transpose()?.unwrap_or(NOW_US);
        let sinks = self.sinks()?;
        check_combinations(&[self.role.words().len(), sinks.len()])?;
        let mut cases = Vec::new();
        for who in each(&self.role, &self.who()?, &self.groups, groups)? {
            cases.extend(sinks.iter().map(|sink| AskCase {
                place: place.clone(),
                name: self.name.clone(),
                who: who.clone(),
                sink: sink.clone(),
                input_tokens: u64::from(self.input_tokens),
                fallback_of: self.fallback_of.clone(),
                now_us,
                source_ip: self.source_ip,
                channel: self.channel.unwrap_or(Channel::Http),
                expect: expect.clone(),
            }));
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
            self.sinks().err(),
        ];
        found.into_iter().flatten().collect()
    }

    fn expected(&self) -> Result<&'static str, String> {
        let word = ["allow", "deny"].into_iter().find(|word| *word == self.expect);
        word.ok_or_else(|| {
            format!("unknown answer `{}` for a model, expected one of allow, deny", self.expect)
        })
    }

    fn sinks(&self) -> Result<Vec<ModelSink>, String> {
        let default = [format!("{}{}", ModelSink::PREFIX, ModelSink::DEFAULT)];
        let words = self.sink.as_ref().map_or(&default[..], Many::words);
        let sink = |word: &String| {
            let name = word.strip_prefix(ModelSink::PREFIX).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| format!("unknown sink `{word}`, expected `model:NAME`"))?;
            Ok(ModelSink {
                name: name.to_owned(),
                provider: self.provider.clone(),
                model: self.model.clone(),
                host: self.host.clone(),
                reply_tokens_max: self.reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
            })
        };
        if words.is_empty() {
            return Err("`sink` is empty, so the case asks nothing".to_owned());
        }
        words.iter().map(sink).collect()
    }

    fn who(&self) -> Result<Who, String> {
        Ok(Who {
            role: Role::Viewer,
            user: self.user.clone(),
            key: key_id(self.key.as_deref())?,
            groups: Arc::default(),
            ceiling: None,
            taint: tainted(&self.taint, self.tainted),
            seen: self.seen.clone(),
            calls_used: 0,
            budget: i64::from(limits::CALLS_PER_RUN_MAX),
            risk: 0,
        })
    }
}
