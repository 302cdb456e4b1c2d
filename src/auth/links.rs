//! Login links: a code that opens one login, once, within a minute.
//!
//! What is kept is an HMAC of the code under a key of this process, with the principal and the
//! time. So the memory of the front holds no code that could be presented, and a restart ends every
//! link.

use super::principal::Principal;
use super::verifier::MacKey;
use crate::types::digest::hex;
use crate::types::limits;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// What a code begins with.
const PREFIX: &str = "parlink_";
/// The purpose of the HMAC. No other use of a key begins with this text.
const PURPOSE: &str = "par/login-link/1 ";

/// The links that were made and not used. Cheap to clone; one per process.
#[derive(Clone)]
pub struct LoginLinks(Arc<LinkTable>);

struct LinkTable {
    key: MacKey,
    open: Mutex<HashMap<[u8; 32], (Principal, u64)>>,
}

impl LoginLinks {
    /// No links.
    pub fn empty() -> Result<Self, getrandom::Error> {
        Ok(Self(Arc::new(LinkTable { key: MacKey::random()?, open: Mutex::default() })))
    }

    /// Makes a code that opens a login for `principal`. `now_us` is monotonic.
    pub fn mint(&self, principal: Principal, now_us: u64) -> Result<Zeroizing<String>, getrandom::Error> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut())?;
        let code = Zeroizing::new(format!("{PREFIX}{}", hex(bytes.as_ref())));
        let mut open = self.lock();
        open.retain(|_, (_, made_us)| is_open(*made_us, now_us));
        if open.len() >= limits::LOGIN_LINKS_MAX
            && let Some(oldest) = open.iter().min_by_key(|(_, (_, made_us))| *made_us).map(|(mac, _)| *mac)
        {
            open.remove(&oldest);
        }
        open.insert(self.mac(&code), (principal, now_us));
        Ok(code)
    }

    /// Whether `text` has the form of a code.
    #[must_use]
    pub fn is_code(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// The principal of `code`, which is used up by this.
    #[must_use]
    pub fn redeem(&self, code: &str, now_us: u64) -> Option<Principal> {
        let (principal, made_us) = self.lock().remove(&self.mac(code))?;
        is_open(made_us, now_us).then_some(principal)
    }

    fn mac(&self, code: &str) -> [u8; 32] {
        self.0.key.mac(&format!("{PURPOSE}{code}"))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Principal, u64)>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_open(made_us: u64, now_us: u64) -> bool {
    now_us.saturating_sub(made_us) < limits::LOGIN_LINK_MS_MAX * 1_000
}

impl fmt::Debug for LoginLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoginLinks({})", self.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::LoginLinks;
    use crate::auth::fixture::Fixture;
    use crate::types::limits;

    const MINUTE_US: u64 = 60_000_000;

    #[tokio::test]
    async fn a_link_opens_one_login_within_a_minute() {
        let home = Fixture::open().await;
        let links = LoginLinks::empty().expect("links");
        let code = links.mint(home.owner.clone(), 0).expect("code");
        assert!(LoginLinks::is_code(&code) && !LoginLinks::is_code("par_x"));
        assert!(!format!("{links:?}").contains(code.as_str()));
        assert_eq!(links.redeem("parlink_00", 1), None);
        assert_eq!(links.redeem(&code, 1), Some(home.owner.clone()));
        assert_eq!(links.redeem(&code, 2), None, "once");
        let late = links.mint(home.owner.clone(), 0).expect("code");
        assert_eq!(links.redeem(&late, MINUTE_US), None, "a minute");
        let first = links.mint(home.owner.clone(), 0).expect("code");
        for at in 1..=limits::LOGIN_LINKS_MAX as u64 {
            links.mint(home.owner.clone(), at).expect("code");
        }
        assert_eq!(links.redeem(&first, 100), None, "the oldest one gave way");
    }
}
