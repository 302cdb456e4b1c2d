//! The command line of a program: what the launcher starts, and what a person is shown before.

use super::words::{Element, Program, ResourceSpec};
use serde_json::Value;

impl Program {
    /// The argument array of a call with these arguments: no shell, no splitting, one element per
    /// argument. `canonical` is the path of the call's object, `script` the name by which the
    /// program opens its script.
    ///
    /// # Errors
    ///
    /// No program can be started with these arguments; the reason.
    pub fn words(
        &self,
        script: Option<String>,
        resource: &ResourceSpec,
        values: &Value,
        canonical: Option<&str>,
    ) -> Result<Vec<String>, String> {
        let path = self.path.to_str().ok_or("the program's path is not UTF-8")?;
        let mut words = vec![path.to_owned()];
        words.extend(script);
        for element in &self.args {
            match element {
                Element::Literal(word) => words.push(word.clone()),
                Element::Argument(name) => {
                    let word = argument(name, resource, values, canonical)?;
                    // It would be read as an option.
                    if word.as_ref().is_some_and(|word| word.starts_with('-')) {
                        return Err(format!("`{name}` starts with `-`"));
                    }
                    words.extend(word);
                }
                Element::Setting(option, name) => {
                    let word = argument(name, resource, values, canonical)?;
                    words.extend(word.map(|word| format!("{option}={word}")));
                }
            }
        }
        Ok(words)
    }
}

/// `None` if an optional argument is absent.
fn argument(
    name: &str,
    resource: &ResourceSpec,
    values: &Value,
    canonical: Option<&str>,
) -> Result<Option<String>, String> {
    if matches!(resource, ResourceSpec::Path { argument } if argument == name) {
        return canonical.map(|path| Some(path.to_owned())).ok_or_else(|| format!("`{name}` has no object"));
    }
    match values.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) => Ok(Some(word.clone())),
        Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
        Some(_) => Err(format!("`{name}` is neither text nor an integer")),
    }
    .and_then(|word| match word {
        Some(word) if word.contains('\0') => Err(format!("`{name}` holds a NUL byte")),
        word => Ok(word),
    })
}

#[cfg(test)]
mod tests {
    use super::{Element, Program, ResourceSpec};
    use crate::tools::Runtime;
    use serde_json::{Value, json};

    fn check(values: Value, expect: Result<&[&str], &str>) {
        let argument = |name: &str| Element::Argument(name.to_owned());
        let args = vec![Element::Literal("-n".to_owned()), argument("n"), argument("word"), argument("path")];
        let (runtime, exec) = (Runtime::Static, Vec::new());
        let program = Program { path: "/bin/x".into(), args, runtime, script: None, exec };
        let resource = ResourceSpec::Path { argument: "path".to_owned() };
        let got = program.words(None, &resource, &values, Some("/real"));
        let expect =
            expect.map(|words| words.iter().map(|w| (*w).to_owned()).collect()).map_err(str::to_owned);
        assert_eq!(got, expect, "{values}");
    }

    #[test]
    fn one_element_per_argument_and_no_flags() {
        check(json!({"n": 5, "path": "/raw"}), Ok(&["/bin/x", "-n", "5", "/real"]));
        check(json!({"n": 0, "word": "a b;$(c)"}), Ok(&["/bin/x", "-n", "0", "a b;$(c)", "/real"]));
        check(json!({"n": -5}), Err("`n` starts with `-`"));
        check(json!({"n": 5, "word": "--output=/x"}), Err("`word` starts with `-`"));
        check(json!({"n": 5, "word": "a\u{0}b"}), Err("`word` holds a NUL byte"));
        check(json!({"n": [1]}), Err("`n` is neither text nor an integer"));
    }

    /// A value behind `--name=` stays a value, whatever it begins with.
    #[test]
    fn a_value_of_an_option_is_no_option() {
        let setting = |name: &str| Element::Setting(format!("--{name}"), name.to_owned());
        let program = Program {
            path: "/bin/x".into(),
            args: vec![setting("since"), setting("unit"), setting("lines")],
            runtime: Runtime::Static,
            script: None,
            exec: Vec::new(),
        };
        let host = ResourceSpec::Fixed { kind: "Host".to_owned(), id: "localhost".to_owned() };
        let values = json!({ "since": "-1h --vacuum-size=1", "lines": 5 });
        let got = program.words(None, &host, &values, None).expect("words");
        assert_eq!(got, ["/bin/x", "--since=-1h --vacuum-size=1", "--lines=5"]);
    }
}
