//! Which users of this host may use PAR without a key, and as whom.

use super::subject::Role;
use crate::config::OsUser;
use std::collections::BTreeMap;

/// The kernel reports this uid for a user that has none in this user namespace, so it names no
/// person (user_namespaces(7)). The tools of a server that runs as root have it too.
const OVERFLOW_UID: u32 = 65_534;

/// The users of this host who may use PAR: root and the owner of `data/`, and the users in
/// `[auth.os_users]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsUsers {
    /// The role of root and of the owner of `data/`, if no entry names them.
    own: Role,
    named: BTreeMap<String, (String, Role)>,
}

/// A role that does not exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: unknown role `{role}`, expected one of viewer, operator, approver, admin")]
pub struct UnknownRole {
    key: String,
    role: String,
}

/// A user of this host, as far as the configuration knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownUser {
    /// The name on this host.
    pub(super) name: String,
    /// The user that keys and groups name.
    pub(super) user: String,
    /// The role with which the user asks.
    pub(super) role: Role,
    /// Whether it is root or the owner of `data/`.
    pub(super) is_owner: bool,
}

impl OsUsers {
    /// Reads `auth.local_role` and `[auth.os_users]`.
    pub fn resolve(local_role: &str, named: &BTreeMap<String, OsUser>) -> Result<Self, UnknownRole> {
        let role = |key: String, role: &str| {
            Role::parse(role).ok_or_else(|| UnknownRole { key, role: role.to_owned() })
        };
        let own = role("auth.local_role".to_owned(), local_role)?;
        let named = named.iter().map(|(name, of)| {
            let role = role(format!("auth.os_users.{name}.role"), &of.role)?;
            Ok((name.clone(), (of.user.clone(), role)))
        });
        Ok(Self { own, named: named.collect::<Result<_, _>>()? })
    }

    /// Root and the owner of `data/` with the role `own`, and no other user.
    #[must_use]
    pub fn owner_only(own: Role) -> Self {
        Self { own, named: BTreeMap::new() }
    }

    /// The users of this host that are `user`, by their names on this host.
    pub(super) fn named_as(&self, user: &str) -> impl Iterator<Item = String> {
        let named = self.named.iter().filter(|(_, (of, _))| of == user).map(|(name, _)| name.clone());
        let own = user.strip_prefix("os:").filter(|name| !self.named.contains_key(*name)).map(str::to_owned);
        named.chain(own).collect::<Vec<_>>().into_iter()
    }

    /// The user `uid`, whose name on this host is `name`. `owner` owns `data/`.
    pub(super) fn find(&self, uid: u32, name: String, owner: u32) -> Option<KnownUser> {
        let is_owner = uid == 0 || uid == owner;
        match self.named.get(&name) {
            _ if uid == OVERFLOW_UID && !is_owner => None,
            Some((user, role)) => Some(KnownUser { name, user: user.clone(), role: *role, is_owner }),
            None if is_owner => {
                Some(KnownUser { user: format!("os:{name}"), name, role: self.own, is_owner })
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OVERFLOW_UID, OsUsers};
    use crate::auth::Role;
    use crate::config::OsUser;
    use std::collections::BTreeMap;

    fn users(named: &[(&str, &str, &str)]) -> Result<OsUsers, String> {
        let named: BTreeMap<String, OsUser> = named
            .iter()
            .map(|(name, user, role)| {
                ((*name).to_owned(), OsUser { user: (*user).to_owned(), role: (*role).to_owned() })
            })
            .collect();
        OsUsers::resolve("operator", &named).map_err(|e| e.to_string())
    }

    #[test]
    fn root_the_owner_and_named_users_are_known_and_no_other() {
        let users = users(&[("ana", "ana-maria", "approver"), ("nobody", "ghost", "admin")]).expect("users");
        let find = |uid, name: &str| {
            users.find(uid, name.to_owned(), 1000).map(|known| (known.user, known.role, known.is_owner))
        };
        assert_eq!(find(0, "root"), Some(("os:root".to_owned(), Role::Operator, true)));
        assert_eq!(find(1000, "par"), Some(("os:par".to_owned(), Role::Operator, true)));
        assert_eq!(find(1001, "ana"), Some(("ana-maria".to_owned(), Role::Approver, false)));
        assert_eq!(find(1002, "eve"), None);
        assert_eq!(find(OVERFLOW_UID, "nobody"), None, "it names no person");
    }

    /// The configuration refuses an unknown role with its other faults, by these names.
    #[test]
    fn the_configuration_knows_every_role() {
        assert_eq!(Role::ALL.map(Role::as_str), crate::config::ROLE_NAMES);
    }

    #[test]
    fn an_unknown_role_is_refused_by_its_key() {
        assert_eq!(
            users(&[("ana", "ana", "root")]).expect_err("refused"),
            "`auth.os_users.ana.role`: unknown role `root`, expected one of viewer, operator, approver, admin"
        );
    }
}
