//! Templates and their links: each link is a rule like any other, and an invalid link is refused.

use super::{answer, arguments, ask, at, catalog, names, os_subject, session, source, subject};
use crate::auth::Role;
use crate::policy::{
    Approved, Bundle, Change, Counts, Folders, NamedFolder, PolicyError, Question, SourceFile, Suite,
};

const TEMPLATES: &str = r#"// Who reads where: "?principal" is filled in.
@id("reads") // ?resource
@advice("no ?principal of \"?resource\"")
permit (
    principal in ?principal,
    action in PAR::Action::"read",
    resource in ?resource
)
when { context.call.calls_hour < 3 && principal.risk < 5 };

@id("never")
forbid (principal, action == PAR::Action::"list_dir", resource in ?resource);
"#;

const LINKS: &str = r#"[[link]]
template = "reads"
id = "ann-reads-logs"
principal = "User::\"ann\""
resource = "PAR::Path::\"/var/log\""

[[link]]
template = "reads"
id = "root-reads-all"
principal = 'PAR::User::"os:root"'
resource = "Path::\"/\""

[[link]]
template = "never"
id = "no-lists"
resource = "Path::\"/var/log/apt\""
"#;

fn sources(templates: &str, links: &str) -> Vec<SourceFile> {
    vec![source("policies/50.cedar", templates), source("policies/links.toml", links)]
}

fn try_load(templates: &str, links: &str) -> Result<Bundle, Vec<PolicyError>> {
    Bundle::load(&sources(templates, links), catalog(), &names())
}

fn load(templates: &str, links: &str) -> Bundle {
    try_load(templates, links).unwrap_or_else(|errors| panic!("{errors:?}"))
}

#[test]
fn a_link_is_a_rule() {
    let bundle = load(TEMPLATES, LINKS);
    let of = |tool: &str, path: &str| answer(&bundle, tool, &at(path, &[]));
    assert_eq!(
        (of("read_file", "/var/log/syslog").word(), of("read_file", "/var/log/syslog").policies()),
        ("allow", ["ann-reads-logs".to_owned()].as_slice())
    );
    assert_eq!(of("read_file", "/srv/x").word(), "deny");
    assert_eq!(of("list_dir", "/var/log/apt").policies(), ["no-lists"]);
    assert_eq!(of("list_dir", "/var/log/nginx").word(), "allow");
    let root =
        ask(&bundle, &os_subject(Role::Operator), &session(catalog()), "read_file", &at("/srv/x", &[]));
    assert_eq!(root.answer.policies(), ["root-reads-all"]);
    // Prepare must look for the paths that links name, and a place has both lines.
    assert_eq!(bundle.named(), ["/", "/var/log", "/var/log/apt"]);
    assert_eq!(
        bundle.policies().map(|(id, place)| format!("{id} {place}")).collect::<Vec<_>>(),
        [
            "ann-reads-logs policies/50.cedar:2 by policies/links.toml:1",
            "no-lists policies/50.cedar:11 by policies/links.toml:13",
            "root-reads-all policies/50.cedar:2 by policies/links.toml:7",
        ]
    );
    // A slot's name in a string or a comment is left alone.
    assert_eq!(bundle.advice("ann-reads-logs").as_deref(), Some("no ?principal of \"?resource\""));
}

/// A failing part of a link is reported with the template's line and the link's own names.
#[test]
fn a_link_is_explained() {
    let bundle = load(TEMPLATES, LINKS);
    let session = crate::policy::Session { risk: 9, ..session(catalog()) };
    let (who, path) = (subject(Role::Operator), at("/srv/x", &[]));
    let considered = bundle.explain(&Question {
        subject: &who,
        session: &session,
        manifest: catalog().find("read_file").expect("tool"),
        arguments: &arguments("read_file", "/srv/x"),
        resource: &path,
        approved: Approved::No,
        now_us: 0,
        source_ip: None,
        channel: crate::types::Channel::Http,
        counts: Counts::default(),
        origins: None,
        is_chosen: false,
        is_halted: false,
    });
    let one = considered.iter().find(|one| one.policy == "ann-reads-logs").expect("policy");
    let told: Vec<String> =
        one.failing.iter().map(|part| format!("{:?} {}", part.line.unwrap_or(0), part.words)).collect();
    assert_eq!(
        told,
        ["7 resource is not in PAR::Path::\"/var/log\"", "9 `principal.risk < 5` does not hold"]
    );
}

#[test]
fn an_invalid_link_is_refused_with_its_line() {
    let one = "[[link]]\ntemplate = \"reads\"\nid = \"x\"\nprincipal = \"User::\\\"ann\\\"\"\nresource = \"Path::\\\"/srv\\\"\"\n";
    let check = |links: &str, line: usize, reason: &str| {
        let errors = try_load(TEMPLATES, links).expect_err(links);
        let found = errors.iter().find(|error| error.file == "policies/links.toml");
        let found = found.unwrap_or_else(|| panic!("{links}: {errors:?}"));
        assert_eq!(found.line, Some(line), "{links}: {errors:?}");
        assert!(found.reason.contains(reason), "{links}: {errors:?}");
    };
    check("\n[[lnk]]\n", 2, "unknown field `lnk`");
    check(&format!("{one}action = \"read\"\n"), 6, "unknown field `action`");
    check(&one.replace("\"reads\"", "\"raeds\""), 1, "no template has the id `raeds`");
    check(&one.replace("id = \"x\"", "id = \"\""), 1, "not a valid policy id");
    check(&one.replace("id = \"x\"", "id = \"par.x\""), 1, "PAR's own");
    check(&one.replace("id = \"x\"", "id = \"never\""), 1, "is already taken");
    check(&format!("{one}\n{one}"), 7, "is already taken");
    check(&one.replace("principal =", "# principal ="), 1, "has the slot `?principal`");
    check(&one.replace("\"reads\"", "\"never\""), 1, "has no slot for `principal`");
    check(&one.replace("User::", "Usr::"), 1, "unknown entity type `PAR::Usr`");
    check(&one.replace("User::\\\"ann\\\"", "ann"), 1, "is not an entity");
    check(&one.replace("ann\\\"", "ann\\\", action, resource) when { true } //"), 1, "is not an entity");
    // A link to a policy without slots is refused, and so is a template without a link.
    let fixed = "@id(\"reads\") permit(principal, action in PAR::Action::\"read\", resource);";
    let errors = try_load(fixed, one).expect_err("a policy");
    assert!(errors[0].reason.contains("needs no link"), "{errors:?}");
    let errors = try_load(TEMPLATES, one).expect_err("unlinked");
    assert_eq!((errors[0].file.as_str(), errors[0].line), ("policies/50.cedar", Some(11)));
    assert!(errors[0].reason.contains("no link uses the template `never`"), "{errors:?}");
    let errors = Bundle::load(&sources(TEMPLATES, LINKS)[..1], catalog(), &names()).expect_err("unlinked");
    assert_eq!(errors.len(), 2, "{errors:?}");
}

/// What is refused in a rule is refused in a link, with the lines of the template and of the link.
#[test]
fn links_are_held_to_what_rules_are() {
    let check = |templates: &str, links: &str, line: usize, reason: &str| {
        let errors = try_load(templates, links).expect_err(reason);
        let told = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains(&format!("policies/50.cedar:{line}: ")) && told.contains(reason), "{told}");
        assert!(told.contains("linked at policies/links.toml:1"), "{told}");
    };
    let linked = |words: &str| format!("[[link]]\ntemplate = \"t\"\nid = \"x\"\n{words}\n");
    let long = "resource = \"Path::\\\"/srv/a/folder/with/a/name/that/is/longer/than/its/slot\\\"\"";
    let template = |when: &str| {
        format!(
            "// first\n@id(\"t\")\nforbid (principal, action in PAR::Action::\"read\",\n resource in ?resource)\nwhen {{\n  {when} }};\n// last\n"
        )
    };
    check(&template("context.call.calls_hour + principal.risk > 3"), &linked(long), 6, "may overflow");
    check(&template("context.input.path == \"/x\""), &linked(long), 6, "as the caller wrote it");
    check(&template("principal.nonsense == 1"), &linked(long), 6, "nonsense");
    check(&template("true"), &linked("resource = \"Path::\\\"/srv/\\\"\""), 4, "neither a plain");
    check(&template("true"), &linked("resource = \"Path::\\\"@lags\\\"\""), 4, "neither a plain");
    check(
        "@id(\"t\")\nforbid (principal in ?principal, action, resource);\n",
        &linked("principal = \"Role::\\\"chef\\\"\""),
        2,
        "unknown role `chef`",
    );
}

#[test]
fn links_are_part_of_the_digest_and_of_what_is_kept() {
    let bundle = load(TEMPLATES, LINKS);
    assert_ne!(bundle.digest(), load(TEMPLATES, &LINKS.replace("/var/log/apt", "/var/log/nginx")).digest());
    assert_ne!(bundle.digest(), load(TEMPLATES, &format!("{LINKS}\n")).digest());
    let again = Bundle::rebuild(bundle.archive().as_bytes(), bundle.digest()).expect("rebuilt");
    assert_eq!(again.text("ann-reads-logs"), bundle.text("ann-reads-logs"));
    assert!(again.text("no-lists").is_some_and(|text| text.contains("PAR::Path::\"/var/log/apt\"")));
    // Without its links, or with others, it is another bundle.
    for (from, to) in [("/var/log/apt", "/var/log/apx"), ("policies/links.toml", "policies/lonks.toml")] {
        Bundle::rebuild(bundle.archive().replace(from, to).as_bytes(), bundle.digest()).expect_err(to);
    }
}

/// The cases of a bundle must notice a lost link too.
#[test]
fn a_link_is_changed_like_a_rule() {
    let suite = "[[case]]\nname = \"ann reads\"\nrole = \"operator\"\nuser = \"ann\"\ntool = \"read_file\"\n\
                 resource = \"/var/log/syslog\"\nexpect = \"allow\"\n";
    let suite = Suite::parse(&[source("policies/tests/50.toml", suite)]).expect("suite");
    let bundle = load(TEMPLATES, LINKS).with_suite(suite);
    let folder = |path: &str| NamedFolder { lexical: path.into(), real: path.into() };
    let folders: Folders = [("logs".to_owned(), folder("/var/log"))].into();
    assert_eq!(bundle.prove(catalog(), &folders), []);
    let score = bundle.score(catalog(), &folders);
    let dropped: Vec<&str> = score
        .survivors
        .iter()
        .filter(|one| one.change == Change::Drop)
        .map(|one| one.policy.as_str())
        .collect();
    assert_eq!(dropped, ["root-reads-all", "no-lists"], "{score:?}");
    let without = |one: &&crate::policy::Survivor| matches!(one.change, Change::Without(_));
    let parts: Vec<&str> = score.survivors.iter().filter(without).map(|one| one.at.as_str()).collect();
    assert!(parts.contains(&"policies/50.cedar:9"), "{score:?}");
}
