//! One launcher's socket within a runtime: who hears of which call, and what goes out in which order.

use super::source::nonblocking;
use crate::call::Object;
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
    /// Questions in a row that it left without an answer.
    pub(super) missed: AtomicU32,
}

/// Packets on their way out: straight into the socket, and only where that is full by way of the
/// writer, which costs a change of task.
#[derive(Debug)]
struct Outgoing {
    socket: Arc<AsyncFd<OwnedFd>>,
    queue: UnboundedSender<(Vec<u8>, Option<OwnedFd>)>,
    /// Packets that the writer has not sent yet. While there are any, all go its way, to stay in order.
    queued: Arc<Mutex<usize>>,
}

#[derive(Debug, Default)]
pub(super) struct Listeners {
    calls: Mutex<HashMap<u64, Listener>>,
    ended: AtomicBool,
}

/// Who hears of one call, and what the launcher may still say about it. A launcher that was taken over could say more
/// than anybody takes.
#[derive(Debug)]
struct Listener {
    events: UnboundedSender<Event>,
    messages_left: u32,
    /// None before its go.
    output_bytes_left: usize,
}

/// What an empty piece of output counts for: it takes memory too.
pub(super) const EMPTY_BYTES: usize = 1;

impl Listener {
    /// Whether `event` is one that a launcher may say now; it is counted.
    fn counts(&mut self, event: &Event) -> bool {
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
    NotPrepared(String),
    Output(PacketKind, Vec<u8>),
    Ended(Ended),
    Pong,
}

impl Listeners {
    /// Nobody hears anything any more; each waiting call is over.
    pub(super) fn end(&self) {
        let mut calls = lock(&self.calls);
        self.ended.store(true, Ordering::Release);
        calls.clear();
    }

    /// Nobody hears of the call `id` any more.
    pub(super) fn forget(&self, id: u64) {
        lock(&self.calls).remove(&id);
    }

    /// From here on the call `id` may print.
    pub(super) fn expect_output(&self, id: u64, bytes_max: usize) {
        if let Some(listener) = lock(&self.calls).get_mut(&id) {
            listener.output_bytes_left = bytes_max;
        }
    }

    /// Gives `event` to who hears of the call `id`. Whether the launcher may say it.
    fn tell(&self, id: u64, event: Event) -> bool {
        let mut calls = lock(&self.calls);
        // Of a call that nobody waits for any more the launcher may still speak.
        let Some(listener) = calls.get_mut(&id) else { return true };
        let may = listener.counts(&event);
        if may {
            listener.events.send(event).ok();
        }
        may
    }
}

impl Link {
    /// Starts reader and writer. The receiver hears number 0: a hello that is still to come.
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
        // Looked at under the lock that the reader takes to end all: no listener is added behind it.
        if !self.has_ended() {
            let listener =
                Listener { events: sender, messages_left: LINK_CALL_MESSAGES_MAX, output_bytes_left: 0 };
            calls.insert(id, listener);
        }
        receiver
    }

    /// `fd` goes with the last packet.
    pub(super) fn send(&self, id: u64, request: &Request, fd: Option<OwnedFd>) -> Result<(), String> {
        if self.outgoing.send(protocol::packets(id, request)?, fd).is_err() {
            // The reader would see it too, but later: the next call is to find another launcher.
            self.listeners.end();
            return Err("the launcher ended".to_owned());
        }
        Ok(())
    }

    /// Gives the launcher up: its calls are over, and its first stage, which sees the end of the connection even where
    /// the launcher hangs, ends it and all that it started.
    pub(super) fn cut(&self) {
        self.listeners.end();
        // One that is closed already needs no closing.
        let _ = shutdown(&*self.outgoing.socket, Shutdown::Both);
    }
}

impl Outgoing {
    /// Sends the packets of one message, and none of another between them: the launcher holds no more than one message
    /// that is unfinished. `fd` goes with the last.
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

/// Sends until nobody can ask for more, then closes: the launcher ends every call and itself.
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
    // One that is closed already needs no closing.
    let _ = shutdown(&*socket, Shutdown::Both);
}

/// Gives each packet to its call, until the launcher is gone or speaks another language.
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
        if !listeners.tell(id, event) {
            break;
        }
    }
    listeners.end();
    // One that says what it may not say is told so by the end of its connection.
    let _ = shutdown(&*socket, Shutdown::Both);
}

/// A panic elsewhere leaves these maps whole: each change is one insertion or removal.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
