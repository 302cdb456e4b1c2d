//! One launcher's socket within a runtime: which caller receives the events of which call, and the
//! order of outgoing packets.

use super::source::nonblocking;
use crate::call::{Object, Unprepared};
use crate::launcher::protocol::{
    self, Arrival, Assembler, Ended, PACKET_BYTES_MAX, PacketKind, Received, Reply, Report, Request,
    receive_with,
};
use crate::types::limits::LINK_CALL_MESSAGES_MAX;
use rustix::net::{Shutdown, shutdown};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One launcher's socket, its reader and its writer.
#[derive(Debug)]
pub(super) struct Link {
    outgoing: Outgoing,
    pub(super) listeners: Arc<Listeners>,
    pub(super) report: Mutex<Option<Report>>,
    /// Pings in a row that it left unanswered.
    pub(super) missed: AtomicU32,
}

/// Outgoing packets: written straight to the socket, and only if that is full queued for the
/// writer, which costs a task switch.
#[derive(Debug)]
struct Outgoing {
    socket: Arc<AsyncFd<OwnedFd>>,
    queue: UnboundedSender<(Vec<u8>, Option<OwnedFd>)>,
    /// Packets that the writer has not sent yet. While there are any, all others are queued too, to
    /// stay in order.
    queued: Arc<Mutex<usize>>,
}

#[derive(Debug, Default)]
pub(super) struct Listeners {
    calls: Mutex<HashMap<u64, Listener>>,
    ended: AtomicBool,
}

/// The receiver of one call's events, and how much the launcher may still send about that call. A
/// compromised launcher could otherwise send more than any receiver takes.
#[derive(Debug)]
struct Listener {
    events: UnboundedSender<Event>,
    messages_left: u32,
    /// 0 before its go.
    output_bytes_left: usize,
}

/// The cost of an empty piece of output, which takes memory too, in bytes.
pub(super) const EMPTY_BYTES: usize = 1;

impl Listener {
    /// Counts `event`; returns whether the launcher may send it now.
    fn admits(&mut self, event: &Event) -> bool {
        let left = match event {
            Event::Output(_, bytes) => {
                let left = self.output_bytes_left.checked_sub(bytes.len().max(EMPTY_BYTES));
                left.map(|left| self.output_bytes_left = left)
            }
            _ => self.messages_left.checked_sub(1).map(|left| self.messages_left = left),
        };
        left.is_some()
    }
}

#[derive(Debug)]
pub(super) enum Event {
    Hello(Result<Report, String>),
    Prepared(Object, Option<OwnedFd>),
    NotPrepared(Unprepared),
    Output(PacketKind, Vec<u8>),
    Ended(Ended),
    Pong,
}

impl Listeners {
    /// Ends all delivery of events; each waiting call is over.
    pub(super) fn end(&self) {
        let mut calls = lock(&self.calls);
        self.ended.store(true, Ordering::Release);
        calls.clear();
    }

    /// Ends the delivery of events for the call `id`.
    pub(super) fn forget(&self, id: u64) {
        lock(&self.calls).remove(&id);
    }

    /// Allows output of the call `id` from here on.
    pub(super) fn expect_output(&self, id: u64, bytes_max: usize) {
        if let Some(listener) = lock(&self.calls).get_mut(&id) {
            listener.output_bytes_left = bytes_max;
        }
    }

    /// Delivers `event` to the receiver of the call `id`. Returns whether the launcher may send it.
    fn deliver(&self, id: u64, event: Event) -> bool {
        let mut calls = lock(&self.calls);
        // The launcher may still send events of a call that was given up.
        let Some(listener) = calls.get_mut(&id) else { return true };
        let may = listener.admits(&event);
        if may {
            listener.events.send(event).ok();
        }
        may
    }
}

impl Link {
    /// Starts reader and writer. The returned receiver gets the events of id 0: a hello that is
    /// still to come.
    pub(super) fn open(
        socket: OwnedFd,
        report: Option<Report>,
    ) -> io::Result<(Arc<Self>, UnboundedReceiver<Event>)> {
        let socket = Arc::new(nonblocking(socket)?);
        let (queue, packets) = unbounded_channel();
        let queued = Arc::new(Mutex::new(0));
        let outgoing = Outgoing { socket: socket.clone(), queue, queued: queued.clone() };
        let listeners = Arc::new(Listeners::default());
        let report = Mutex::new(report);
        let link = Self { outgoing, listeners: listeners.clone(), report, missed: AtomicU32::new(0) };
        let hello = link.listen(0);
        tokio::spawn(write(socket.clone(), packets, queued));
        tokio::spawn(read(socket, listeners));
        Ok((Arc::new(link), hello))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.listeners.ended.load(Ordering::Acquire)
    }

    pub(super) fn listen(&self, id: u64) -> UnboundedReceiver<Event> {
        let (sender, receiver) = unbounded_channel();
        let mut calls = lock(&self.listeners.calls);
        // Checked under the lock that the reader takes to end all: no listener is added after that.
        if !self.has_ended() {
            let listener =
                Listener { events: sender, messages_left: LINK_CALL_MESSAGES_MAX, output_bytes_left: 0 };
            calls.insert(id, listener);
        }
        receiver
    }

    /// `fd` goes with the last packet.
    pub(super) fn send(&self, id: u64, request: &Request, fd: Option<OwnedFd>) -> Result<(), Unprepared> {
        if self.outgoing.send(protocol::packets(id, request)?, fd).is_err() {
            // The reader would notice too, but later: the next call must find another launcher.
            self.listeners.end();
            return Err(Unprepared::at_capacity("the launcher ended"));
        }
        Ok(())
    }

    /// Gives the launcher up: its calls are over. Its first stage, which sees the end of the
    /// connection even if the launcher hangs, kills it and everything that it started.
    pub(super) fn cut(&self) {
        self.listeners.end();
        // An error means that it is closed already.
        let _ = shutdown(&*self.outgoing.socket, Shutdown::Both);
    }
}

impl Outgoing {
    /// Sends the packets of one message without packets of another between them: the launcher holds
    /// at most one unfinished message. `fd` goes with the last packet.
    pub(super) fn send(&self, packets: Vec<Vec<u8>>, mut fd: Option<OwnedFd>) -> Result<(), ()> {
        let mut queued = lock(&self.queued);
        let mut packets = packets.into_iter().peekable();
        while let Some(packet) = packets.next() {
            let fd = if packets.peek().is_none() { fd.take() } else { None };
            let at_once =
                || protocol::send_with(self.socket.get_ref(), &packet, fd.as_ref().map(OwnedFd::as_fd));
            if *queued == 0 && at_once().map_err(|_| ())? {
                continue;
            }
            *queued += 1;
            self.queue.send((packet, fd)).map_err(|_| ())?;
        }
        Ok(())
    }
}

/// Sends until every sender is gone, then closes: the launcher ends every call and itself.
async fn write(
    socket: Arc<AsyncFd<OwnedFd>>,
    mut packets: UnboundedReceiver<(Vec<u8>, Option<OwnedFd>)>,
    queued: Arc<Mutex<usize>>,
) {
    while let Some((packet, with)) = packets.recv().await {
        let with = with.as_ref().map(OwnedFd::as_fd);
        let sent = socket
            .async_io(Interest::WRITABLE, |fd| match protocol::send_with(fd, &packet, with)? {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            })
            .await;
        if sent.is_err() {
            break;
        }
        *lock(&queued) -= 1;
    }
    // An error means that it is closed already.
    let _ = shutdown(&*socket, Shutdown::Both);
}

/// Delivers each packet to its call, until the launcher is gone or violates the protocol.
async fn read(socket: Arc<AsyncFd<OwnedFd>>, listeners: Arc<Listeners>) {
    let mut assembler = Assembler::default();
    loop {
        let packet = socket
            .async_io(Interest::READABLE, |fd| match receive_with(fd, PACKET_BYTES_MAX) {
                (Received::Packet(packet), with) => Ok((packet, with)),
                (Received::Nothing, _) => Err(io::ErrorKind::WouldBlock.into()),
                (Received::End, _) => Err(io::ErrorKind::UnexpectedEof.into()),
            })
            .await;
        let Ok((packet, with)) = packet else { break };
        let Ok(arrival) = assembler.take(&packet) else { break };
        let (id, event) = match arrival {
            Arrival::Piece => continue,
            Arrival::Output(id, kind, bytes) => (id, Event::Output(kind, bytes)),
            Arrival::Message(id, Reply::Hello(report)) => (id, Event::Hello(report)),
            Arrival::Message(id, Reply::Prepared(object)) => (id, Event::Prepared(object, with)),
            Arrival::Message(id, Reply::NotPrepared(reason)) => (id, Event::NotPrepared(reason)),
            Arrival::Message(id, Reply::Ended(ended)) => (id, Event::Ended(ended)),
            Arrival::Message(id, Reply::Pong) => (id, Event::Pong),
        };
        if !listeners.deliver(id, event) {
            break;
        }
    }
    listeners.end();
    // A launcher that sends what it may not send loses its connection.
    let _ = shutdown(&*socket, Shutdown::Both);
}

/// A panic elsewhere leaves these maps whole: each change is one insertion or removal.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
