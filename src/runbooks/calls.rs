//! Parses calls as a person writes them: `list_dir(path="/var/log", limit=20); health_check()`, or
//! shorter, `list_dir(/var/log)`.
//!
//! ```text
//! message   = *sep call *(1*sep call) *sep        sep = white space / ";" / ","
//! call      = name *ws "(" *ws [ argument *( *ws "," *ws argument ) ] *ws ")"
//! argument  = [ name *ws "=" *ws ] value
//! value     = JSON string / integer of 64 bits / "true" / "false" / word
//! word      = 1*( printable, but no white space and none of "'`,;=()[]{} )
//! name      = ( ALPHA / "_" ) *( ALPHA / DIGIT / "_" )
//! ```
//!
//! A word is a string. An argument without a name takes the name of the tool's required argument at
//! the same place.

/// One call: the tool's name and its arguments as the text of a JSON object.
///
/// Members keep the order in which they were written, and duplicates are kept: the catalog parses
/// strictly and refuses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCall {
    /// The name of the tool.
    pub tool: String,
    /// The text of a JSON object.
    pub arguments: String,
}

/// The names of arguments that were written without one.
pub trait ArgumentNames {
    /// The name of argument `at`, counted from 0, of `tool`.
    fn name(&self, tool: &str, at: usize) -> Option<String>;
}

/// The calls, if `message` consists of calls only and contains at least one.
pub fn written_calls(message: &str, names: &impl ArgumentNames) -> Option<Vec<WrittenCall>> {
    let mut rest = message.trim_start_matches(is_separator);
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (found, after) = call(rest, names)?;
        calls.push(found);
        rest = after.trim_start_matches(is_separator);
        if rest.len() == after.len() && !rest.is_empty() {
            return None;
        }
    }
    (!calls.is_empty()).then_some(calls)
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || c == ';' || c == ','
}

/// Each parser consumes its part at the start of `text` and returns the rest.
fn call<'a>(text: &'a str, names: &impl ArgumentNames) -> Option<(WrittenCall, &'a str)> {
    let (tool, rest) = name(text)?;
    let mut rest = rest.trim_start().strip_prefix('(')?.trim_start();
    let mut members: Vec<String> = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(')').filter(|_| members.is_empty()) {
            return Some((assemble(tool, &members), after));
        }
        let (given, value, after) = argument(rest)?;
        let name = given.map(str::to_owned).or_else(|| names.name(tool, members.len()))?;
        members.push(format!("{}:{value}", serde_json::to_string(&name).ok()?));
        rest = after.trim_start();
        if let Some(after) = rest.strip_prefix(')') {
            return Some((assemble(tool, &members), after));
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

fn assemble(tool: &str, members: &[String]) -> WrittenCall {
    WrittenCall { tool: tool.to_owned(), arguments: format!("{{{}}}", members.join(",")) }
}

/// An argument: its name, if one is written, and its value as JSON text.
fn argument(text: &str) -> Option<(Option<&str>, String, &str)> {
    let named = name(text).and_then(|(name, rest)| Some((name, rest.trim_start().strip_prefix('=')?)));
    let (name, rest) = named.map_or((None, text), |(name, rest)| (Some(name), rest.trim_start()));
    let (value, rest) = value(rest)?;
    Some((name, value, rest))
}

fn name(text: &str) -> Option<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (name, rest) = text.split_at_checked(text.find(|c| !is_word(c)).unwrap_or(text.len()))?;
    let first = name.chars().next()?;
    (!first.is_ascii_digit()).then_some((name, rest))
}

/// A value, as JSON text.
fn value(text: &str) -> Option<(String, &str)> {
    if text.starts_with('"') {
        return string(text);
    }
    let is_end = |c: char| c.is_whitespace() || c.is_control() || "\"'`,;=()[]{}".contains(c);
    let (word, rest) = text.split_at_checked(text.find(is_end).unwrap_or(text.len()))?;
    match word {
        "" => None,
        "true" | "false" => Some((word.to_owned(), rest)),
        _ => match word.parse::<i64>() {
            Ok(number) => Some((number.to_string(), rest)),
            Err(_) => Some((serde_json::to_string(word).ok()?, rest)),
        },
    }
}

/// A JSON string literal, written again so that it has only one spelling.
fn string(text: &str) -> Option<(String, &str)> {
    let mut literals = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let literal = literals.next()?.ok()?;
    let rest = text.get(literals.byte_offset()..)?;
    Some((serde_json::to_string(&literal).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::{ArgumentNames, WrittenCall};
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    /// Arguments without a name are called `p` and `q`; there is no third.
    struct TwoNames;

    impl ArgumentNames for TwoNames {
        fn name(&self, _: &str, at: usize) -> Option<String> {
            ["p", "q"].get(at).map(|name| (*name).to_owned())
        }
    }

    fn parse(message: &str) -> Option<Vec<WrittenCall>> {
        super::written_calls(message, &TwoNames)
    }

    fn written(message: &str) -> Option<Vec<String>> {
        let one = |call: WrittenCall| format!("{} {}", call.tool, call.arguments);
        parse(message).map(|calls| calls.into_iter().map(one).collect())
    }

    #[test]
    fn a_message_is_parsed_as_calls_only_if_all_of_it_is() {
        let check = |message: &str, expect: Option<&[&str]>| {
            let expect = expect.map(|calls| calls.iter().map(|call| (*call).to_owned()).collect());
            assert_eq!(written(message), expect, "{message}");
        };
        check("health_check()", Some(&["health_check {}"]));
        check(" a ( ) ", Some(&["a {}"]));
        check(r#"list_dir(path="/var/log")"#, Some(&[r#"list_dir {"path":"/var/log"}"#]));
        check(r#"a(x = -7 , y=true,z="q\"\u00e9\n)")"#, Some(&[r#"a {"x":-7,"y":true,"z":"q\"é\n)"}"#]));
        check("a() b();c(),\n\td();", Some(&["a {}", "b {}", "c {}", "d {}"]));
        check(r#"a(x=1,x=2)"#, Some(&[r#"a {"x":1,"x":2}"#]));
        check("a()b()", None);
        check("a(", None);
        check("a)", None);
        check("a", None);
        check("a(1)", Some(&[r#"a {"p":1}"#]));
        check("read_file(/etc/shadow)", Some(&[r#"read_file {"p":"/etc/shadow"}"#]));
        check("deploy(demo, 1.0.1)", Some(&[r#"deploy {"p":"demo","q":"1.0.1"}"#]));
        check("a(b, x=1)", Some(&[r#"a {"p":"b","x":1}"#]));
        check("a(1,2,3)", None);
        check("a(two words)", None);
        check("a(b=c=d)", None);
        check("a(`x`)", None);
        check("a(x=)", None);
        check("a(x=1,)", None);
        check("a(x=1.5)", Some(&[r#"a {"x":"1.5"}"#]));
        check("a(x=99999999999999999999)", Some(&[r#"a {"x":"99999999999999999999"}"#]));
        check("a(x=é\\)", Some(&[r#"a {"x":"é\\"}"#]));
        check("a(x=[1])", None);
        check("a(x='y')", None);
        check(r#"a(x="y)"#, None);
        check("a(x=\"raw\nnewline\")", None);
        check("1a()", None);
        check("é()", None);
        check("please run a()", None);
        check("a() and more", None);
        check(" ;, ", None);
        check("", None);
    }

    fn render(tool: &str, arguments: &Map<String, Value>) -> String {
        let arguments: Vec<String> =
            arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{tool}({})", arguments.join(", "))
    }

    fn a_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from)
        ]
    }

    fn a_call() -> impl Strategy<Value = (String, Map<String, Value>)> {
        let name = "[A-Za-z_][A-Za-z0-9_]{0,12}";
        (name, prop::collection::btree_map(name, a_value(), 0..5))
            .prop_map(|(tool, arguments)| (tool, arguments.into_iter().collect()))
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        #[test]
        fn what_is_rendered_is_parsed(
            calls in prop::collection::vec(a_call(), 1..5),
            separator in "[ \t\n;,]{1,3}",
        ) {
            let message: Vec<String> = calls.iter().map(|(tool, arguments)| render(tool, arguments)).collect();
            let found = parse(&message.join(&separator)).expect("calls");
            let found: Vec<(String, Map<String, Value>)> = found
                .into_iter()
                .map(|call| (call.tool, serde_json::from_str(&call.arguments).expect("an object")))
                .collect();
            prop_assert_eq!(found, calls);
        }

        #[test]
        fn what_is_parsed_is_an_object(message in r#"[a-z(]{1,3}[(][a-z=",0-9\\ )]{0,12}[)]"#) {
            for call in parse(&message).unwrap_or_default() {
                prop_assert!(serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok());
            }
        }
    }
}
