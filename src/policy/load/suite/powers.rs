//! Cases about powers of the API, as they are written: `[[use]]`.
//!
//! `role`, `power`, `owner` and `via` may be lists: the case then covers each combination.

use super::case::{CasePlace, Expect, NOW_US, PowerCase, Who};
use super::words::{Many, RawGroups, check_combinations, each, moment};
use crate::policy::power::{HeldOver, Power};
use crate::policy::uses::{Door, Ran, Via};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RawUse {
    name: String,
    role: Many,
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    power: Many,
    /// `self`, `other` or the name of a caller; only for powers over a run or an approval.
    owner: Option<Many>,
    via: Option<Many>,
    source_ip: Option<IpAddr>,
    now: Option<String>,
    expires: Option<String>,
    /// Only for the power `run`; 0 by default.
    #[serde(default)]
    runs_hour: u32,
    #[serde(default)]
    bytes_hour: u64,
    expect: String,
    policies: Option<Vec<String>>,
}

impl RawUse {
    /// Each combination as its own case. The error names an unknown role, power or door.
    pub(in crate::policy) fn cases(
        &self,
        place: &CasePlace,
        groups: &RawGroups,
    ) -> Result<Vec<PowerCase>, String> {
        let word = self.expected()?;
        let policies = self.policies.as_ref().map(|policies| policies.iter().cloned().collect());
        let expect = Expect { word, policies, asks: None };
        let now_us = self.now.as_deref().map(moment).transpose()?.unwrap_or(NOW_US);
        let expires_us = self.expires.as_deref().map(moment).transpose()?;
        let who = self.who();
        let bytes_hour =
            i64::try_from(self.bytes_hour).map_err(|_| "`bytes_hour` is too large".to_owned())?;
        let ran = Ran { runs_hour: i64::from(self.runs_hour), bytes_hour };
        if ran != Ran::default() && self.power.words() != [Power::Run.as_str()] {
            return Err("`runs_hour` and `bytes_hour` apply only to the power `run`".to_owned());
        }
        let length = |words: &Option<Many>| words.as_ref().map_or(1, |words| words.words().len().max(1));
        let (owners, doors) = (length(&self.owner), length(&self.via));
        check_combinations(&[self.role.words().len(), self.power.words().len(), owners, doors])?;
        let mut cases = Vec::new();
        for who in each(&self.role, &who, &self.groups, groups)? {
            for power in self.power.words() {
                let (power, owners) = (power_of(power)?, self.owners(power_of(power)?)?);
                for (owner, via) in owners.iter().flat_map(|owner| self.doors().map(move |via| (owner, via)))
                {
                    cases.push(PowerCase {
                        place: place.clone(),
                        name: self.name.clone(),
                        who: who.clone(),
                        power,
                        owner: owner.clone(),
                        door: Door { via: via?, source_ip: self.source_ip },
                        expires_us,
                        now_us,
                        ran,
                        expect: expect.clone(),
                    });
                }
            }
        }
        Ok(cases)
    }

    /// Everything that is wrong with the case and can be said of one member alone.
    pub(in crate::policy) fn faults(&self, groups: &RawGroups) -> Vec<String> {
        let of_power = |word: &String| power_of(word).and_then(|power| self.owners(power)).err();
        let one = [
            each(&self.role, &self.who(), &self.groups, groups).err(),
            self.expected().err(),
            self.now.as_deref().and_then(|now| moment(now).err()),
            self.expires.as_deref().and_then(|at| moment(at).err()),
        ];
        let powers = self.power.words().iter().filter_map(of_power);
        one.into_iter().flatten().chain(powers).chain(self.doors().filter_map(Result::err)).collect()
    }

    fn expected(&self) -> Result<&'static str, String> {
        let word = ["allow", "deny"].into_iter().find(|word| *word == self.expect);
        word.ok_or_else(|| {
            format!("unknown answer `{}` for a power, expected one of allow, deny", self.expect)
        })
    }

    fn who(&self) -> Who {
        Who {
            role: crate::auth::Role::Viewer,
            user: self.user.clone(),
            key: None,
            groups: Arc::default(),
            ceiling: None,
            taint: BTreeSet::new(),
            seen: BTreeSet::new(),
            calls_used: 0,
            budget: 0,
            risk: 0,
        }
    }

    fn owners(&self, power: Power) -> Result<Vec<Option<String>>, String> {
        let name = power.as_str();
        match (&self.owner, power.over()) {
            (None, HeldOver::Server) => Ok(vec![None]),
            (Some(_), HeldOver::Server) => {
                Err(format!("`{name}` is a power over the server, which has no `owner`"))
            }
            (None, _) => Err(format!("`{name}` needs an `owner`, such as \"self\" or \"other\"")),
            (Some(owners), _) => Ok(owners.words().iter().cloned().map(Some).collect()),
        }
    }

    fn doors(&self) -> impl Iterator<Item = Result<Via, String>> {
        let words = self.via.as_ref().map_or_else(Vec::new, |via| via.words().to_vec());
        let words = if words.is_empty() { vec!["http".to_owned()] } else { words };
        words.into_iter().map(|word| {
            let doors = || Via::ALL.map(Via::as_str).join(", ");
            Via::parse(&word).ok_or_else(|| format!("unknown door `{word}`, expected one of {}", doors()))
        })
    }
}

fn power_of(word: &str) -> Result<Power, String> {
    let powers = || Power::ALL.map(Power::as_str).join(", ");
    Power::parse(word).ok_or_else(|| format!("unknown power `{word}`, expected one of {}", powers()))
}
