//! Rules that can never apply, comparisons with one outcome, and hints for what Cedar refuses.

use super::{catalog, load, shipped, source, top, try_load};
use crate::policy::{Bundle, SourceFile};

fn rule(action: &str, condition: &str) -> String {
    format!(
        "@id(\"x\")\nforbid(principal, action == PAR::Action::\"{action}\", resource)\nwhen {{\n{condition} }};"
    )
}

/// Refused at the line of the comparison, for this reason, with this hint.
fn refused(text: &str, line: usize, reason: &str, mend: &str) {
    let errors = try_load(text).expect_err(text);
    let [error] = errors.as_slice() else { panic!("{text}\n{errors:?}") };
    assert_eq!(error.line, Some(line), "{text}\n{error}");
    assert!(error.reason.contains(reason), "{text}\n{error}");
    assert!(error.mend.as_deref().is_some_and(|told| told.contains(mend)), "{text}\n{error}");
}

#[test]
fn a_comparison_that_is_never_true_is_refused() {
    let list = |condition: &str| rule("list_dir", condition);
    // A number outside what the manifest allows.
    refused(
        &list("context.input has limit && context.input.limit > 1000"),
        4,
        "is never true",
        "from 1 to 1000",
    );
    refused(
        &list("context.input has limit &&\n1 > context.input.limit"),
        5,
        "is never true",
        "from 1 to 1000",
    );
    refused(
        &list("context.input has limit && context.input.limit == 0"),
        4,
        "is never true",
        "from 1 to 1000",
    );
    refused(&list("context.call.calls_hour < 0"), 4, "is never true", "never less than 0");
    // A word, and a pattern.
    let state = |test: &str| rule("service_list", &format!("context.input has state && {test}"));
    refused(&state("context.input.state == \"faild\""), 4, "is never true", "did you mean `failed`?");
    refused(
        &state("[\"faild\", \"activ\"].contains(context.input.state)"),
        4,
        "is never true",
        "its values are",
    );
    refused(&state("context.input.state like \"fald*\""), 4, "is never true", "its values are");
    refused(&rule("read_file", "context.from_all like \"mes\""), 4, "is never true", "its values are");
    // An id that no call has.
    let scope = |resource: &str| {
        format!(
            "@id(\"x\")\nforbid(principal, action == PAR::Action::\"health_check\",\nresource == {resource});"
        )
    };
    refused(&scope("PAR::Host::\"localhots\""), 3, "is never true", "did you mean `localhost`?");
    let project = rule("deploy", "resource == PAR::Project::\"My Shop\"");
    refused(&project, 4, "is never true", "par tool show");
    refused(&rule("deploy", "context.input.project == \"My Shop\""), 4, "is never true", "par tool show");
    refused(&rule("read_file", "principal.owner == \"ops\""), 4, "is never true", "par tool show");
}

#[test]
fn a_rule_whose_conditions_exclude_each_other_is_refused() {
    for condition in [
        "context.call.calls_hour > 5 && context.call.calls_hour < 3",
        "context.channel == \"http\" && context.channel == \"cli\"",
        "principal.calls_used > 3 && !(principal.calls_used > 3)",
        "principal.calls_used < principal.budget && principal.budget <= principal.calls_used",
        "(context.call.halted || context.plan) && !context.call.halted && !context.plan",
        "if context.plan then context.channel == \"cli\" && context.channel == \"mcp\" else false",
        "resource in PAR::Path::\"/var/log\" && !(resource in PAR::Path::\"/var/log\")",
    ] {
        refused(&rule("list_dir", condition), 4, "never applies", "par policy explain");
    }
    let both = rule("list_dir", "context.plan").replace("};", "} unless { context.plan };");
    refused(&both, 4, "never applies", "par policy explain");
    // Each can be true, if only for one of the tools, or in a way that is not looked into.
    for condition in [
        "context.call.calls_hour > 5 && context.call.calls_hour < 7",
        "context.channel == \"http\" || context.channel == \"cli\"",
        "principal.taint.contains(\"untrusted\") && !context.plan",
        "principal.budget <= principal.calls_used && principal.calls_used <= principal.budget",
        "context.call.now < datetime(\"2026-01-01\") && context.call.now > datetime(\"2025-01-01\")",
    ] {
        load(&rule("list_dir", condition));
    }
    let several = "@id(\"x\") forbid(principal, action in PAR::Action::\"read\", resource) when { action == \
                   PAR::Action::\"list_dir\" && context.call.calls_hour > 5 };";
    load(several);
}

#[test]
fn an_approval_that_lifts_nothing_is_refused() {
    let gate = |annotation: &str, rest: &str| {
        format!(
            "@id(\"x\")\n{annotation}\nforbid(principal, action == PAR::Action::\"deploy\", resource)\n{rest};"
        )
    };
    let approval = "@require_approval(\"release\")";
    let confirm = "@require_confirm(\"\")";
    for (annotation, rest) in [
        (approval, ""),
        (confirm, ""),
        (approval, "when { context.call.calls_hour > 3 }"),
        (approval, "unless { context.call.approved == \"confirmed\" }"),
        (approval, "when { context.call.approved == \"no\" || context.call.calls_hour >= 0 }"),
        (confirm, "when { context.call.approved != \"no\" }"),
    ] {
        refused(&gate(annotation, rest), 2, "no answer allows", "let an answer lift the rule");
    }
    for (annotation, rest) in [
        (approval, "unless { context.call.approved == \"approved\" }"),
        (approval, "when { context.call.approved != \"approved\" && context.call.calls_hour > 3 }"),
        (approval, "unless { context.call has approver && context.call.approver in PAR::Group::\"night\" }"),
        (
            confirm,
            "unless { context.call.approved == \"confirmed\" || context.call.approved == \"approved\" }",
        ),
        (confirm, "when { context.call.approved == \"no\" }"),
        (confirm, "unless { [\"confirmed\", \"approved\"].contains(context.call.approved) }"),
    ] {
        load(&gate(annotation, rest));
    }
}

#[test]
fn what_is_always_true_is_told_and_loads() {
    let check = |condition: &str, told: &str| {
        let bundle = load(&rule("list_dir", condition));
        let found = bundle.constants(catalog());
        let [note] = found.as_slice() else { panic!("{condition}: {found:?}") };
        assert_eq!(note.line, Some(4), "{condition}: {note}");
        assert!(note.reason.contains(told), "{condition}: {note}");
    };
    check("context.call.calls_hour >= 0 && context.plan", "is always true");
    check("context.input has limit && context.input.limit <= 1000", "is always true");
    check("context.plan || !context.plan", "the condition is always true");
    check("true", "the condition is always true");
    for quiet in ["context.plan", "context.call.calls_hour > 0", "resource.labels.contains(\"secret\")"] {
        let quiet = rule("list_dir", quiet);
        let bundle = Bundle::load(&[source("p.cedar", &quiet)], catalog(), &super::names()).expect("bundle");
        assert!(bundle.constants(catalog()).is_empty(), "{quiet}");
    }
}

/// The shipped rules pass without a note.
#[test]
fn no_shipped_rule_is_called_dead() {
    let mut sources: Vec<SourceFile> = Vec::new();
    for entry in std::fs::read_dir(top().join("policies")).expect("policies") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|ending| ending == "cedar") {
            sources
                .push(source(&path.display().to_string(), &std::fs::read_to_string(&path).expect("policy")));
        }
    }
    assert!(sources.len() > shipped().len());
    let bundle = Bundle::load(&sources, catalog(), &super::names()).expect("bundle");
    assert_eq!(bundle.constants(catalog()), []);
}
