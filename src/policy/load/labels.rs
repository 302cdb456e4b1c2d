//! Which entity carries which label: `etc/policies/entities.toml`.
//!
//! A policy tests `resource.labels.contains("secret")`; this file assigns that label. A label on a
//! folder applies to everything below it, whatever name is used to reach it: a labelled path is
//! compared by device and inode, as a path in a policy is.

use super::error::{PolicyError, SourceFile, located};
use super::paths::is_plain;
use crate::policy::request::cedar::Uid;
use crate::policy::request::labels::{Carried, Labels};
use crate::tools::{HostForm, IdKind, check_id};
use crate::types::Digest;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// The longest label, in bytes.
const LABEL_BYTES_MAX: usize = 64;

/// The tables of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLabels {
    #[serde(default)]
    path: Table,
    #[serde(default)]
    project: Table,
    #[serde(default)]
    service: Table,
    #[serde(default)]
    host: Table,
    #[serde(default)]
    job: Table,
}

type Table = BTreeMap<Spanned<String>, Entry>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    labels: Spanned<Vec<Spanned<String>>>,
}

impl Labels {
    /// Reads the text of the file. `names` are those of `[paths]`, as policies write them
    /// (`@logs`).
    ///
    /// # Errors
    ///
    /// Every fault, in the order of the file. Then no label is taken.
    pub fn parse(source: &SourceFile, names: &BTreeSet<String>) -> Result<Self, Vec<PolicyError>> {
        let raw: RawLabels = toml::from_str(&source.text)
            .map_err(|e| vec![located(source, e.span().map(|span| span.start), e.message().to_owned())])?;
        let (mut of, mut errors) = (BTreeMap::new(), Vec::new());
        let tables = [
            ("Path", raw.path),
            (IdKind::Project.as_str(), raw.project),
            (IdKind::Service.as_str(), raw.service),
            ("Host", raw.host),
            (IdKind::Job.as_str(), raw.job),
        ];
        for (kind, table) in tables {
            for (id, entry) in table {
                match carried(kind, &id, entry, source, names) {
                    Ok(carried) => {
                        of.insert(Uid(kind, id.into_inner()), carried);
                    }
                    Err(error) => errors.push(error),
                }
            }
        }
        errors.sort_by_key(|error| error.line);
        if errors.is_empty() {
            Ok(Self::new(Digest::sha256(source.text.as_bytes()), of))
        } else {
            Err(errors)
        }
    }
}

fn carried(
    kind: &'static str,
    id: &Spanned<String>,
    entry: Entry,
    source: &SourceFile,
    names: &BTreeSet<String>,
) -> Result<Carried, PolicyError> {
    let at = |offset: usize, reason: String| located(source, Some(offset), reason);
    let origin = at(id.span().start, String::new());
    check_carrier(kind, id.get_ref(), names)
        .map_err(|(reason, mend)| PolicyError { mend, ..at(id.span().start, reason) })?;
    if entry.labels.get_ref().is_empty() {
        return Err(at(entry.labels.span().start, format!("`{}` carries no label", id.get_ref())));
    }
    let mut labels = BTreeSet::new();
    for label in entry.labels.into_inner() {
        check_label(label.get_ref()).map_err(|reason| at(label.span().start, reason))?;
        labels.insert(label.into_inner());
    }
    let line = origin.line.unwrap_or(1);
    Ok(Carried { labels, origin: format!("{}:{line}", source.name) })
}

/// Checks that an entity with this id can exist; otherwise returns the reason and how to fix it.
fn check_carrier(kind: &str, id: &str, names: &BTreeSet<String>) -> Result<(), (String, Option<String>)> {
    match kind {
        "Path" => {
            if is_plain(id) || id.strip_prefix('@').is_some_and(|name| names.contains(name)) {
                return Ok(());
            }
            let known = names.iter().map(|name| format!("`@{name}`")).collect::<Vec<_>>().join(", ");
            Err((
                format!("`{id}` is neither a plain absolute path nor a name of `[paths]`"),
                Some(format!("write it without `.`, `..` and a trailing `/`; the names are {known}")),
            ))
        }
        "Host" if id == "localhost" => Ok(()),
        "Host" => HostForm::Host.read(id).map(drop).map_err(|e| {
            let mend = "write `localhost` for this host, and name and port for another".to_owned();
            (format!("`{id}` {e}"), Some(mend))
        }),
        _ => {
            let of_kind = IdKind::ALL.into_iter().find(|known| known.as_str() == kind);
            let checked = of_kind.map_or_else(|| check_id(id), |known| known.check(id));
            checked.map_err(|reason| (format!("`{id}` {reason}"), None))
        }
    }
}

fn check_label(label: &str) -> Result<(), String> {
    if label.starts_with("par:") {
        return Err(format!("`{label}`: labels that start with `par:` are PAR's own"));
    }
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.:".contains(&b);
    let starts = label.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    if starts && label.len() <= LABEL_BYTES_MAX && label.bytes().all(is_word) {
        return Ok(());
    }
    let shown = crate::types::text::visible_line(label);
    Err(format!(
        "`{shown}` is not a label: expected a lowercase letter, then lowercase letters, digits and `-_.:`, at most {LABEL_BYTES_MAX} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use super::{Labels, SourceFile};
    use crate::auth::{Role, Source as Credential, Subject};
    use crate::policy::{Approved, Bundle, Counts, PolicyError, Question, Resource, Ruling, Session};
    use crate::tools::{Catalog, IdKind, Places};
    use crate::types::KeyId;
    use serde_json::{Value, json};
    use std::collections::{BTreeMap, BTreeSet};

    fn names() -> BTreeSet<String> {
        ["logs", "workspace"].map(str::to_owned).into()
    }

    fn parse(text: &str) -> Result<Labels, Vec<PolicyError>> {
        Labels::parse(
            &SourceFile { name: "policies/entities.toml".to_owned(), text: text.to_owned() },
            &names(),
        )
    }

    #[test]
    fn a_fault_is_reported_with_its_line() {
        let check = |text: &str, line: usize, reason: &str| {
            let errors = parse(text).expect_err(text);
            let [error] = errors.as_slice() else { panic!("{text}\n{errors:?}") };
            assert_eq!(error.line, Some(line), "{text}\n{error}");
            assert!(error.reason.contains(reason), "{text}\n{error}");
            assert_eq!(error.shown.as_deref(), text.lines().nth(line - 1), "{text}");
        };
        check("\n[paths.\"/a\"]\nlabels = [\"x\"]", 2, "paths");
        check("[path.\"/a\"]\nlabel = [\"x\"]", 2, "label");
        check("[path.\"/a\"]\nlabels = [\"x\"]\nmore = 1", 3, "more");
        check("[path.\"/a\"]\n", 1, "labels");
        check("[path.\"/a\"]\nlabels = \"x\"", 2, "sequence");
        check("[path.\"/a\"]\nlabels = [1]", 2, "string");
        check("[path.\"/a\"]\nlabels = []", 2, "carries no label");
        check("[path.\"/a\"]\nlabels = [\"x\"]\n[path.\"/a\"]\nlabels = [\"y\"]", 3, "duplicate");
        check("[path]\n\"/a\" = [\"x\"]", 2, "");
        check("[path.\"/a\"\nlabels = []", 1, "");
        for path in
            ["var/log", "/var//log", "/var/../log", "/var/log/", "/var/./log", "@nowhere", "", "~/x", "@"]
        {
            check(&format!("\n[path.\"{path}\"]\nlabels = [\"x\"]"), 2, "neither a plain");
        }
        for kind in ["project", "job"] {
            for id in ["", "..", "a/b", "Demo", "-x", "a b"] {
                check(&format!("[{kind}.\"{id}\"]\nlabels = [\"x\"]"), 1, "is not an id");
            }
        }
        for unit in ["", "..", "a/b", "-x", "a b"] {
            check(&format!("[service.\"{unit}\"]\nlabels = [\"x\"]"), 1, "is not a unit");
        }
        check("[host.web1]\nlabels = [\"x\"]", 1, "`web1` has no port");
        check("[host.\"WEB1:443\"]\nlabels = [\"x\"]", 1, "must be written `web1:443`");
        check("[path.\"/a\"]\nlabels = [\n  \"fine\",\n  \"par:outside\"\n]", 4, "PAR's own");
        for label in ["", "Secret", "1st", "a b", "s\u{e9}cret", "\u{430}", &"a".repeat(65)] {
            check(&format!("[path.\"/a\"]\nlabels = [\"x\", \"{label}\"]"), 2, "is not a label");
        }
        // Each fault is reported, in the order of the file.
        let errors = parse("[host.x]\nlabels = [\"x\"]\n[path.a]\nlabels = [\"x\"]").expect_err("two");
        assert_eq!(errors.iter().map(|e| e.line).collect::<Vec<_>>(), [Some(1), Some(3)]);
    }

    #[test]
    fn an_assigned_label_has_its_line() {
        let labels = parse(
            "[path.\"/b\"]\nlabels = [\"secret\", \"x\"]\n[path.\"@logs\"]\nlabels = [\"x\"]\n[project.demo]\nlabels = [\"prod\"]",
        )
        .expect("labels");
        let places = |given: Vec<crate::policy::GivenLabel>| {
            given.into_iter().map(|one| format!("{} {}", one.name, one.origin)).collect::<Vec<_>>()
        };
        assert_eq!(places(labels.paths().collect()), ["/b policies/entities.toml:1"]);
        let given = [
            "prod policies/entities.toml:5",
            "secret policies/entities.toml:1",
            "x policies/entities.toml:1",
        ];
        assert_eq!(places(labels.given().collect()), given);
        assert_eq!(parse("# nothing\n").expect("empty").given().count(), 0);
    }

    fn catalog() -> Catalog {
        let places = [("logs", "/var/log"), ("workspace", "/srv/w")];
        let names = BTreeMap::from(places.map(|(name, path)| (name.to_owned(), path.into())));
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d");
        Catalog::load(&folder, &Places { names, private: Vec::new() }).expect("tools")
    }

    const RULES: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);
        @id(\"secret\")
        forbid(principal, action in PAR::Action::\"read\", resource)
        when { resource.labels.contains(\"secret\") };
        @id(\"prod\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { resource.labels.containsAny([\"prod\", \"live\"]) };";
    const FILE: &str = "[path.\"/var/log/auth\"]\nlabels = [\"secret\", \"live\"]\n[path.\"@workspace\"]\nlabels = [\"secret\"]
        [project.shop]\nlabels = [\"prod\"]\n[host.localhost]\nlabels = [\"secret\"]";

    fn load(rules: &str, file: &str) -> Result<Bundle, Vec<PolicyError>> {
        let source = SourceFile { name: "p.cedar".to_owned(), text: rules.to_owned() };
        Bundle::load(&[source], &catalog(), &names())?.with_labels(parse(file)?)
    }

    fn ask(bundle: &Bundle, tool: &str, resource: &Resource) -> (Ruling, Value) {
        let catalog = catalog();
        let id = KeyId::parse("Ab3dEf9h").expect("id");
        let source = Credential::Key { id, name: "k".to_owned() };
        let arguments = match tool {
            "deploy" => json!({ "project": "shop", "version": "1.0.0" }),
            "health_check" => json!({}),
            _ => json!({ "path": "/x" }),
        };
        let verdict = bundle.decide(&Question {
            subject: &Subject { source, role: Role::Operator, user: None },
            session: &Session {
                id: "s".to_owned(),
                ceiling: catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
                taint: BTreeSet::new(),
                seen: BTreeSet::new(),
                tainted_by: Vec::new(),
                calls_used: 0,
                budget: 1,
                risk: 0,
            },
            manifest: catalog.find(tool).expect("tool"),
            arguments: &arguments,
            resource,
            approved: Approved::No,
            now_us: 0,
            source_ip: None,
            channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
        });
        (verdict.answer, verdict.request)
    }

    /// A label applies to the object, to everything below it, and to a path that is known to lie
    /// there under another name.
    #[test]
    fn a_label_applies_below_and_under_every_name() {
        let bundle = load(RULES, FILE).expect("bundle");
        let check = |tool: &str, resource: Resource, expect: &[&str]| {
            let (answer, request) = ask(&bundle, tool, &resource);
            assert_eq!(answer.policies(), expect, "{resource:?}: {request}");
        };
        let path = |canonical: &str, within: &[&str]| Resource::Path {
            canonical: canonical.to_owned(),
            within: within.iter().map(|name| (*name).to_owned()).collect(),
        };
        let both: &[&str] = &["prod", "secret"];
        check("read_file", path("/var/log/auth", &[]), both);
        check("read_file", path("/var/log/auth/a/b", &["@logs"]), both);
        check("read_file", path("/var/log/other", &["@logs", "/var/log/auth"]), both);
        check("read_file", path("/elsewhere/deep", &["@workspace"]), &["secret"]);
        for other in ["/var/log/authentic", "/var/log", "/var/log/Auth", "/", "/srv/w/x"] {
            check("read_file", path(other, &["@logs"]), &["all"]);
        }
        check(
            "health_check",
            Resource::Fixed { kind: "Host".to_owned(), id: "localhost".to_owned() },
            &["secret"],
        );
        let project = |id: &str| Resource::Id { kind: IdKind::Project, id: id.to_owned() };
        check("deploy", project("shop"), &["prod"]);
        check("deploy", project("demo"), &["all"]);
        check(
            "read_file",
            Resource::Outside { lexical: "/var/log/auth".to_owned() },
            &["par.outside", "prod", "secret"],
        );
        // Prepare gets the paths to look for, and the record contains what counted.
        assert_eq!(bundle.named(), ["/var/log/auth"]);
        let (_, request) = ask(&bundle, "read_file", &path("/var/log/auth/a", &[]));
        let labels: Vec<(&Value, &Value)> = request["entities"]
            .as_array()
            .expect("entities")
            .iter()
            .filter(|entity| entity["uid"]["type"] == "PAR::Path")
            .map(|entity| (&entity["uid"]["id"], &entity["attrs"]["labels"]))
            .collect();
        let (none, some) = (json!([]), json!(["live", "secret"]));
        let expect = [
            ("/", &none),
            ("/var", &none),
            ("/var/log", &none),
            ("/var/log/auth", &some),
            ("/var/log/auth/a", &some),
        ];
        assert_eq!(
            labels,
            expect.map(|(id, labels)| (json!(id), labels)).each_ref().map(|(id, labels)| (id, *labels))
        );
    }

    #[test]
    fn a_label_that_nothing_carries_is_refused_and_an_unused_one_is_noted() {
        let errors = load(RULES, "[path.\"/a\"]\nlabels = [\"secrets\", \"prod\", \"live\"]")
            .expect_err("spelled otherwise");
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        assert_eq!((error.file.as_str(), error.line), ("p.cedar", Some(4)), "{error}");
        assert!(error.reason.contains("no path has the label `secret`"), "{error}");
        assert!(
            error.shown.as_deref().is_some_and(|shown| shown.contains("contains(\"secret\")")),
            "{error}"
        );
        for condition in [
            "resource.labels.contains(\"x\")",
            "resource[\"labels\"].contains(\"x\")",
            "resource.labels.containsAll([\"secret\", \"x\"])",
            "[\"x\"].containsAny(resource.labels)",
            "resource.labels == [\"x\"]",
            "principal.risk > 1 && !(resource.labels.contains(if principal.risk > 2 then \"secret\" else \"x\"))",
        ] {
            let rule = format!(
                "@id(\"r\") forbid(principal, action, resource is PAR::Path) when {{ {condition} }};"
            );
            let errors = load(&rule, FILE).expect_err(condition);
            assert_eq!(errors.len(), 1, "{condition}: {errors:?}");
        }
        let bundle = load(&RULES.replace("\"prod\", ", ""), FILE).expect("bundle");
        let unasked: Vec<String> = bundle.unasked_labels().into_iter().map(|label| label.name).collect();
        assert_eq!(unasked, ["prod"]);
    }

    #[test]
    fn the_file_is_part_of_the_digest() {
        let digest = |file: &str| load("", file).expect("bundle").digest();
        let all = ["", "# a note", "[path.\"/a\"]\nlabels = [\"x\"]", "[path.\"/a\"]\nlabels = [\"y\"]"];
        let digests: BTreeSet<_> = all.iter().map(|file| digest(file)).collect();
        assert_eq!(digests.len(), all.len());
        let without = Bundle::load(&[], &catalog(), &names()).expect("bundle");
        let digest = without.digest();
        let none = without.with_labels(Labels::default()).expect("no labels");
        assert_eq!(none.digest(), digest);
    }
}
