//! The parts of a policy file and of its cases that are about one tool: taken out and put back.
//!
//! What is about the tool alone becomes a comment whose lines begin with `off NAME:`, and comes
//! back from it. In a list of tools the name is taken out.

/// What a policy names a tool by.
pub(super) const ACTION: &str = "PAR::Action::\"";

/// A kind of file, by its comments and by what a part of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartsOf {
    /// A policy file: a part is a policy with its annotations.
    Policies,
    /// A file of cases: a part is a case.
    Cases,
}

impl PartsOf {
    fn mark(self, tool: &str) -> String {
        let comment = match self {
            Self::Policies => "//",
            Self::Cases => "#",
        };
        format!("{comment} off {tool}: ")
    }

    fn names(self, part: &str, tool: &str) -> bool {
        match self {
            Self::Policies => part.contains(&format!("{ACTION}{tool}\"")),
            Self::Cases => part.lines().any(|line| line.trim() == format!("tool = \"{tool}\"")),
        }
    }

    fn begins(self, line: &str) -> bool {
        match self {
            Self::Policies => ["@", "permit", "forbid"].iter().any(|start| line.starts_with(start)),
            Self::Cases => line.starts_with("[["),
        }
    }

    fn ends(self, line: &str) -> bool {
        match self {
            Self::Policies => line.trim_end().ends_with(';'),
            Self::Cases => line.trim().is_empty(),
        }
    }

    /// `text` without what is about `tool`.
    pub(super) fn without(self, text: &str, tool: &str) -> String {
        let less = match self {
            Self::Policies => without_item(text, &format!("{ACTION}{tool}\""), |_| true),
            Self::Cases => without_item(text, &format!("\"{tool}\""), |before| {
                let key = before.rsplit('\n').next().unwrap_or_default().trim();
                key == "tool =" || key == "tools ="
            }),
        };
        let (mut out, mut part) = (String::new(), String::new());
        let mark = self.mark(tool);
        let take = |out: &mut String, part: &mut String| {
            let is_meant = self.names(part, tool);
            for line in std::mem::take(part).split_inclusive('\n') {
                if is_meant && !line.trim().is_empty() {
                    out.push_str(&mark);
                }
                out.push_str(line);
            }
        };
        for line in less.split_inclusive('\n') {
            if !part.is_empty() || self.begins(line) {
                part.push_str(line);
                if self.ends(line) {
                    take(&mut out, &mut part);
                }
            } else {
                out.push_str(line);
            }
        }
        take(&mut out, &mut part);
        out
    }

    /// `text` with the parts that [`without`](Self::without) made comments of.
    pub(super) fn with(self, text: &str, tool: &str) -> String {
        let mark = self.mark(tool);
        text.split_inclusive('\n').map(|line| line.strip_prefix(&mark).unwrap_or(line)).collect()
    }
}

/// `text` without `item` in the lists that `is_meant` accepts by the text before them. An item that
/// is alone in its list stays.
fn without_item(text: &str, item: &str, is_meant: impl Fn(&str) -> bool) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(item) {
        let (before, after) = rest.split_at(at);
        let after = after.strip_prefix(item).unwrap_or_default();
        out.push_str(before);
        let list = out.rfind('[').map(|open| out.split_at(open).0.trim_end().to_owned());
        let is_in_list = list.is_some_and(|before| is_meant(&before));
        let (left, right) = (out.trim_end(), after.trim_start());
        rest = match (is_in_list, right.strip_prefix(','), left.strip_suffix(',')) {
            // What follows takes its place.
            (true, Some(right), _) if left.ends_with(['[', ',']) => right.trim_start(),
            (true, None, Some(left)) if right.starts_with(']') => {
                out.truncate(left.len());
                after
            }
            _ => {
                out.push_str(item);
                after
            }
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::{PartsOf, without_item};

    #[test]
    fn an_item_is_taken_out_of_a_list_of_tools_alone() {
        let check = |text: &str, expect: &str| {
            assert_eq!(without_item(text, "\"b\"", |before| before.ends_with("tool =")), expect);
        };
        check("tool = [\"a\", \"b\", \"c\"]", "tool = [\"a\", \"c\"]");
        check("tool = [\"b\", \"c\"]", "tool = [\"c\"]");
        check("tool = [\"a\", \"b\"]", "tool = [\"a\"]");
        check("tool = [\n    \"a\",\n    \"b\",\n]\n", "tool = [\n    \"a\",\n    ]\n");
        check("tool = [\"b\"]", "tool = [\"b\"]");
        check("tool = \"b\"", "tool = \"b\"");
        check("resource = [\"a\", \"b\"]", "resource = [\"a\", \"b\"]");
        let rule = "action in\n    [PAR::Action::\"a\",\n     PAR::Action::\"b\"],\n";
        let without = |item: &str| without_item(rule, item, |_| true);
        assert_eq!(without("PAR::Action::\"b\""), "action in\n    [PAR::Action::\"a\"],\n");
        assert_eq!(without("PAR::Action::\"a\""), "action in\n    [PAR::Action::\"b\"],\n");
    }

    #[test]
    fn what_is_about_one_tool_becomes_a_comment_and_comes_back() {
        let rules = "// Both.\n\n@id(\"x\")\npermit (\n    principal,\n    action == PAR::Action::\"a\",\n    resource\n);\n\n\
                     @id(\"y\")\npermit (principal, action == PAR::Action::\"b\", resource);\n";
        let less = PartsOf::Policies.without(rules, "a");
        assert!(
            less.contains("// off a: @id(\"x\")\n// off a: permit (\n") && less.contains("// off a: );\n"),
            "{less}"
        );
        assert!(less.contains("\n@id(\"y\")\npermit"), "{less}");
        assert_eq!(PartsOf::Policies.with(&less, "a"), rules);
        let cases = "# Cases.\n\n[[case]]\nname = \"a\"\ntool = \"a\"\nexpect = \"allow\"\n\n[[case]]\ntool = \"b\"\n";
        let less = PartsOf::Cases.without(cases, "a");
        assert!(
            less.contains("# off a: [[case]]\n# off a: name")
                && less.contains("\n\n[[case]]\ntool = \"b\"\n"),
            "{less}"
        );
        assert_eq!(PartsOf::Cases.with(&less, "a"), cases);
        assert_eq!(PartsOf::Cases.without(cases, "c"), cases);
    }
}
