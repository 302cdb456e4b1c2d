//! Connection slots, and the choice of the connection to close if all slots are taken.
//!
//! A connection that waits for its client costs that client nothing. It keeps its slot only while
//! no other client needs it. A connection waits while the head of a request is incomplete, while
//! the body of a request without a key is incomplete, or while the response to a request without a
//! key is being sent. A connection with an authenticated request, or with a complete request in
//! progress, keeps its slot. The server keeps accepting whatever the number of waiting connections,
//! so the kernel's queue does not fill.
//!
//! If the address with the most slots holds more than its share ([`limits::CONNECTIONS_SHARE`]),
//! its connection that has waited longest is closed; otherwise the one of any address that has
//! waited longest. The share is not a limit: through a proxy, and on the loopback, all clients have
//! one address, which a limit would lock out. It only decides who gives way, and a single address
//! gives way to itself.

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

/// The slots. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ConnectionSlots(Arc<SlotPool>);

#[derive(Debug)]
struct SlotPool {
    max: usize,
    table: Mutex<Table>,
    /// Signals that a slot is free or that a connection began to wait for its client.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// The next number, for a connection or for the order in which they began to wait.
    next: u64,
    slots: BTreeMap<u64, Slot>,
    /// Connections that gave up their slot and have not ended yet.
    ending: usize,
}

#[derive(Debug)]
struct Slot {
    from: IpAddr,
    at: At,
    /// The number drawn when it began to wait for its client.
    since: u64,
    /// Number of its requests so far.
    requests: u64,
    /// The principal of an authenticated request in progress.
    key: Option<String>,
    end: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// It waits for its client: for a head, for a body, or to read a response to a request without
    /// a key.
    Waits,
    /// A request that is complete or authenticated is in progress.
    Works,
}

/// The slot of one connection, released on drop.
#[derive(Debug)]
pub(super) struct HeldSlot {
    slots: ConnectionSlots,
    number: u64,
    end: Arc<Notify>,
}

/// A request on a connection, whose progress is reported through this. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    slots: ConnectionSlots,
    number: u64,
    request: u64,
}

impl ConnectionSlots {
    /// Creates at most `max` slots.
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(SlotPool { max: max.max(1), table: Mutex::default(), changed: Notify::new() }))
    }

    /// Takes a slot for a connection from `from`. If none is free, another connection is closed. If
    /// none may be closed, or too many are closing, this waits.
    pub(super) async fn take(&self, from: IpAddr) -> HeldSlot {
        loop {
            let changed = self.0.changed.notified();
            if let Some(held) = self.try_take(network(from)) {
                return held;
            }
            changed.await;
        }
    }

    fn try_take(&self, from: IpAddr) -> Option<HeldSlot> {
        let mut table = self.lock();
        if table.slots.len() >= self.0.max {
            if table.ending >= limits::CONNECTIONS_ENDING_MAX {
                return None;
            }
            let number = table.oldest(self.0.max / limits::CONNECTIONS_SHARE)?;
            if let Some(slot) = table.slots.remove(&number) {
                table.ending += 1;
                slot.end.notify_one();
            }
        }
        let (number, since) = (table.number(), table.number());
        let end = Arc::new(Notify::new());
        let slot = Slot { from, at: At::Waits, since, requests: 0, key: None, end: end.clone() };
        table.slots.insert(number, slot);
        drop(table);
        Some(HeldSlot { slots: self.clone(), number, end })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere leaves the table consistent: each change is one insertion, removal or
        // mark.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the connection to close for a newer one: the one that has waited longest for its
    /// client, of the address with the most slots above `share`.
    fn oldest(&self, share: usize) -> Option<u64> {
        let mut of: HashMap<IpAddr, usize> = HashMap::new();
        for slot in self.slots.values() {
            *of.entry(slot.from).or_default() += 1;
        }
        let over = |slot: &Slot| of.get(&slot.from).copied().filter(|count| *count > share).unwrap_or(0);
        let waiting = self.slots.iter().filter(|(_, slot)| slot.at == At::Waits);
        let first = waiting.min_by_key(|(_, slot)| (std::cmp::Reverse(over(slot)), slot.since));
        first.map(|(number, _)| *number)
    }
}

impl HeldSlot {
    /// Completes when this connection must be closed for a newer one.
    pub(super) fn ends(&self) -> impl Future<Output = ()> + Send + use<> {
        let end = self.end.clone();
        async move { end.notified().await }
    }

    /// Marks that a complete head has arrived; `is_whole` says whether its body is complete too.
    pub(super) fn asked(&self, is_whole: bool) -> Mark {
        let mut request = 0;
        if let Some(slot) = self.slots.lock().slots.get_mut(&self.number) {
            slot.requests += 1;
            request = slot.requests;
            if is_whole {
                slot.at = At::Works;
            }
        }
        Mark { slots: self.slots.clone(), number: self.number, request }
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        let mut table = self.slots.lock();
        if table.slots.remove(&self.number).is_none() {
            table.ending = table.ending.saturating_sub(1);
        }
        drop(table);
        self.slots.0.changed.notify_waiters();
    }
}

impl Mark {
    /// Marks that the whole body was read.
    fn whole(&self) {
        self.with(|slot, _| slot.at = At::Works);
    }

    /// Marks the request as authenticated for `principal`. Returns false if that principal has too
    /// many requests in progress; the request must then be refused.
    #[must_use]
    pub(super) fn proven(&self, principal: &str) -> bool {
        let table = self.slots.lock();
        let others = table.slots.iter().filter(|(number, _)| **number != self.number);
        let of_key = others.filter(|(_, slot)| slot.key.as_deref() == Some(principal)).count();
        drop(table);
        if of_key >= (self.slots.0.max / limits::KEY_CONNECTIONS_SHARE).max(1) {
            return false;
        }
        self.with(|slot, _| (slot.at, slot.key) = (At::Works, Some(principal.to_owned())));
        true
    }

    /// Marks that the response is ready. A response to a request without a key must be read by its
    /// client, or the slot is lost.
    pub(super) fn answered(&self, body: Body) -> Body {
        self.with(|slot, now| {
            if slot.key.is_none() {
                (slot.at, slot.since) = (At::Waits, now);
            }
        });
        Body::new(AnswerBody { body, mark: self.clone() })
    }

    /// Marks that the response was sent or aborted.
    fn taken(&self) {
        self.with(|slot, now| {
            if slot.key.take().is_some() {
                (slot.at, slot.since) = (At::Waits, now);
            }
        });
    }

    /// Changes the slot if this request is still its current one.
    fn with(&self, change: impl FnOnce(&mut Slot, u64)) {
        let mut table = self.slots.lock();
        let now = table.number();
        let slot = table.slots.get_mut(&self.number).filter(|slot| slot.requests == self.request);
        let waits = slot.is_some_and(|slot| {
            change(slot, now);
            slot.at == At::Waits
        });
        drop(table);
        if waits {
            self.slots.0.changed.notify_waiters();
        }
    }
}

/// A request body.
struct RequestBody<B> {
    body: B,
    mark: Mark,
}

/// Wraps the body of a request to mark its end.
pub(super) fn read<B>(body: B, mark: Mark) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    Body::new(RequestBody { body, mark })
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for RequestBody<B> {
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

/// A response body.
struct AnswerBody {
    body: Body,
    mark: Mark,
}

impl HttpBody for AnswerBody {
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

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.mark.taken();
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionSlots, HeldSlot};
    use crate::auth::network;
    use axum::body::Body;

    fn take(slots: &ConnectionSlots, from: &str) -> Option<HeldSlot> {
        slots.try_take(network(from.parse().expect("address")))
    }

    fn is_ended(held: &HeldSlot) -> bool {
        !held.slots.lock().slots.contains_key(&held.number)
    }

    #[test]
    fn the_oldest_waiting_connection_is_closed_and_active_ones_stay() {
        let slots = ConnectionSlots::new(3);
        let [first, second, third] = ["::1"; 3].map(|from| take(&slots, from).expect("free"));
        let works = first.asked(true);
        let fourth = take(&slots, "::1").expect("another ends");
        assert!(!is_ended(&first) && is_ended(&second) && !is_ended(&third));
        // A key protects a request, whether its body is complete or not.
        let keyed = third.asked(false);
        assert!(keyed.proven("key:one"));
        let (_fifth, _sixth) = (take(&slots, "::1").expect("ends"), take(&slots, "::1").expect("ends"));
        assert!(is_ended(&fourth) && !is_ended(&third));
        drop(works);
    }

    #[test]
    fn a_response_without_a_key_must_be_read_and_one_with_a_key_may_take_its_time() {
        let slots = ConnectionSlots::new(2);
        let (keyed, bare) = (take(&slots, "::1").expect("free"), take(&slots, "::1").expect("free"));
        let (with_key, without) = (keyed.asked(false), bare.asked(true));
        assert!(with_key.proven("key:one"));
        assert!(take(&slots, "::1").is_none(), "no connection may be closed");
        let _untaken = without.answered(Body::from("x"));
        let third = take(&slots, "::1").expect("ends");
        assert!(is_ended(&bare) && !is_ended(&keyed));
        let works = third.asked(true);
        let body = with_key.answered(Body::from("x"));
        assert!(take(&slots, "::1").is_none());
        drop(body);
        let _fourth = take(&slots, "::1").expect("ends");
        assert!(is_ended(&keyed));
        // A leftover mark of an earlier request changes nothing.
        drop(with_key.answered(Body::empty()));
        drop(works);
    }

    #[test]
    fn an_address_over_its_share_gives_way_and_a_single_address_is_not_locked_out() {
        let slots = ConnectionSlots::new(8);
        let quiet = take(&slots, "192.0.2.1").expect("free");
        let loud: Vec<HeldSlot> = (0..7).map(|_| take(&slots, "198.51.100.1").expect("free")).collect();
        let more: Vec<HeldSlot> = (0..7).map(|_| take(&slots, "198.51.100.1").expect("ends")).collect();
        assert!(!is_ended(&quiet), "older than all, and within its share");
        assert!(loud.iter().all(is_ended));
        let _another = take(&slots, "192.0.2.1").expect("ends");
        assert_eq!(
            more.iter().map(is_ended).collect::<Vec<_>>(),
            [true, false, false, false, false, false, false]
        );
        // An IPv6 network counts as one address.
        let slots = ConnectionSlots::new(8);
        let quiet = take(&slots, "2001:db8::1").expect("free");
        let _loud: Vec<HeldSlot> =
            (0..20).map(|at| take(&slots, &format!("2001:db8:1::{at}")).expect("a slot")).collect();
        assert!(!is_ended(&quiet));
    }

    #[test]
    fn one_key_has_its_share_of_requests_in_progress() {
        let slots = ConnectionSlots::new(8);
        let held: Vec<HeldSlot> = (0..6).map(|_| take(&slots, "::1").expect("free")).collect();
        let asked: Vec<_> = held.iter().map(|held| held.asked(true)).collect();
        let taken = asked.iter().filter(|mark| mark.proven("key:one")).count();
        assert_eq!(taken, 4);
        assert!(asked[5].proven("key:two"));
        drop(asked[0].answered(Body::empty()));
        assert!(asked[4].proven("key:one"), "one was answered");
    }
}
