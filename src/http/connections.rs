//! The places of connections, and which connection ends for a newer one when there are no more.
//!
//! A connection that waits for its client costs its client nothing, so it holds its place only while nobody else
//! wants it: without the whole head of a request, without its body where no key was shown, or with an answer to a
//! request without a key. A request with a valid key, and one that is whole and being answered, keep theirs. The
//! server never stops accepting for those that wait, so the kernel's queue does not fill.
//!
//! Of those that may end, the oldest of the address with the most places goes first, if that address holds more than
//! its share ([`limits::CONNECTIONS_SHARE`]); else the oldest of all. The share is no bound: behind a proxy, and on
//! the loopback, all clients have one address, which a bound would lock out. It only says who gives way, and an address
//! that is alone gives way to itself.

use crate::auth::network;
use crate::types::limits;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// The places. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: usize,
    table: Mutex<Table>,
    /// A place is free, or its connection waits for its client.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// The next number: of a connection, and of the order in which they began to wait.
    next: u64,
    places: BTreeMap<u64, Place>,
    /// Connections that gave their place and are not gone yet.
    ending: usize,
}

#[derive(Debug)]
struct Place {
    from: IpAddr,
    at: At,
    /// When it began to wait for its client.
    since: u64,
    /// Its requests so far.
    requests: u64,
    /// Who asks, while a request with a valid key is under way.
    key: Option<String>,
    end: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// It waits for its client: for a head, for a body, or for an answer without a key to be taken.
    Waits,
    /// A request that is whole, or has a valid key, is under way.
    Works,
}

/// The place of one connection, given back on drop.
#[derive(Debug)]
pub(super) struct Held {
    places: Places,
    number: u64,
    end: Arc<Notify>,
}

/// A request on a connection, for those who find out how far it is. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    places: Places,
    number: u64,
    request: u64,
}

impl Places {
    /// At most `max` of them.
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Inner { max: max.max(1), table: Mutex::default(), changed: Notify::new() }))
    }

    /// A place for a connection from `from`. Where none is free another connection ends; where none may end, or too
    /// many are ending, this waits.
    pub(super) async fn take(&self, from: IpAddr) -> Held {
        loop {
            let changed = self.0.changed.notified();
            if let Some(held) = self.try_take(network(from)) {
                return held;
            }
            changed.await;
        }
    }

    fn try_take(&self, from: IpAddr) -> Option<Held> {
        let mut table = self.lock();
        if table.places.len() >= self.0.max {
            if table.ending >= limits::CONNECTIONS_ENDING_MAX {
                return None;
            }
            let number = table.oldest(self.0.max / limits::CONNECTIONS_SHARE)?;
            if let Some(place) = table.places.remove(&number) {
                table.ending += 1;
                place.end.notify_one();
            }
        }
        let (number, since) = (table.number(), table.number());
        let end = Arc::new(Notify::new());
        let place = Place { from, at: At::Waits, since, requests: 0, key: None, end: end.clone() };
        table.places.insert(number, place);
        drop(table);
        Some(Held { places: self.clone(), number, end })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere leaves the table whole: each change is one insertion, removal or mark.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The connection that ends for a newer one: the one that has waited longest for its client, of the address that
    /// holds the most places over its `share`.
    fn oldest(&self, share: usize) -> Option<u64> {
        let mut of: HashMap<IpAddr, usize> = HashMap::new();
        for place in self.places.values() {
            *of.entry(place.from).or_default() += 1;
        }
        let over = |place: &Place| of.get(&place.from).copied().filter(|count| *count > share).unwrap_or(0);
        let waiting = self.places.iter().filter(|(_, place)| place.at == At::Waits);
        let first = waiting.min_by_key(|(_, place)| (std::cmp::Reverse(over(place)), place.since));
        first.map(|(number, _)| *number)
    }
}

impl Held {
    /// Comes back once this connection has to end for a newer one.
    pub(super) fn ends(&self) -> impl Future<Output = ()> + Send + use<> {
        let end = self.end.clone();
        async move { end.notified().await }
    }

    /// Marks that a whole head has come, of a request whose body `is_whole` already or is still to come.
    pub(super) fn asked(&self, is_whole: bool) -> Mark {
        let mut request = 0;
        if let Some(place) = self.places.lock().places.get_mut(&self.number) {
            place.requests += 1;
            request = place.requests;
            if is_whole {
                place.at = At::Works;
            }
        }
        Mark { places: self.places.clone(), number: self.number, request }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = self.places.lock();
        if table.places.remove(&self.number).is_none() {
            table.ending = table.ending.saturating_sub(1);
        }
        drop(table);
        self.places.0.changed.notify_waiters();
    }
}

impl Mark {
    /// The whole body was read.
    fn whole(&self) {
        self.with(|place, _| place.at = At::Works);
    }

    /// The request has a valid key, that of `principal`. False where that one has too many requests under way: then
    /// it is to be refused.
    #[must_use]
    pub(super) fn proven(&self, principal: &str) -> bool {
        let table = self.places.lock();
        let others = table.places.iter().filter(|(number, _)| **number != self.number);
        let of_key = others.filter(|(_, place)| place.key.as_deref() == Some(principal)).count();
        drop(table);
        if of_key >= (self.places.0.max / limits::KEY_CONNECTIONS_SHARE).max(1) {
            return false;
        }
        self.with(|place, _| (place.at, place.key) = (At::Works, Some(principal.to_owned())));
        true
    }

    /// The answer is made. One to a request without a key has to be taken, or its place goes.
    pub(super) fn answered(&self, body: Body) -> Body {
        self.with(|place, now| {
            if place.key.is_none() {
                (place.at, place.since) = (At::Waits, now);
            }
        });
        Body::new(Told { body, mark: self.clone() })
    }

    /// The answer was taken, or broken off.
    fn taken(&self) {
        self.with(|place, now| {
            if place.key.take().is_some() {
                (place.at, place.since) = (At::Waits, now);
            }
        });
    }

    /// Changes the place while this request is the one that it is about.
    fn with(&self, change: impl FnOnce(&mut Place, u64)) {
        let mut table = self.places.lock();
        let now = table.number();
        let place = table.places.get_mut(&self.number).filter(|place| place.requests == self.request);
        let waits = place.is_some_and(|place| {
            change(place, now);
            place.at == At::Waits
        });
        drop(table);
        if waits {
            self.places.0.changed.notify_waiters();
        }
    }
}

/// A body on its way in.
struct Asked<B> {
    body: B,
    mark: Mark,
}

/// The body of a request, whose end is marked.
pub(super) fn read<B>(body: B, mark: Mark) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    Body::new(Asked { body, mark })
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Asked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || (polled.is_ready() && self.body.is_end_stream()) {
            self.mark.whole();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body on its way out.
struct Told {
    body: Body,
    mark: Mark,
}

impl HttpBody for Told {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.mark.taken();
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, Places};
    use crate::auth::network;
    use axum::body::Body;

    fn take(places: &Places, from: &str) -> Option<Held> {
        places.try_take(network(from.parse().expect("address")))
    }

    fn is_ended(held: &Held) -> bool {
        !held.places.lock().places.contains_key(&held.number)
    }

    #[test]
    fn the_oldest_that_waits_ends_and_what_works_stays() {
        let places = Places::new(3);
        let [first, second, third] = ["::1"; 3].map(|from| take(&places, from).expect("free"));
        let works = first.asked(true);
        let fourth = take(&places, "::1").expect("another ends");
        assert!(!is_ended(&first) && is_ended(&second) && !is_ended(&third));
        // A key takes a request out of those that wait, its body or not.
        let keyed = third.asked(false);
        assert!(keyed.proven("key:one"));
        let (_fifth, _sixth) = (take(&places, "::1").expect("ends"), take(&places, "::1").expect("ends"));
        assert!(is_ended(&fourth) && !is_ended(&third));
        drop(works);
    }

    #[test]
    fn an_answer_without_a_key_has_to_be_taken_and_one_with_a_key_may_take_its_time() {
        let places = Places::new(2);
        let (keyed, bare) = (take(&places, "::1").expect("free"), take(&places, "::1").expect("free"));
        let (with_key, without) = (keyed.asked(false), bare.asked(true));
        assert!(with_key.proven("key:one"));
        assert!(take(&places, "::1").is_none(), "nobody may end");
        let _untaken = without.answered(Body::from("x"));
        let third = take(&places, "::1").expect("ends");
        assert!(is_ended(&bare) && !is_ended(&keyed));
        let works = third.asked(true);
        let body = with_key.answered(Body::from("x"));
        assert!(take(&places, "::1").is_none());
        drop(body);
        let _fourth = take(&places, "::1").expect("ends");
        assert!(is_ended(&keyed));
        // What is left of an earlier request changes nothing.
        drop(with_key.answered(Body::empty()));
        drop(works);
    }

    #[test]
    fn an_address_over_its_share_gives_way_and_one_that_is_alone_is_not_locked_out() {
        let places = Places::new(8);
        let quiet = take(&places, "192.0.2.1").expect("free");
        let loud: Vec<Held> = (0..7).map(|_| take(&places, "198.51.100.1").expect("free")).collect();
        let more: Vec<Held> = (0..7).map(|_| take(&places, "198.51.100.1").expect("ends")).collect();
        assert!(!is_ended(&quiet), "older than all, and within its share");
        assert!(loud.iter().all(is_ended));
        let _another = take(&places, "192.0.2.1").expect("ends");
        assert_eq!(
            more.iter().map(is_ended).collect::<Vec<_>>(),
            [true, false, false, false, false, false, false]
        );
        // Networks of IPv6 are one address each.
        let places = Places::new(8);
        let quiet = take(&places, "2001:db8::1").expect("free");
        let _loud: Vec<Held> =
            (0..20).map(|at| take(&places, &format!("2001:db8:1::{at}")).expect("a place")).collect();
        assert!(!is_ended(&quiet));
    }

    #[test]
    fn one_key_has_its_share_of_requests_under_way() {
        let places = Places::new(8);
        let held: Vec<Held> = (0..6).map(|_| take(&places, "::1").expect("free")).collect();
        let asked: Vec<_> = held.iter().map(|held| held.asked(true)).collect();
        let taken = asked.iter().filter(|mark| mark.proven("key:one")).count();
        assert_eq!(taken, 4);
        assert!(asked[5].proven("key:two"));
        drop(asked[0].answered(Body::empty()));
        assert!(asked[4].proven("key:one"), "one was answered");
    }
}
