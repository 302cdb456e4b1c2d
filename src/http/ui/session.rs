//! Open sessions: a random id in the browser's cookie, its hash here.
//!
//! Held in memory only: a restart ends every session, and nothing on the disk could be stolen and used.
//!
//! A cookie goes to every port of its host, and on the loopback other servers may listen on those. So a session also has
//! a proof, which the script of the login page makes and keeps in the tab (`sessionStorage`, which belongs to one origin,
//! its port too): with the cookie alone one reads, and answers nothing.

use crate::auth::Principal;
use crate::types::digest::hex;
use crate::types::{Digest, limits};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq as _;

/// The sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<Digest, Open>>,
}

#[derive(Debug)]
struct Open {
    principal: Principal,
    form_token: String,
    /// The hash of what the tab proves; `None` where it has no script.
    proof: Option<Digest>,
    opened_us: u64,
    seen_us: u64,
}

/// A session that was found by its id.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// The hash of its id.
    pub(super) hash: Digest,
    /// Whose key opened it. How the key stands now was not looked at.
    pub(super) proven: Principal,
    /// What its forms carry.
    pub(super) form_token: String,
    proof: Option<Digest>,
    opened_us: u64,
}

impl Session {
    /// Whether its key was shown a short while ago: a yes to a call wants more than an open page.
    pub(super) fn is_fresh(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.opened_us) < limits::SESSION_FRESH_MS_MAX * 1_000
    }

    /// Whether a form comes from the tab that logged in.
    pub(super) fn is_proven(&self, proof: &str) -> bool {
        self.proof.is_some_and(|own| own.0.ct_eq(&Digest::of(proof.as_bytes()).0).into())
    }

    /// Whether a form was made for this session.
    pub(super) fn made(&self, form_token: &str) -> bool {
        self.form_token.as_bytes().ct_eq(form_token.as_bytes()).into()
    }
}

impl Sessions {
    /// Opens a session and returns its id, which is kept nowhere here. `proof` is what the tab has made for it, 32 bytes
    /// in hexadecimal; any other text is none. `now_us` is monotonic.
    pub(super) fn open(
        &self,
        principal: Principal,
        proof: &str,
        now_us: u64,
    ) -> Result<String, getrandom::Error> {
        let (id, form_token) = (random()?, random()?);
        let mut open = self.lock();
        open.retain(|_, session| session.holds(now_us));
        let own = open.values().filter(|session| session.principal == principal).count();
        if own >= limits::KEY_SESSIONS_MAX {
            end_oldest(&mut open, |session| session.principal == principal);
        }
        if open.len() >= limits::SESSIONS_MAX {
            end_oldest(&mut open, |_| true);
        }
        let is_proof = proof.len() == 64 && proof.bytes().all(|b| b.is_ascii_hexdigit());
        let proof = is_proof.then(|| Digest::of(proof.as_bytes()));
        let session = Open { principal, form_token, proof, opened_us: now_us, seen_us: now_us };
        open.insert(Digest::of(id.as_bytes()), session);
        Ok(id)
    }

    /// The session of this id, which was used just now.
    pub(super) fn find(&self, id: &str, now_us: u64) -> Option<Session> {
        let hash = Digest::of(id.as_bytes());
        let found = self.look(&hash, now_us)?;
        if let Some(session) = self.lock().get_mut(&hash) {
            session.seen_us = now_us;
        }
        Some(found)
    }

    /// The session of this hash, whose idle time goes on: a page that is only left open is no use of it.
    pub(super) fn look(&self, hash: &Digest, now_us: u64) -> Option<Session> {
        let mut open = self.lock();
        if !open.get(hash)?.holds(now_us) {
            open.remove(hash);
            return None;
        }
        let session = open.get(hash)?;
        Some(Session {
            hash: *hash,
            proven: session.principal.clone(),
            form_token: session.form_token.clone(),
            proof: session.proof,
            opened_us: session.opened_us,
        })
    }

    /// Ends one session.
    pub(super) fn end(&self, hash: &Digest) {
        self.lock().remove(hash);
    }

    /// Ends every session that a key has opened.
    pub(super) fn end_of(&self, principal: &Principal) {
        self.lock().retain(|_, session| session.principal.source() != principal.source());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Open>> {
        // A panic under this lock cannot have left a session half open.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn holds(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.seen_us) < limits::SESSION_IDLE_MS_MAX * 1_000
            && now_us.saturating_sub(self.opened_us) < limits::SESSION_LIFE_MS_MAX * 1_000
    }
}

fn end_oldest(open: &mut HashMap<Digest, Open>, of: impl Fn(&Open) -> bool) {
    let oldest = open.iter().filter(|(_, session)| of(session)).min_by_key(|(_, session)| session.opened_us);
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
    use super::Sessions;
    use crate::auth::fixture::Fixture;
    use crate::types::limits;

    const HOUR_US: u64 = 3_600_000_000;

    #[tokio::test]
    async fn a_session_ends_when_idle_when_old_and_when_told() {
        let home = Fixture::open().await;
        let sessions = Sessions::default();
        let id = sessions.open(home.owner.clone(), "", 0).expect("id");
        assert_eq!(id.len(), 64);
        assert!(sessions.find("other", 1).is_none());
        let hash = sessions.find(&id, 11 * HOUR_US).expect("used within 12 h").hash;
        // Only looked at: the idle time goes on.
        assert!(sessions.look(&hash, 22 * HOUR_US).is_some());
        assert!(sessions.look(&hash, 23 * HOUR_US).is_none(), "12 h without use");
        let id = sessions.open(home.owner.clone(), "", 0).expect("id");
        for hour in (0..7 * 24).step_by(6) {
            assert!(sessions.find(&id, hour * HOUR_US).is_some(), "{hour}");
        }
        assert!(sessions.find(&id, 7 * 24 * HOUR_US).is_none(), "7 days");
        let id = sessions.open(home.owner.clone(), "", 0).expect("id");
        let session = sessions.find(&id, 0).expect("open");
        assert!(session.is_fresh(14 * HOUR_US / 60) && !session.is_fresh(15 * HOUR_US / 60));
        assert!(session.made(&session.form_token) && !session.made("") && !session.made(&id));
        sessions.end(&session.hash);
        assert!(sessions.find(&id, 0).is_none());
    }

    #[tokio::test]
    async fn ids_are_kept_as_hashes_and_sessions_are_bounded() {
        let home = Fixture::open().await;
        let sessions = Sessions::default();
        let first = sessions.open(home.owner.clone(), "", 0).expect("id");
        assert!(!format!("{sessions:?}").contains(&first));
        for at in 1..=limits::KEY_SESSIONS_MAX as u64 {
            sessions.open(home.owner.clone(), "", at).expect("id");
        }
        assert!(sessions.find(&first, 100).is_none(), "the oldest made place");
        assert_eq!(sessions.lock().len(), limits::KEY_SESSIONS_MAX);
        sessions.end_of(&home.owner);
        assert_eq!(sessions.lock().len(), 0);
    }
    #[tokio::test]
    async fn a_proof_is_that_of_its_session_and_no_proof_is_none() {
        let home = Fixture::open().await;
        let sessions = Sessions::default();
        let proof = "5a".repeat(32);
        let open = |proof: &str| {
            let id = sessions.open(home.owner.clone(), proof, 0).expect("id");
            sessions.find(&id, 0).expect("open")
        };
        let (proven, other) = (open(&proof), open(&"a5".repeat(32)));
        assert!(proven.is_proven(&proof) && !other.is_proven(&proof) && !proven.is_proven(""));
        assert!(!format!("{sessions:?}").contains(&proof), "kept as a hash");
        for none in ["", "5a", &"x".repeat(64)] {
            assert!(!open(none).is_proven(none), "{none:?}");
        }
    }
}
