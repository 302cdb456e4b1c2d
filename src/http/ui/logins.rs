//! Open logins: the browser's cookie contains a random id, and this table its hash.
//!
//! The table exists only in memory: a restart ends every login, and nothing on disk could be stolen
//! and used.
//!
//! A browser sends a cookie to every port of its host, and on the loopback other servers may listen
//! on those ports. So a login also has a proof. The script of the login page creates it and keeps
//! it in the tab (`sessionStorage`, which belongs to one origin including its port). The cookie
//! alone permits reading, but no answers.

use super::cookie::Purpose;
use crate::auth::Principal;
use crate::types::clock::Wall;
use crate::types::digest::hex;
use crate::types::{Digest, limits};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq as _;

/// The open logins.
#[derive(Debug, Default)]
pub(super) struct Logins {
    open: Mutex<HashMap<Digest, OpenLogin>>,
}

#[derive(Debug)]
struct OpenLogin {
    principal: Principal,
    purpose: Purpose,
    form_token: String,
    /// The hash of the tab's proof; `None` if the browser runs no scripts.
    proof: Option<Digest>,
    opened_us: u64,
    /// When it was opened, by the wall clock.
    opened_wall: Wall,
    seen_us: u64,
}

/// A login found by its id.
#[derive(Clone, Debug)]
pub(super) struct Login {
    /// The hash of its id.
    pub(super) hash: Digest,
    /// The principal of the key that opened it. Whether the key is still valid has not been
    /// checked.
    pub(super) proven: Principal,
    /// The token that its forms carry.
    pub(super) form_token: String,
    pub(super) purpose: Purpose,
    proof: Option<Digest>,
    opened_us: u64,
    opened_wall: Wall,
}

impl Login {
    /// Whether it may answer a question that was asked at `asked`, a time of RFC 3339 as approvals
    /// have it. A login by a link answers what was asked before it.
    pub(super) fn is_after(&self, asked: &str) -> bool {
        // Both are UTC with six digits after the point, so their order is that of the text.
        self.purpose == Purpose::Read || asked <= self.opened_wall.rfc3339().as_str()
    }

    /// Whether the key was shown recently: an approval needs more than an open page.
    pub(super) fn is_fresh(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.opened_us) < limits::LOGIN_FRESH_MS_MAX * 1_000
    }

    /// Whether a form comes from the tab that logged in.
    pub(super) fn is_proven(&self, proof: &str) -> bool {
        self.proof.is_some_and(|own| own.0.ct_eq(&Digest::sha256(proof.as_bytes()).0).into())
    }

    /// Whether a form was made for this login.
    pub(super) fn made(&self, form_token: &str) -> bool {
        self.form_token.as_bytes().ct_eq(form_token.as_bytes()).into()
    }
}

impl Logins {
    /// Opens a login and returns its id, which is not stored here. `proof` is the proof that the
    /// tab created, 32 bytes in hexadecimal; any other text counts as none. `now_us` is monotonic.
    pub(super) fn open(
        &self,
        principal: Principal,
        purpose: Purpose,
        proof: &str,
        now_us: u64,
    ) -> Result<String, getrandom::Error> {
        let (id, form_token) = (random()?, random()?);
        let mut open = self.lock();
        open.retain(|_, login| login.holds(now_us));
        let own = open.values().filter(|login| login.principal == principal).count();
        if own >= limits::KEY_LOGINS_MAX {
            end_oldest(&mut open, |login| login.principal == principal);
        }
        if open.len() >= limits::LOGINS_MAX {
            end_oldest(&mut open, |_| true);
        }
        let is_proof = proof.len() == 64 && proof.bytes().all(|b| b.is_ascii_hexdigit());
        let proof = is_proof.then(|| Digest::sha256(proof.as_bytes()));
        let opened_wall = Wall::now();
        let login = OpenLogin {
            principal,
            purpose,
            form_token,
            proof,
            opened_us: now_us,
            opened_wall,
            seen_us: now_us,
        };
        open.insert(Digest::sha256(id.as_bytes()), login);
        Ok(id)
    }

    /// Returns the login with this id and marks it as used.
    pub(super) fn find(&self, id: &str, now_us: u64) -> Option<Login> {
        let hash = Digest::sha256(id.as_bytes());
        let found = self.look(&hash, now_us)?;
        if let Some(login) = self.lock().get_mut(&hash) {
            login.seen_us = now_us;
        }
        Some(found)
    }

    /// Returns the login with this hash without marking it as used: an open page alone is not a
    /// use.
    pub(super) fn look(&self, hash: &Digest, now_us: u64) -> Option<Login> {
        let mut open = self.lock();
        if !open.get(hash)?.holds(now_us) {
            open.remove(hash);
            return None;
        }
        let login = open.get(hash)?;
        Some(Login {
            hash: *hash,
            proven: login.principal.clone(),
            form_token: login.form_token.clone(),
            purpose: login.purpose,
            proof: login.proof,
            opened_us: login.opened_us,
            opened_wall: login.opened_wall,
        })
    }

    /// Ends one login.
    pub(super) fn end(&self, hash: &Digest) {
        self.lock().remove(hash);
    }

    /// Ends every login that a key has opened.
    pub(super) fn end_of(&self, principal: &Principal) {
        self.lock().retain(|_, login| login.principal.source() != principal.source());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, OpenLogin>> {
        // A panic under this lock cannot leave a login half open.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenLogin {
    fn holds(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.seen_us) < limits::LOGIN_IDLE_MS_MAX * 1_000
            && now_us.saturating_sub(self.opened_us) < self.purpose.life_ms_max() * 1_000
    }
}

fn end_oldest(open: &mut HashMap<Digest, OpenLogin>, of: impl Fn(&OpenLogin) -> bool) {
    let oldest = open.iter().filter(|(_, login)| of(login)).min_by_key(|(_, login)| login.opened_us);
    if let Some(hash) = oldest.map(|(hash, _)| *hash) {
        open.remove(&hash);
    }
}

fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::{Logins, Purpose};
    use crate::auth::fixture::Fixture;
    use crate::types::clock::Wall;
    use crate::types::limits;

    const HOUR_US: u64 = 3_600_000_000;

    #[tokio::test]
    async fn a_login_ends_when_idle_when_old_and_on_logout() {
        let home = Fixture::open().await;
        let logins = Logins::default();
        let id = logins.open(home.owner.clone(), Purpose::Read, "", 0).expect("id");
        assert_eq!(id.len(), 64);
        assert!(logins.find("other", 1).is_none());
        let hash = logins.find(&id, 11 * HOUR_US).expect("used within 12 h").hash;
        // Reading by hash does not reset the idle time.
        assert!(logins.look(&hash, 22 * HOUR_US).is_some());
        assert!(logins.look(&hash, 23 * HOUR_US).is_none(), "12 h without use");
        let id = logins.open(home.owner.clone(), Purpose::Read, "", 0).expect("id");
        for hour in (0..7 * 24).step_by(6) {
            assert!(logins.find(&id, hour * HOUR_US).is_some(), "{hour}");
        }
        assert!(logins.find(&id, 7 * 24 * HOUR_US).is_none(), "7 days");
        let id = logins.open(home.owner.clone(), Purpose::Read, "", 0).expect("id");
        let login = logins.find(&id, 0).expect("open");
        assert!(login.is_fresh(14 * HOUR_US / 60) && !login.is_fresh(15 * HOUR_US / 60));
        assert!(login.made(&login.form_token) && !login.made("") && !login.made(&id));
        logins.end(&login.hash);
        assert!(logins.find(&id, 0).is_none());
    }

    #[tokio::test]
    async fn a_login_by_a_link_answers_for_a_quarter_of_an_hour_what_was_asked_before() {
        let home = Fixture::open().await;
        let logins = Logins::default();
        let before = Wall::now().rfc3339();
        let id = logins.open(home.owner.clone(), Purpose::Answer, "", 0).expect("id");
        let login = logins.find(&id, 0).expect("open");
        let later = Wall(Wall::now().0 + 1_000_000).rfc3339();
        assert!(login.is_after(&before) && !login.is_after(&later));
        assert!(logins.find(&id, 14 * HOUR_US / 60).is_some());
        assert!(logins.find(&id, 15 * HOUR_US / 60).is_none(), "a quarter of an hour");
        let id = logins.open(home.owner.clone(), Purpose::Read, "", 0).expect("id");
        assert!(logins.find(&id, 0).expect("open").is_after(&later), "a key's login is as before");
    }

    #[tokio::test]
    async fn ids_are_kept_as_hashes_and_logins_are_bounded() {
        let home = Fixture::open().await;
        let logins = Logins::default();
        let first = logins.open(home.owner.clone(), Purpose::Read, "", 0).expect("id");
        assert!(!format!("{logins:?}").contains(&first));
        for at in 1..=limits::KEY_LOGINS_MAX as u64 {
            logins.open(home.owner.clone(), Purpose::Read, "", at).expect("id");
        }
        assert!(logins.find(&first, 100).is_none(), "the oldest one was ended");
        assert_eq!(logins.lock().len(), limits::KEY_LOGINS_MAX);
        logins.end_of(&home.owner);
        assert_eq!(logins.lock().len(), 0);
    }
    #[tokio::test]
    async fn a_proof_is_valid_only_for_its_login_and_never_empty() {
        let home = Fixture::open().await;
        let logins = Logins::default();
        let proof = "5a".repeat(32);
        let open = |proof: &str| {
            let id = logins.open(home.owner.clone(), Purpose::Read, proof, 0).expect("id");
            logins.find(&id, 0).expect("open")
        };
        let (proven, other) = (open(&proof), open(&"a5".repeat(32)));
        assert!(proven.is_proven(&proof) && !other.is_proven(&proof) && !proven.is_proven(""));
        assert!(!format!("{logins:?}").contains(&proof), "kept as a hash");
        for none in ["", "5a", &"x".repeat(64)] {
            assert!(!open(none).is_proven(none), "{none:?}");
        }
    }
}
