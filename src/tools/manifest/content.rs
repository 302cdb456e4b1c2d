//! The folder whose content a call is about: `content` of a manifest's `[resource]`.

use super::words::Element;
use serde_json::Value;
use std::fmt;

/// One name on a path, in bytes (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;

/// A folder below the first folder that a tool may change, by its names, and the place of the
/// tool's copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentFolder {
    names: Vec<Element>,
    copy_in: Vec<String>,
}

impl ContentFolder {
    /// Reads `incoming/{version}`, a path in which each name is a literal or an argument, and
    /// `copy_in`, the folder for the copy, which takes literals only. `is_required` says whether an
    /// argument is a required string.
    pub(super) fn parse(
        words: &str,
        copy_in: Option<&str>,
        is_required: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        let name = |word: &str| match word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(argument) if is_required(argument) => Ok(Element::Argument(argument.to_owned())),
            Some(argument) => Err(format!("`{{{argument}}}` is not a required top-level string")),
            None if word.contains(['{', '}']) => {
                Err(format!("the placeholder in `{word}` must fill the whole name"))
            }
            None => check(word).map(|()| Element::Literal(word.to_owned())),
        };
        let word = |word: &str| match word.contains(['{', '}']) {
            true => Err(format!("`{word}`: `copy_in` takes no placeholder")),
            false => check(word).map(|()| word.to_owned()),
        };
        Ok(Self {
            names: words.split('/').map(name).collect::<Result<_, _>>()?,
            copy_in: copy_in
                .into_iter()
                .flat_map(|words| words.split('/'))
                .map(word)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The folder that the copy is made in, by its names below the first folder that the tool may
    /// change.
    #[must_use]
    pub fn copy_in(&self) -> &[String] {
        &self.copy_in
    }

    /// The names for a call with these `arguments`.
    ///
    /// # Errors
    ///
    /// An argument is not a plain name.
    pub fn names<'a>(&'a self, arguments: &'a Value) -> Result<Vec<&'a str>, String> {
        let name = |element: &'a Element| match element {
            Element::Literal(word) | Element::Setting(word, _) => Ok(word.as_str()),
            Element::Argument(name) => {
                let word = arguments.get(name).and_then(Value::as_str).unwrap_or_default();
                check(word).map(|()| word)
            }
        };
        self.names.iter().map(name).collect()
    }
}

impl fmt::Display for ContentFolder {
    /// As the manifest writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, element) in self.names.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "/" })?;
            match element {
                Element::Literal(word) | Element::Setting(word, _) => f.write_str(word)?,
                Element::Argument(name) => write!(f, "{{{name}}}")?,
            }
        }
        Ok(())
    }
}

/// Checks one plain name. Names that begin with a dot are reserved for PAR and for the tool itself.
fn check(name: &str) -> Result<(), String> {
    let is_plain = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(['/', '\0']);
    if is_plain { Ok(()) } else { Err(format!("`{name}` is not a plain name without a leading dot")) }
}

#[cfg(test)]
mod tests {
    use super::ContentFolder;
    use serde_json::json;

    #[test]
    fn each_name_is_a_word_or_an_argument() {
        let parse = |words: &str| ContentFolder::parse(words, None, |argument| argument == "version");
        let folder = parse("incoming/{version}").expect("a folder");
        assert_eq!(folder.names(&json!({ "version": "1.0" })), Ok(vec!["incoming", "1.0"]));
        for version in ["", ".", "..", ".x", "a/b", "/", "a\0", &"a".repeat(256)] {
            assert!(folder.names(&json!({ "version": version })).is_err(), "{version:?}");
        }
        assert!(folder.names(&json!({})).is_err());
        for words in ["", "/a", "a/", "a//b", "..", "a/../b", "{project}", "v{version}", "a/{}", ".hidden"] {
            assert!(parse(words).is_err(), "{words}");
        }
        let copy_in =
            |words: &str| ContentFolder::parse("a", Some(words), |_| true).map(|folder| folder.copy_in);
        assert_eq!(copy_in("b/c"), Ok(vec!["b".to_owned(), "c".to_owned()]));
        for words in ["", "/b", "b/", "..", ".b", "{version}"] {
            assert!(copy_in(words).is_err(), "{words}");
        }
    }
}
