//! Counts of what was committed since the start: for metrics, never for a decision.

use crate::ledger::entry::{Header, Kind};
use crate::types::{Decision, RefusalClass, StepStatus};
use std::collections::BTreeMap;

/// Maximum number of distinct outcomes. Further ones are counted under the tool `other`.
const CALLS_MAX: usize = 1_024;

/// Counts since this process opened the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ended turns of runs, by status.
    pub runs: BTreeMap<String, u64>,
    /// Calls that were refused, wait for an approval, or have ended.
    pub calls: BTreeMap<CallOutcome, u64>,
    /// Refused calls by class.
    pub refusals: BTreeMap<RefusalClass, u64>,
    /// Requests to models, by the model's name and the decision.
    pub asks: BTreeMap<(String, String), u64>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallOutcome {
    /// The tool; `unknown` if the tool does not exist.
    pub tool: String,
    /// `allow`, `deny`, `needs_approval` or `invalid`.
    pub decision: String,
    /// The step's status.
    pub status: String,
}

impl Tally {
    /// Counts one committed entry. An allowed call counts when its result is committed. `model` is
    /// the name of the model that a `model.ask` is about.
    pub(super) fn count(&mut self, header: &Header, model: Option<&str>) {
        let word = |name: &str| header.str(name).unwrap_or("none").to_owned();
        if header.is(Kind::RunReply) {
            *self.runs.entry(word("status")).or_default() += 1;
        } else if header.is(Kind::CallResult) {
            self.count_call(header, Decision::Allow.to_string(), word("status"));
        } else if header.is(Kind::CallDecision) {
            match header.decision() {
                Some(Decision::Allow) => {}
                Some(Decision::NeedsApproval) => {
                    self.count_call(header, word("decision"), StepStatus::Waiting.to_string());
                }
                Some(decision @ (Decision::Deny | Decision::Invalid)) => {
                    self.count_call(header, word("decision"), StepStatus::Refused.to_string());
                    self.count_refusal(RefusalClass::of(decision, header.str("status")));
                }
                None => self.count_call(header, word("decision"), StepStatus::Refused.to_string()),
            }
        } else if header.is(Kind::ModelAsk) {
            // The names are those of the configuration: a few.
            let name = model.unwrap_or("unknown").to_owned();
            *self.asks.entry((name, word("decision"))).or_default() += 1;
        } else if header.is(Kind::ApprovalRefuse) {
            self.count_refusal(Some(RefusalClass::Person));
        }
    }

    fn count_refusal(&mut self, class: Option<RefusalClass>) {
        if let Some(class) = class {
            *self.refusals.entry(class).or_default() += 1;
        }
    }

    fn count_call(&mut self, header: &Header, decision: String, status: String) {
        // Without a manifest the name comes from the model and would make an unlimited number of
        // labels.
        let known = header.str("manifest").and(header.str("tool"));
        let mut outcome = CallOutcome { tool: known.unwrap_or("unknown").to_owned(), decision, status };
        if self.calls.len() >= CALLS_MAX && !self.calls.contains_key(&outcome) {
            outcome.tool = "other".to_owned();
        }
        *self.calls.entry(outcome).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::ledger::Header;

    fn count(tally: &mut Tally, fields: &str) {
        let digest = "0".repeat(64);
        let text = format!(
            r#"{{"t":"par/entry/1","log":"0","seq":1,"payload":"{digest}","payload_len":0,
                "boot":"b","wall_us":1,"mono_us":1,{fields}}}"#
        )
        .replace("DIGEST", &digest);
        tally.count(&Header::parse(text.as_bytes()).expect("header"), Some("local"));
    }

    #[test]
    fn calls_count_once_and_unknown_names_share_a_label() {
        let mut tally = Tally::default();
        for fields in [
            r#""kind":"call.decision","decision":"allow","tool":"t","manifest":"DIGEST""#,
            r#""kind":"call.result","status":"ok","tool":"t","manifest":"DIGEST""#,
            r#""kind":"call.decision","decision":"deny","tool":"t","manifest":"DIGEST""#,
            r#""kind":"call.decision","decision":"needs_approval","tool":"t","manifest":"DIGEST""#,
            r#""kind":"call.decision","decision":"invalid","tool":"made up 1""#,
            r#""kind":"call.decision","decision":"invalid","tool":"made up 2""#,
            r#""kind":"call.decision","decision":"deny","status":"capacity","tool":"t","manifest":"DIGEST""#,
            r#""kind":"approval.refuse","status":"expired""#,
            r#""kind":"run.reply","status":"done""#,
            r#""kind":"run.request""#,
            r#""kind":"model.ask","decision":"allow""#,
            r#""kind":"model.ask","decision":"allow""#,
            r#""kind":"model.ask","decision":"deny","status":"policy""#,
        ] {
            count(&mut tally, fields);
        }
        let calls: Vec<String> = tally
            .calls
            .iter()
            .map(|(call, n)| format!("{} {} {} {n}", call.tool, call.decision, call.status))
            .collect();
        let expect =
            ["t allow ok 1", "t deny refused 2", "t needs_approval waiting 1", "unknown invalid refused 2"];
        assert_eq!(calls, expect);
        let refusals = tally.refusals.iter().map(|(class, n)| format!("{class} {n}"));
        assert_eq!(refusals.collect::<Vec<_>>(), ["policy 1", "capacity 1", "schema 2", "person 1"]);
        let asks = tally.asks.iter().map(|((model, decision), n)| format!("{model} {decision} {n}"));
        assert_eq!(asks.collect::<Vec<_>>(), ["local allow 2", "local deny 1"]);
        assert_eq!(tally.runs.into_iter().collect::<Vec<_>>(), [("done".to_owned(), 1)]);
    }
}
