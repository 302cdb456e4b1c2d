//! Which user is in which group: `[groups]` of `par.toml`.

use std::collections::{BTreeMap, BTreeSet};

/// Groups of users. A user is `ana`, as keys name it, or `os:root`, a user of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups(BTreeMap<String, BTreeSet<String>>);

impl Groups {
    /// Groups by name, with their users.
    #[must_use]
    pub fn new(users: impl IntoIterator<Item = (String, Vec<String>)>) -> Self {
        Self(users.into_iter().map(|(group, users)| (group, users.into_iter().collect())).collect())
    }

    /// Whether `user` is in `group`. An undefined group has no members.
    #[must_use]
    pub fn holds(&self, group: &str, user: &str) -> bool {
        self.0.get(group).is_some_and(|users| users.contains(user))
    }

    /// Each group with its users.
    pub(in crate::policy) fn users(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.0
    }

    /// Whether `group` has no members.
    #[must_use]
    pub fn is_empty(&self, group: &str) -> bool {
        self.0.get(group).is_none_or(BTreeSet::is_empty)
    }

    /// Whether `group` has a member other than `user`.
    #[must_use]
    pub fn has_other(&self, group: &str, user: Option<&str>) -> bool {
        self.0.get(group).is_some_and(|users| users.iter().any(|one| Some(one.as_str()) != user))
    }

    /// Whether `group` is defined, even without members.
    pub(in crate::policy) fn has(&self, group: &str) -> bool {
        self.0.contains_key(group)
    }

    /// The groups that `user` is in.
    pub(in crate::policy) fn containing<'a>(&'a self, user: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(|(_, users)| users.contains(user)).map(|(group, _)| group.as_str())
    }

    /// One line for each user of each group, sorted, for the bundle's digest; empty without groups.
    /// Neither name contains a space: the configuration refuses one that does.
    pub(in crate::policy) fn lines(&self) -> String {
        let line = |group: &str, user: &String| format!("{group} {user}\n");
        self.0.iter().flat_map(|(group, users)| users.iter().map(move |user| line(group, user))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Groups;
    use crate::auth::{Role, Source as Credential, Subject};
    use crate::policy::{Approved, Bundle, Counts, Question, Resource, Ruling, Session, SourceFile};
    use crate::tools::{Catalog, Places};
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_user_is_in_the_groups_that_name_it_and_in_no_other() {
        let groups = Groups::new([
            ("release".to_owned(), vec!["ana".to_owned(), "os:root".to_owned()]),
            ("night".to_owned(), vec!["ben".to_owned()]),
        ]);
        assert!(groups.holds("release", "ana") && groups.holds("release", "os:root"));
        for (group, user) in [("release", "root"), ("release", "ben"), ("release", ""), ("day", "ana")] {
            assert!(!groups.holds(group, user), "{group} {user}");
        }
        assert_eq!(groups.containing("ana").collect::<Vec<_>>(), ["release"]);
        assert_eq!(groups.lines(), "night ben\nrelease ana\nrelease os:root\n");
    }

    fn catalog() -> Catalog {
        let places = Places {
            names: BTreeMap::from([
                ("logs".to_owned(), "/var/log".into()),
                ("workspace".to_owned(), "/srv/w".into()),
            ]),
            private: Vec::new(),
        };
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d");
        Catalog::load(&folder, &places).expect("tools")
    }

    fn ask(user: &str, approved: Approved<'_>, groups: &Groups) -> (Ruling, crate::types::Digest) {
        let catalog = catalog();
        let text = "@id(\"group\") permit(principal in PAR::Group::\"release\", action in PAR::Action::\"call_tool\", resource);\n\
                    @id(\"by\") @require_approval(\"night\") forbid(principal, action in PAR::Action::\"call_tool\", resource) unless { \
                    context.call.approved == \"approved\" && (if context.call has approver then \
                    context.call.approver in PAR::Group::\"night\" else true) };";
        let source = SourceFile { name: "p.cedar".to_owned(), text: text.to_owned() };
        let bundle = Bundle::load(&[source], &catalog, &BTreeSet::new());
        let bundle = bundle.expect("bundle").with_groups(groups.clone());
        let id = crate::types::KeyId::parse("Ab3dEf9h").expect("id");
        let source = Credential::Key { id, name: "k".to_owned() };
        let subject = Subject { source, role: Role::Operator, user: Some(user.to_owned()) };
        let session = Session {
            id: "s".to_owned(),
            ceiling: catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
            taint: BTreeSet::new(),
            seen: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: 1,
            risk: 0,
        };
        let verdict = bundle.decide(&Question {
            subject: &subject,
            session: &session,
            manifest: catalog.find("health_check").expect("tool"),
            arguments: &json!({}),
            resource: &Resource::Fixed { kind: "Host".to_owned(), id: "localhost".to_owned() },
            approved,
            now_us: 0,
            source_ip: None,
            channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
        });
        (verdict.answer, bundle.digest())
    }

    #[test]
    fn groups_without_members_that_policies_name() {
        let groups = Groups::new([("a".to_owned(), vec!["ana".to_owned()]), ("b".to_owned(), Vec::new())]);
        assert!(!groups.is_empty("a") && groups.is_empty("b") && groups.is_empty("c"));
        let text = ["a", "b", "c", "d"].map(|group| {
            format!("@id(\"by-{group}\") forbid(principal in PAR::Group::\"{group}\", action, resource);")
        });
        let more = "@id(\"gate\") @require_approval(\"e\") forbid(principal, action in PAR::Action::\"call_tool\", resource) unless { \
                    context.call.approved == \"approved\" && principal in PAR::Group::\"d\" };";
        let source = SourceFile { name: "p.cedar".to_owned(), text: text.concat() + more };
        let bundle = Bundle::load(&[source], &catalog(), &BTreeSet::new()).expect("bundle");
        let bundle = bundle.with_groups(groups);
        let unknown: Vec<(Option<usize>, String)> =
            bundle.unknown_groups().into_iter().map(|error| (error.line, error.reason)).collect();
        let reason = |group: &str| {
            format!("a `forbid` names the group `{group}`, which `[groups]` of par.toml does not define")
        };
        assert_eq!(unknown, [("c", 1), ("d", 1), ("d", 1)].map(|(group, line)| (Some(line), reason(group))));
        let found = bundle.empty_groups();
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, [("b", "by-b"), ("c", "by-c"), ("d", "by-d"), ("e", "gate")]);
    }

    /// Policies see the groups of the requester and of the approver, and the bundle's digest covers
    /// them.
    #[test]
    fn groups_are_entities_and_part_of_the_digest() {
        let groups = |night: &[&str]| {
            let night = night.iter().map(|user| (*user).to_owned()).collect();
            Groups::new([("release".to_owned(), vec!["ana".to_owned()]), ("night".to_owned(), night)])
        };
        let by = |by| Approved::Approved { by: Some(by) };
        let both = groups(&["ana", "ben"]);
        assert!(matches!(ask("ana", Approved::No, &both).0, Ruling::NeedsApproval { .. }));
        for approver in ["ana", "ben"] {
            assert_eq!(ask("ana", by(approver), &both).0.word(), "allow", "{approver}");
        }
        assert_eq!(ask("ana", by("carl"), &both).0.word(), "deny");
        assert_eq!(ask("ben", by("ana"), &both).0.word(), "deny", "not in the group that is permitted");
        assert_ne!(ask("ana", Approved::No, &both).1, ask("ana", Approved::No, &groups(&["ben"])).1);
        assert_eq!(ask("ana", Approved::No, &Groups::default()).0.word(), "deny");
    }
}
