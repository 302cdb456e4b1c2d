//! The arguments of a call, from the placeholders of a command, and what the call is about.

use crate::cli::exit::Fail;
use crate::tools::IdKind;
use crate::types::text::visible_line;

/// What a placeholder says of its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    /// No kind was written. It is text, and could be a path.
    Unsaid,
    String,
    Integer,
    /// The file or folder that the call is about.
    Path,
}

impl ArgumentKind {
    /// The type in the schema of the arguments.
    pub(super) fn json_type(self) -> &'static str {
        if self == Self::Integer { "integer" } else { "string" }
    }
}

/// An argument of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallArgument {
    pub(super) name: String,
    pub(super) kind: ArgumentKind,
}

/// What the calls are about, from the names and kinds of the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToolAbout {
    /// The file or folder in the argument of this name.
    Path(String),
    Id(IdKind),
    ThisHost,
}

impl ToolAbout {
    /// `has_folders` says whether the tool may read or write a folder.
    ///
    /// # Errors
    ///
    /// An argument could name a file that the rules about paths would not be asked about, with the
    /// two ways to write it.
    pub(super) fn find(arguments: &[CallArgument], has_folders: bool) -> Result<Self, Fail> {
        let all = |kind: ArgumentKind| arguments.iter().filter(move |argument| argument.kind == kind);
        let mut paths = all(ArgumentKind::Path);
        let (path, second) = (paths.next(), paths.next());
        if let (Some(one), Some(other)) = (path, second) {
            return Err(Fail::usage(format!(
                "`{{{}}}` and `{{{}}}` are both paths, and a call is about one: rules about paths would not \
                 bind the other. Write the other as a fixed `--arg`, or make a tool for each",
                one.name, other.name
            )));
        }
        if let Some(path) = path.filter(|_| !has_folders) {
            return Err(Fail::usage(format!(
                "`{{{}}}` is a file or folder: say with `--read` below which folders it may be",
                path.name
            )));
        }
        let id = path.is_none().then(|| {
            let is_named = |kind: &IdKind| {
                let name = kind.as_str().to_lowercase();
                arguments.iter().any(|argument| argument.name == name && argument.is_text())
            };
            IdKind::ALL.into_iter().find(is_named)
        });
        let about = match (path, id.flatten()) {
            (Some(path), _) => Self::Path(path.name.clone()),
            (None, Some(kind)) => Self::Id(kind),
            (None, None) => Self::ThisHost,
        };
        let unsaid = all(ArgumentKind::Unsaid).find(|argument| !about.is_in(&argument.name));
        match unsaid.filter(|_| has_folders) {
            Some(unsaid) => Err(could_be_path(&unsaid.name, path.map(|path| path.name.as_str()))),
            None => Ok(about),
        }
    }

    /// Whether this argument names what the call is about.
    pub(super) fn is_in(&self, name: &str) -> bool {
        match self {
            Self::Path(path) => path == name,
            Self::Id(kind) => name == kind.as_str().to_lowercase(),
            Self::ThisHost => false,
        }
    }
}

impl CallArgument {
    fn is_text(&self) -> bool {
        matches!(self.kind, ArgumentKind::Unsaid | ArgumentKind::String)
    }
}

fn could_be_path(name: &str, path: Option<&str>) -> Fail {
    let as_path = match path {
        None => format!(
            "`--arg '{{{name}:path}}'` if it names a file or folder: the call is then about it, and rules about \
             paths bind it; "
        ),
        Some(path) => format!("the call is about `{{{path}}}`, and rules about paths bind only that; "),
    };
    Fail::usage(format!(
        "`{{{name}}}` could name a file in the folders of `--read` and `--write`, past the rules about paths: \
         write {as_path}`--arg '{{{name}:string}}'` if it is other text"
    ))
}

/// One element of the command as the manifest writes it, and the argument in it.
///
/// # Errors
///
/// The kind or the name of a placeholder is not one that exists.
pub(super) fn element(word: &str) -> Result<(String, Option<CallArgument>), Fail> {
    let setting =
        word.split_once('=').filter(|(option, rest)| option.starts_with('-') && rest.starts_with('{'));
    let (option, rest) = match setting {
        Some((option, rest)) => (format!("{option}="), rest),
        None => (String::new(), word),
    };
    let Some(inner) = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return Ok((word.to_owned(), None));
    };
    let (name, kind) = inner.split_once(':').map_or((inner, None), |(name, kind)| (name, Some(kind)));
    let shown = visible_line(word);
    let kind = match kind {
        None if name == "path" => ArgumentKind::Path,
        None => ArgumentKind::Unsaid,
        Some("string") => ArgumentKind::String,
        Some("integer") => ArgumentKind::Integer,
        Some("path") => ArgumentKind::Path,
        Some(other) => {
            return Err(Fail::usage(format!(
                "`--arg {shown}`: unknown kind `{}`, expected string, integer or path",
                visible_line(other)
            )));
        }
    };
    if name.is_empty() || !is_word(name) {
        return Err(Fail::usage(format!(
            "`--arg {shown}`: `{}` is not a name of lower-case letters, digits and `_`",
            visible_line(name)
        )));
    }
    Ok((format!("{option}{{{name}}}"), Some(CallArgument { name: name.to_owned(), kind })))
}

/// Adds an argument, which may stand in the command more than once.
///
/// # Errors
///
/// Two of its places say different kinds.
pub(super) fn join(arguments: &mut Vec<CallArgument>, new: CallArgument) -> Result<(), Fail> {
    let Some(known) = arguments.iter_mut().find(|known| known.name == new.name) else {
        arguments.push(new);
        return Ok(());
    };
    match (known.kind, new.kind) {
        (_, ArgumentKind::Unsaid) => {}
        (ArgumentKind::Unsaid, kind) => known.kind = kind,
        (one, other) if one == other => {}
        _ => return Err(Fail::usage(format!("`{{{}}}` is written with two kinds", new.name))),
    }
    Ok(())
}

/// Whether this is a name of a tool or of an argument.
pub(super) fn is_word(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::{ToolAbout, element, join};

    fn about(words: &[&str], has_folders: bool) -> Result<ToolAbout, String> {
        let mut arguments = Vec::new();
        for word in words {
            let (_, argument) = element(word).map_err(|e| e.to_string())?;
            argument.map_or(Ok(()), |new| join(&mut arguments, new)).map_err(|e| e.to_string())?;
        }
        ToolAbout::find(&arguments, has_folders).map_err(|e| e.to_string())
    }

    /// A text argument next to a granted folder walks past rules about paths: it says what it is.
    #[test]
    fn text_that_could_be_a_path_says_what_it_is() {
        for (words, expect) in [
            (&["{pth}"][..], "`--arg '{pth:path}'` if it names"),
            (&["--file={pth}"], "`--arg '{pth:path}'` if it names"),
            (&["{path}", "{pattern}"], "about `{path}`"),
            (&["{path}", "{other:path}"], "are both paths"),
            (&["{project}", "{file}"], "`{file}` could name"),
            (&["{file:string}", "{file:path}"], "two kinds"),
            (&["{file:text}"], "expected string, integer or path"),
        ] {
            let refused = about(words, true).expect_err("refused");
            assert!(refused.contains(expect), "{words:?}: {refused}");
        }
        let path = |name: &str| ToolAbout::Path(name.to_owned());
        for (words, expect) in [
            (&["{pth:path}"][..], path("pth")),
            (&["--file={pth:path}", "{lines:integer}"], path("pth")),
            (&["{path}", "{pattern:string}"], path("path")),
            (&["{path:string}"], ToolAbout::ThisHost),
            (&["-l"], ToolAbout::ThisHost),
        ] {
            assert_eq!(about(words, true), Ok(expect), "{words:?}");
        }
        // Without a folder there is nothing to read past a rule.
        assert_eq!(about(&["{word}"], false), Ok(ToolAbout::ThisHost));
        assert!(about(&["{file:path}"], false).expect_err("refused").contains("say with `--read`"));
    }
}
