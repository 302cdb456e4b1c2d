//! Arguments whose origin counts: those that decide what an act does to whom, and those that leave
//! the host.

use super::error::Fault;
use crate::types::limits;
use serde_json::Value;

/// An argument that is looked up in what a run was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensitiveArgument {
    /// Its name in policies: the names in the pointer, joined by `_`.
    pub name: String,
    /// The JSON pointer to it in the arguments.
    pub pointer: String,
    /// Whether it leaves the host with the call.
    pub is_sent: bool,
}

/// The arguments that `sensitive` and `sends` point to, in that order and each once. What is sent
/// is sensitive too.
pub(super) fn read(
    sensitive: &[String],
    sends: &[String],
    input: &Value,
) -> Result<Vec<SensitiveArgument>, Fault> {
    let mut found: Vec<SensitiveArgument> = Vec::new();
    let all = sensitive.iter().map(|pointer| ("sensitive", pointer));
    for (key, pointer) in all.chain(sends.iter().map(|pointer| ("sends", pointer))) {
        let name = argument(pointer, input).map_err(|reason| (key, format!("`{key}`: {reason}")))?;
        let is_sent = sends.contains(pointer);
        match found.iter().find(|known| known.name == name) {
            None => found.push(SensitiveArgument { name, pointer: pointer.clone(), is_sent }),
            Some(known) if known.pointer == *pointer && key == "sends" && sensitive.contains(pointer) => {}
            Some(known) if known.pointer == *pointer => {
                return Err((key, format!("`{key}` names `{pointer}` twice")));
            }
            Some(known) => {
                let reason =
                    format!("`{}` and `{pointer}` would both be `{name}` in policies", known.pointer);
                return Err((key, reason));
            }
        }
    }
    if found.len() > limits::SENSITIVE_ARGUMENTS_MAX {
        let most = limits::SENSITIVE_ARGUMENTS_MAX;
        return Err(("sensitive", format!("more than {most} sensitive arguments")));
    }
    Ok(found)
}

/// The name of the argument that `pointer` points to in the schema `input`.
fn argument(pointer: &str, input: &Value) -> Result<String, String> {
    let path = pointer
        .strip_prefix('/')
        .ok_or_else(|| format!("`{pointer}` is not a JSON pointer such as `/path`"))?;
    let (mut at, mut names) = (input, Vec::new());
    for part in path.split('/') {
        let part = part.replace("~1", "/").replace("~0", "~");
        let members = at.get("properties").and_then(Value::as_object);
        at = members.and_then(|members| members.get(&part)).ok_or_else(|| {
            let known = members.into_iter().flatten().map(|(name, _)| format!("`{name}`"));
            match known.collect::<Vec<_>>().join(", ") {
                known if known.is_empty() => format!("`{pointer}` points to no argument in `[input]`"),
                known => format!("`{pointer}` points to no argument in `[input]`, which has {known}"),
            }
        })?;
        names.push(part);
    }
    match at.get("type") {
        Some(kind) if kind == "boolean" => {
            Err(format!("`{pointer}` is a boolean, which no text says: leave it out"))
        }
        _ => Ok(names.join("_")),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;

    #[test]
    fn a_pointer_must_point_into_the_schema() {
        let input = json!({ "type": "object", "properties": {
            "to": { "type": "array", "items": { "type": "string" } }, "path": { "type": "string" },
            "force": { "type": "boolean" }, "a/b": { "type": "string" }, "mail_to": { "type": "string" },
            "mail": { "opaque": true, "type": "object", "properties": { "to": { "type": "string" } } },
        } });
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let check = |sensitive: &[&str], sends: &[&str], expect: Result<&[(&str, bool)], (&str, &str)>| {
            let found = read(&list(sensitive), &list(sends), &input);
            match (found, expect) {
                (Ok(found), Ok(expect)) => {
                    let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.is_sent)).collect();
                    assert_eq!(found, expect, "{sensitive:?} {sends:?}");
                }
                (Err((key, reason)), Err((at, words))) => {
                    assert_eq!(key, at, "{reason}");
                    assert!(reason.contains(words), "{reason}");
                }
                (found, expect) => panic!("{sensitive:?} {sends:?}: {found:?}, expected {expect:?}"),
            }
        };
        check(&[], &[], Ok(&[]));
        check(&["/to", "/path"], &[], Ok(&[("to", false), ("path", false)]));
        check(&["/path"], &["/to", "/path"], Ok(&[("path", true), ("to", true)]));
        check(&["/mail/to", "/a~1b"], &[], Ok(&[("mail_to", false), ("a/b", false)]));
        check(&["/pth"], &[], Err(("sensitive", "`/pth` points to no argument")));
        check(&[], &["/url"], Err(("sends", "`/url` points to no argument")));
        check(&["/mail/cc"], &[], Err(("sensitive", "which has `to`")));
        check(&["/path/x"], &[], Err(("sensitive", "points to no argument")));
        check(&["/to/0"], &[], Err(("sensitive", "points to no argument")));
        check(&["/"], &[], Err(("sensitive", "points to no argument")));
        check(&["path"], &[], Err(("sensitive", "is not a JSON pointer")));
        check(&[""], &[], Err(("sensitive", "is not a JSON pointer")));
        check(&["/force"], &[], Err(("sensitive", "is a boolean")));
        check(&["/to", "/to"], &[], Err(("sensitive", "twice")));
        check(&[], &["/to", "/to"], Err(("sends", "twice")));
        check(&["/mail/to", "/mail_to"], &[], Err(("sensitive", "would both be `mail_to`")));
        let properties: serde_json::Map<_, _> =
            (0..17).map(|at| (format!("a{at}"), json!({ "type": "string" }))).collect();
        let many: Vec<String> = properties.keys().map(|name| format!("/{name}")).collect();
        assert!(read(&many, &[], &json!({ "properties": properties })).is_err());
    }
}
