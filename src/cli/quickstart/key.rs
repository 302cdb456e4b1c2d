//! The key of the tour: one at a time, and each expires.

use crate::auth::{self, KeyError, MintedKey, NewKey, Principal, Role};
use crate::cli::exit::{self, Fail};
use crate::cli::serve::Serving;
use crate::cli::show;
use crate::ledger::payload::PowerUsed;
use crate::policy::{Door, Over, Power};
use crate::types::Ceiling;
use crate::types::clock::Wall;

/// Name of the key that stays after the tour.
pub(super) const NAME: &str = "quickstart";
/// Name of the key that `--once` makes and revokes.
const ONCE_NAME: &str = "quickstart-once";
/// Lifetime of the key that stays, in days.
pub(super) const DAYS: u64 = 7;
const DAY_US: u64 = 86_400_000_000;
/// Lifetime of the key that `--once` makes, in microseconds.
const ONCE_KEY_US: u64 = 600_000_000;

/// A key with the role `admin`, for the tour and what follows it.
pub(super) struct TourKey {
    minted: MintedKey,
    by: Principal,
    once: bool,
}

impl TourKey {
    /// Makes the key in place of the one that an earlier tour left.
    pub(super) async fn make(serving: &Serving, once: bool) -> Result<Self, Fail> {
        let by = auth::local(&serving.config.home.data, Role::Admin).map_err(Fail::failed)?;
        let (name, lasts_us) =
            if once { (ONCE_NAME, ONCE_KEY_US) } else { (NAME, DAYS.saturating_mul(DAY_US)) };
        match serving.authority.revoke(&by, name, Some(power(serving, &by)?)).await {
            Ok(_) | Err(KeyError::Unknown(_)) => {}
            Err(e) => return Err(Fail::failed(e)),
        }
        let expires = Some(Wall(Wall::now().0.saturating_add(lasts_us)));
        let new =
            NewKey { name: name.to_owned(), role: Role::Admin, user: None, expires, tools: Ceiling::OPEN };
        let made = serving.authority.create(&by, new, Some(power(serving, &by)?)).await;
        let (minted, _) = made.map_err(Fail::failed)?;
        Ok(Self { minted, by, once })
    }

    pub(super) fn expose(&self) -> &str {
        self.minted.expose()
    }

    /// Prints the key. If it stays valid after the command, printing must succeed.
    pub(super) fn show(&self) -> Result<(), Fail> {
        let key = self.expose();
        if self.once {
            return show::line(&format!("Admin key, revoked at the end: {key}"));
        }
        show::hand_over(&format!("Admin key, valid for {DAYS} days, store it now: {key}"))
            .map_err(|e| Fail::failed(format!("the key could not be printed and is revoked: {e}")))
    }

    pub(super) async fn revoke(&self, serving: &Serving) -> Result<(), Fail> {
        let name = if self.once { ONCE_NAME } else { NAME };
        let revoked = serving.authority.revoke(&self.by, name, Some(power(serving, &self.by)?)).await;
        revoked.map(drop).map_err(Fail::failed)
    }
}

/// The record that the rules grant `by` the management of keys.
fn power(serving: &Serving, by: &Principal) -> Result<PowerUsed, Fail> {
    let granted = serving.agent.gate().may(by, Power::KeyManage, Over::Server, Door::LOCAL);
    granted.map(|power| power.record()).map_err(|why| Fail::new(exit::DENIED, why))
}
