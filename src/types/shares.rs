//! A semaphore with a total bound and a bound for each key, so that no key can take every permit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permits. Clones share them.
#[derive(Clone, Debug)]
pub struct Shares(Arc<ShareTable>);

#[derive(Debug)]
struct ShareTable {
    all: Arc<Semaphore>,
    each_max: usize,
    /// Entries exist only for keys that hold a permit or wait for one.
    each: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A permit, returned on drop.
#[derive(Debug)]
pub struct Share {
    all: Option<OwnedSemaphorePermit>,
    own: Option<OwnedSemaphorePermit>,
    shares: Shares,
}

/// Why no permit is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All permits are taken.
    All,
    /// This key holds as many permits as it may.
    Share,
}

impl Shares {
    /// At most `all_max` permits in total, and at most `each_max` for each key.
    #[must_use]
    pub fn new(all_max: usize, each_max: usize) -> Self {
        Self(Arc::new(ShareTable {
            all: Arc::new(Semaphore::new(all_max)),
            each_max,
            each: Mutex::default(),
        }))
    }

    /// Takes a permit for the key `of` if one is free now.
    pub fn try_take(&self, of: &str) -> Result<Share, Full> {
        let mut share = Share { all: None, own: None, shares: self.clone() };
        share.own = Some(self.own(of).try_acquire_owned().map_err(|_| Full::Share)?);
        share.all = Some(self.0.all.clone().try_acquire_owned().map_err(|_| Full::All)?);
        Ok(share)
    }

    /// Takes a permit for the key `of`, in order of arrival. A caller that waits for its own share
    /// holds none of the shared permits.
    pub async fn take(&self, of: &str) -> Share {
        let mut share = Share { all: None, own: None, shares: self.clone() };
        // Neither semaphore is ever closed.
        share.own = self.own(of).acquire_owned().await.ok();
        share.all = self.0.all.clone().acquire_owned().await.ok();
        share
    }

    fn own(&self, of: &str) -> Arc<Semaphore> {
        let fresh = || Arc::new(Semaphore::new(self.0.each_max));
        self.each().entry(of.to_owned()).or_insert_with(fresh).clone()
    }

    fn each(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Semaphore>>> {
        // A panic elsewhere leaves the map consistent: each change is one insertion or removal.
        self.0.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        drop((self.all.take(), self.own.take()));
        // A caller that holds a permit or waits for one has another handle to the semaphore.
        self.shares.each().retain(|_, own| Arc::strong_count(own) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Full, Shares};

    #[test]
    fn each_key_and_the_total_are_bounded() {
        let shares = Shares::new(3, 2);
        let held = [shares.try_take("one").expect("free"), shares.try_take("one").expect("free")];
        assert_eq!(shares.try_take("one").err(), Some(Full::Share));
        let third = shares.try_take("two").expect("there for others");
        assert_eq!(shares.try_take("two").err(), Some(Full::All));
        drop(third);
        drop(held);
        assert!(shares.each().is_empty(), "no key is left in the table");
    }

    #[tokio::test]
    async fn a_key_that_waits_for_its_share_holds_up_no_other() {
        let shares = Shares::new(2, 1);
        let first = shares.take("one").await;
        let waiting = tokio::spawn({
            let shares = shares.clone();
            async move { shares.take("one").await }
        });
        tokio::task::yield_now().await;
        let second = shares.try_take("two").expect("there for others");
        drop(first);
        drop(waiting.await.expect("its turn"));
        drop(second);
        assert!(shares.each().is_empty());
    }
}
