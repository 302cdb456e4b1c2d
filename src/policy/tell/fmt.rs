//! Formats policy files.

use crate::policy::load::error::{PolicyError, SourceFile, first_offset, help, located};
use crate::policy::load::parse::check_depth;
use cedar_policy_formatter::{Config, policies_str_to_pretty};

/// The layout of the shipped policies.
const LAYOUT: Config = Config { line_width: 100, indent_width: 4 };

/// The text of `source` in the standard layout, with its comments. Policies and their order do not
/// change: the formatter parses its own output and compares.
///
/// # Errors
///
/// The place where the file is not Cedar.
pub fn formatted(source: &SourceFile) -> Result<String, PolicyError> {
    check_depth(source)?;
    if let Err(errors) = source.text.parse::<cedar_policy::PolicySet>() {
        let error = errors.iter().next();
        let reason = error.map_or_else(|| errors.to_string(), ToString::to_string);
        let place = located(source, error.and_then(|e| first_offset(e)), reason);
        return Err(PolicyError { mend: error.and_then(|e| help(e)), ..place });
    }
    // A file without a policy consists of its comments.
    if !source.text.parse::<cedar_policy::PolicySet>().is_ok_and(|set| set.policies().next().is_some()) {
        return Ok(source.text.clone());
    }
    let (header, policies) = split_header(&source.text);
    let laid = policies_str_to_pretty(policies, &LAYOUT);
    laid.map(|laid| format!("{header}{laid}")).map_err(|e| located(source, None, format!("{e:?}")))
}

/// Splits off the comments at the top of the file that an empty line follows. The formatter would
/// attach them to the first policy.
fn split_header(text: &str) -> (&str, &str) {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        match line.trim() {
            "" if end > line.len() => return text.split_at(end),
            line if line.starts_with("//") => {}
            _ => break,
        }
    }
    ("", text)
}

#[cfg(test)]
mod tests {
    use super::formatted;
    use crate::policy::tests::source;

    fn check(text: &str, expect: &str) {
        let laid = formatted(&source("p.cedar", text)).expect("Cedar");
        assert_eq!(laid, expect);
        assert_eq!(formatted(&source("p.cedar", &laid)).expect("Cedar"), laid, "twice is once");
    }

    #[test]
    fn comments_stay_and_the_layout_is_one() {
        check("", "");
        check("// nothing yet\n", "// nothing yet\n");
        check(
            "// The file.\n\n// The rule.\n@id(\"a\")\npermit(principal in PAR::Role::\"operator\",action, // any\n\
             resource) when{context.call.calls_hour<3};// end\n\n\n@id(\"b\") forbid(principal,action,resource);\n// last\n",
            "// The file.\n\n// The rule.\n@id(\"a\")\npermit (\n    principal in PAR::Role::\"operator\",\n    \
             action, // any\n    resource\n)\nwhen { context.call.calls_hour < 3 }; // end\n\n@id(\"b\")\n\
             forbid (principal, action, resource);\n// last\n",
        );
    }

    #[test]
    fn text_that_is_not_cedar_is_refused_with_its_line() {
        let error =
            formatted(&source("p.cedar", "// a\npermit (principal action, resource);\n")).expect_err("none");
        assert_eq!((error.line, error.reason.as_str()), (Some(2), "unexpected token `action`"));
    }

    /// Cedar parses and prints by recursion: a text of a few kilobytes would end the process.
    #[test]
    fn deep_nesting_is_refused() {
        let nested = format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000));
        let text = format!("permit (principal, action, resource) when {{ {nested} }};\n");
        let error = formatted(&source("p.cedar", &text)).expect_err("too deep");
        assert!(error.reason.contains("brackets 32 deep"), "{error}");
    }

    /// The shipped files are formatted, so that `par policy fmt` shows an operator only the
    /// operator's own changes.
    #[test]
    fn the_shipped_policies_are_laid_out() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let mut count = 0;
        for item in std::fs::read_dir(folder).expect("folder") {
            let path = item.expect("entry").path();
            if path.extension().is_some_and(|ending| ending == "cedar") {
                let text = std::fs::read_to_string(&path).expect("policy");
                check(&text, &text);
                count += 1;
            }
        }
        assert!(count >= 3, "the policies were not found");
    }
}
