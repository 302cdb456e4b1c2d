//! The card of an approval: the question, what would run, why it needs a person, who may answer,
//! what the run had read, and last the words of the model.
//!
//! The members come from the view that the API returns. A request of an earlier version has fewer.

use super::format;
use super::page::block;
use super::visitor::Visitor;
use crate::gate::{Approval, describe_content};
use crate::policy::Power;
use crate::types::{limits, told_origins};
use maud::{Markup, html};
use serde_json::Value;

/// Maximum length of the resource's name, which may be a path, in characters.
const OBJECT_CHARS_MAX: usize = 1_000;
/// Maximum length of the command line, in characters.
const COMMAND_CHARS_MAX: usize = 2_000;

/// Maximum lengths of the arguments, and of the question and the model's words, in bytes. The page
/// stays below 100 KB, even where each character takes five.
const ARGUMENTS_BYTES_MAX: usize = 12 << 10;
const WORDS_BYTES_MAX: usize = 2 << 10;

/// Everything that is shown of an approval, apart from its answer.
pub(super) fn card(visitor: &Visitor, approval: &Approval, risk: Option<&str>) -> Markup {
    let all = serde_json::to_value(approval).unwrap_or_default();
    let shown = all.get("shown").unwrap_or(&Value::Null);
    html! {
        @if let Some(question) = shown.get("question").and_then(Value::as_str) {
            section.card aria-labelledby="question" {
                h2 #question { "The question" }
                (block(question, WORDS_BYTES_MAX, "The message"))
            }
        }
        (call(approval, &all, shown, risk))
        section.card aria-labelledby="why" {
            h2 #why { "Why it needs approval" }
            (why(visitor, approval, shown))
        }
        (sandbox(shown))
        (read(visitor, approval, shown))
        @if let Some(said) = &approval.said {
            section.card aria-labelledby="said" {
                h2 #said { "The model's words" }
                p { "The model's explanation, which is untrusted:" }
                (block(said, WORDS_BYTES_MAX, "The model's explanation"))
            }
        }
    }
}

fn call(approval: &Approval, all: &Value, shown: &Value, risk: Option<&str>) -> Markup {
    let on = approval.resource.get("id").and_then(Value::as_str).unwrap_or("–");
    let on = format::line(on, OBJECT_CHARS_MAX);
    let arguments = serde_json::to_string_pretty(&approval.arguments).unwrap_or_default();
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    let script = shown.get("script").filter(|script| script.is_object());
    let command = shown.get("command").and_then(Value::as_array);
    let command = command.map(|words| format::line(&json_words(words), COMMAND_CHARS_MAX));
    let is_cut = |words: &str, bytes_max| format::block(words, bytes_max).1.is_some();
    let is_cut = is_cut(&arguments, ARGUMENTS_BYTES_MAX)
        || text(shown, "question").is_some_and(|words| is_cut(&words, WORDS_BYTES_MAX))
        || script
            .and_then(|script| text(script, "text"))
            .is_some_and(|words| is_cut(&words, limits::BLOCK_BYTES_MAX));
    html! {
        section.card aria-labelledby="call" {
            h2 #call { "This exact call would run, once" }
            dl.facts {
                dt { "tool" } dd { code { (format::line(&approval.tool, 64)) }
                    @if let Some(summary) = text(shown, "summary") { " " (format::line(&summary, 300)) } }
                dt { "on" } dd { code { (on) } }
                @if let Some(content) = describe_content(&approval.resource) {
                    dt { "content" } dd { code { (format::line(&content, OBJECT_CHARS_MAX)) } }
                }
                @for path in left_out(approval) { dt { "leaves out" } dd { code { (format::line(path, 300)) } } }
                @if let Some(risk) = risk { dt { "risk" } dd { (format::line(risk, 16)) } }
                @if let Some(program) = text(shown, "program") {
                    dt { "program" } dd { code { (format::line(&program, OBJECT_CHARS_MAX)) } }
                }
                @if let Some(command) = &command { dt { "command" } dd { code { (command) } } }
                @if let Some(script) = script {
                    dt { "script" } dd { code { (format::line(&text(script, "name").unwrap_or_default(), 120)) }
                        " " code.muted { (format::line(&text(script, "sha256").unwrap_or_default(), 64)) } }
                }
                dt { "call hash" } dd { code { (approval.call_hash) } }
                @if let Some(card) = text(all, "card") { dt { "card" } dd { code { (format::line(&card, 64)) } } }
            }
            p { "Arguments, proposed by the model:" }
            (block(&arguments, ARGUMENTS_BYTES_MAX, "Arguments"))
            @if let Some(from) = shown.get("from").and_then(told_origins) {
                p { (format::line(&from, OBJECT_CHARS_MAX)) }
            }
            @if let Some(words) = script.and_then(|script| text(script, "text")) {
                details {
                    summary { "The script" }
                    (block(&words, limits::BLOCK_BYTES_MAX, "The script"))
                }
            }
            @if is_cut || [Some(&on), command.as_ref()].into_iter().flatten().any(|shown| shown.ends_with('…')) {
                p.notice { "This page does not show the whole card. Read all of it before you approve: "
                    code { "par approval show " (approval.id) } }
            }
        }
    }
}

/// A command line as a JSON array: a space in a word differs from one between words.
fn json_words(words: &[Value]) -> String {
    serde_json::to_string(words).unwrap_or_default()
}

fn why(visitor: &Visitor, approval: &Approval, shown: &Value) -> Markup {
    let policies = approval.why.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |policy: &Value, name: &str| {
        let value = match policy.get(name)? {
            Value::Array(items) => items.first()?.as_str(),
            value => value.as_str(),
        };
        value.map(|value| format::line(value, 200))
    };
    html! {
        ul.plain {
            @for policy in policies {
                li {
                    b { (text(policy, "policy").unwrap_or_else(|| format::line(&policy.to_string(), 200))) }
                    @if let Some(origin) = text(policy, "origin") { " " code.muted { (origin) } }
                    @if let Some(advice) = text(policy, "advice") { br; (advice) }
                }
            }
        }
        dl.facts {
            dt { "who can answer" } dd {
                @if approval.groups.is_empty() { "any user who may answer, including the requester" }
                @else { "another user in " (format::line(&approval.groups.join(", "), 120)) }
            }
            dt { "asked by" } dd { (format::line(&approval.requester.who, 64)) " " code.muted { (format::line(&approval.requester.principal, 40)) }
                @if let Some(channel) = text(shown, "channel") { " through " (channel) } }
            dt { "asked" } dd { (at(&approval.created)) }
            dt { "expires" } dd { (ends(approval)) }
            dt { "run" } dd { a href={ "/ui/approvals/" (approval.id) "/run" } { (approval.run) } }
            dt { "entry" } dd {
                @if visitor.may(Power::AuditRead) { a href={ "/ui/audit/" (approval.ledger) } { (approval.ledger) } }
                @else { (approval.ledger) }
            }
        }
    }
}

/// What the manifest grants to the call.
fn sandbox(shown: &Value) -> Markup {
    let members = shown.get("sandbox").and_then(Value::as_object);
    let words = |value: &Value| match value {
        Value::Array(items) => {
            let words = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            items.iter().map(words).collect::<Vec<_>>().join(", ")
        }
        Value::Object(members) => {
            let words = |(name, value): (&String, &Value)| format!("{name} {value}");
            members.iter().map(words).collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    html! {
        @if let Some(members) = members {
            section.card aria-labelledby="sandbox" {
                h2 #sandbox { "What the sandbox lets it do" }
                dl.facts {
                    @for (name, value) in members {
                        @let words = words(value);
                        dt { (format::line(name, 32)) }
                        dd { @if words.is_empty() { "nothing" } @else { (format::line(&words, OBJECT_CHARS_MAX)) } }
                    }
                }
            }
        }
    }
}

/// Paths in the resource that the call does not read, even when approved.
fn left_out(approval: &Approval) -> impl Iterator<Item = &str> {
    let listed = approval.resource.get("exclusions").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|one| one.get("canonical")?.as_str())
}

/// The untrusted data that the run had read before the call.
fn read(visitor: &Visitor, approval: &Approval, shown: &Value) -> Markup {
    let word =
        |one: &Value, name: &str| format::line(one.get(name).and_then(Value::as_str).unwrap_or("-"), 300);
    let number = |one: &Value, name: &str| one.get(name).and_then(Value::as_u64);
    let entry = |seq: u64| {
        html! { @if visitor.may(Power::AuditRead) { a href={ "/ui/audit/" (seq) } { (seq) } } @else { (seq) } }
    };
    let ranges = shown.get("taint").and_then(Value::as_array).filter(|ranges| !ranges.is_empty());
    let sources = ranges.unwrap_or(&approval.tainted_by);
    html! {
        @if !sources.is_empty() {
            section.card aria-labelledby="read" {
                h2 #read { "What the run had read" }
                p.notice.warn { "The run has read untrusted data:" }
                ul.plain {
                    @for one in sources {
                        li { code { (word(one, "resource")) } " by " (word(one, "tool"))
                            @if let Some(seq) = number(one, "result") { ", entry " (entry(seq)) }
                            @if let Some(first) = number(one, "first") { ", first entry " (entry(first)) }
                            @if let Some(newest) = number(one, "newest") { ", newest " (entry(newest)) }
                            @if let Some(count) = number(one, "count") { ", " @if count == 1 { "once" } @else { (count) " times" } }
                        }
                    }
                }
            }
        }
    }
}

/// An RFC 3339 time in the form of the other pages.
pub(super) fn at(time: &str) -> String {
    time.get(..19).unwrap_or(time).replace('T', " ")
}

/// When the approval expires; the script counts down while it waits.
pub(super) fn ends(item: &Approval) -> Markup {
    let is_open = item.state == crate::gate::State::Pending;
    html! { time datetime=(item.expires) data-until[is_open] { (at(&item.expires)) } }
}
