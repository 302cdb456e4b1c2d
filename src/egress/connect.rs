//! Connections for tools, always to the address that was checked and never by name again.

use super::address::{Forbidden, check};
use crate::types::{HostPort, limits, text};
use ipnet::IpNet;
use std::error::Error;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A connection made for a tool, to the address that was checked.
#[derive(Debug)]
pub struct Connected {
    /// The open connection.
    pub stream: TcpStream,
    /// The address of its peer.
    pub address: SocketAddr,
}

/// The addresses of a host, each of which a tool may be connected to. Only [`resolve`] makes one.
#[derive(Clone, Debug)]
pub struct Checked {
    addresses: Vec<SocketAddr>,
    left_out: usize,
}

/// Why a connection failed. The texts are printable and bounded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address, or the resolver gave no answer.
    #[error("cannot resolve: {0}")]
    Resolve(String),
    /// A tool may not be connected to one of its addresses.
    #[error("not permitted: {0}")]
    Forbidden(#[source] Forbidden),
    /// The peer refuses connections at that port; for several addresses, the last one.
    #[error("cannot connect: {0}")]
    Closed(String),
    /// No server answers there; for several addresses, the reason of the last one.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The deadline passed.
    #[error("no connection before the deadline")]
    Timeout,
}

/// Resolves `to` and connects to the first of its addresses that answers: [`resolve`], then
/// [`Checked::connect`], both within `deadline`.
pub async fn connect(to: &HostPort, named: &[IpNet], deadline: Duration) -> Result<Connected, ConnectError> {
    let began = Instant::now();
    let checked = resolve(to, named, deadline).await?;
    checked.connect(deadline.saturating_sub(began.elapsed())).await
}

/// Looks `to` up with the system's resolver, unless it is an IP literal, and checks each address in
/// the answer: if one is forbidden, none is used.
///
/// Keeps at most [`limits::CONNECT_ADDRESSES_MAX`] of them, with the port of `to`.
pub async fn resolve(to: &HostPort, named: &[IpNet], deadline: Duration) -> Result<Checked, ConnectError> {
    let found = match to.ip() {
        Some(ip) => vec![ip],
        None => {
            let found = look_up(to.host().to_owned());
            timeout(deadline, found).await.map_err(|_| ConnectError::Timeout)??
        }
    };
    Checked::new(&found, to.port(), named)
}

/// Bounds the threads that wait for the resolver. A caller that gives up leaves its thread waiting,
/// so the thread holds the permit: a tool whose names get no answer must not take every thread of
/// the process.
static LOOK_UPS: Semaphore = Semaphore::const_new(limits::LOOKUPS_MAX);

/// The addresses of a name, from the system's resolver.
pub(super) async fn look_up(host: String) -> Result<Vec<IpAddr>, ConnectError> {
    let failed = |why: &dyn Error| ConnectError::Resolve(bounded(why));
    let place = LOOK_UPS.acquire().await.map_err(|e| failed(&e))?;
    let asked = (host, 0);
    let answer = tokio::task::spawn_blocking(move || {
        let _place = place;
        #[expect(clippy::disallowed_methods, reason = "only this room resolves names")]
        asked.to_socket_addrs()
    });
    let found = answer.await.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
    Ok(found.map(|address| address.ip()).collect())
}

impl Checked {
    pub(super) fn new(found: &[IpAddr], port: u16, named: &[IpNet]) -> Result<Self, ConnectError> {
        let (mut addresses, mut left_out) = (Vec::new(), 0);
        for ip in found {
            check(*ip, named).map_err(ConnectError::Forbidden)?;
            let address = SocketAddr::new(*ip, port);
            match addresses.contains(&address) {
                true => {}
                false if addresses.len() < limits::CONNECT_ADDRESSES_MAX => addresses.push(address),
                false => left_out += 1,
            }
        }
        if addresses.is_empty() {
            return Err(ConnectError::Resolve("the name has no address".to_owned()));
        }
        Ok(Self { addresses, left_out })
    }

    /// The addresses, in the order in which they are tried. At least one.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How many further addresses the name has: all were checked, and none of these is used.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Each address alone, for a caller that records each before it is tried.
    pub fn each(&self) -> impl ExactSizeIterator<Item = Self> {
        self.addresses.iter().map(|address| Self { addresses: vec![*address], left_out: 0 })
    }

    /// Connects to the first address that answers. Each address gets an equal part of `deadline`.
    pub async fn connect(&self, deadline: Duration) -> Result<Connected, ConnectError> {
        let part = deadline / u32::try_from(self.addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = ConnectError::Timeout;
        for address in &self.addresses {
            #[expect(clippy::disallowed_methods, reason = "this is the room that makes outbound connections")]
            let tried = timeout(part, TcpStream::connect(address)).await;
            last = match tried {
                Ok(Ok(stream)) => return Ok(Connected { stream, address: *address }),
                Ok(Err(e)) if e.kind() == ErrorKind::ConnectionRefused => ConnectError::Closed(bounded(&e)),
                Ok(Err(e)) => ConnectError::Connect(bounded(&e)),
                Err(_) => ConnectError::Timeout,
            };
        }
        Err(last)
    }
}

fn bounded(error: &dyn Error) -> String {
    text::visible_line(text::prefix(&error.to_string(), limits::REASON_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::{Checked, ConnectError, LOOK_UPS, connect, resolve};
    use crate::egress::IpNet;
    use crate::types::{HostPort, limits};
    use std::net::{IpAddr, SocketAddr};
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpSocket};

    const LONG: Duration = Duration::from_secs(60);

    fn loopback() -> Vec<IpNet> {
        vec!["127.0.0.0/8".parse().expect("a net"), "::1/128".parse().expect("a net")]
    }

    fn host(text: &str) -> HostPort {
        HostPort::parse(text).expect(text)
    }

    fn checked(found: &[&str], named: &[IpNet]) -> Result<Vec<SocketAddr>, String> {
        let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().expect(ip)).collect();
        Checked::new(&found, 443, named).map(|checked| checked.addresses).map_err(|e| e.to_string())
    }

    #[test]
    fn one_forbidden_address_forbids_all() {
        let expect = |refused: &str| Err(format!("not permitted: {refused}"));
        assert_eq!(checked(&["1.1.1.1", "10.0.0.1", "8.8.8.8"], &[]), expect("10.0.0.1 is private"));
        assert_eq!(
            checked(&["1.1.1.1", "::ffff:127.0.0.1"], &[]),
            expect("::ffff:127.0.0.1 contains 127.0.0.1, which is loopback")
        );
        assert_eq!(checked(&["169.254.169.254"], &loopback()), expect("169.254.169.254 is link-local"));
        assert_eq!(checked(&["127.0.0.1"], &loopback()), Ok(vec![SocketAddr::from(([127, 0, 0, 1], 443))]));
        assert_eq!(checked(&[], &[]), Err("cannot resolve: the name has no address".to_owned()));
    }

    #[test]
    fn many_addresses_are_all_checked_and_few_are_tried() {
        let public: Vec<String> = (0..100).map(|i| format!("1.1.1.{}", i / 2)).collect();
        let mut found: Vec<&str> = public.iter().map(String::as_str).collect();
        let tried = checked(&found, &[]).expect("public");
        assert_eq!(tried.len(), limits::CONNECT_ADDRESSES_MAX);
        assert_eq!(tried.last().map(SocketAddr::to_string).as_deref(), Some("1.1.1.15:443"), "each once");
        found.push("192.168.0.1");
        assert_eq!(checked(&found, &[]), Err("not permitted: 192.168.0.1 is private".to_owned()));
    }

    #[tokio::test]
    async fn a_name_and_a_literal_lead_to_the_address_that_was_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let here = listener.local_addr().expect("an address");
        for name in ["localhost", "127.0.0.1", "0x7f.1"] {
            let to = host(&format!("{name}:{}", here.port()));
            let refused = connect(&to, &[], LONG).await.expect_err("loopback is not named");
            assert!(matches!(refused, ConnectError::Forbidden(_)), "{name}: {refused}");
            let connected = connect(&to, &loopback(), LONG).await.expect("connected");
            assert_eq!(connected.address, here, "{name}");
            assert_eq!(connected.stream.peer_addr().expect("a peer"), here, "{name}");
            let (accepted, from) = listener.accept().await.expect("accepted");
            assert_eq!(connected.stream.local_addr().expect("an address"), from);
            drop(accepted);
        }
    }

    #[tokio::test]
    async fn the_next_address_is_tried_if_one_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.2:0").await.expect("bound");
        let here = listener.local_addr().expect("an address");
        let found = ["127.0.0.3", "127.0.0.2"].map(|ip| ip.parse().expect("an address"));
        let checked = Checked::new(&found, here.port(), &loopback()).expect("checked");
        assert_eq!(checked.connect(LONG).await.expect("connected").address, here);
        let mut each = Vec::new();
        for one in checked.each() {
            each.push(one.connect(LONG).await.is_ok());
        }
        assert_eq!(each, [false, true]);
    }

    #[tokio::test]
    async fn a_name_waits_for_its_turn_at_the_resolver() {
        let to = host("localhost:443");
        let places = u32::try_from(limits::LOOKUPS_MAX).expect("few");
        // Other tests use the resolver too, and return their permits.
        let all = LOOK_UPS.acquire_many(places).await.expect("open");
        let late = resolve(&to, &loopback(), Duration::from_millis(20)).await.expect_err("no place");
        assert_eq!(late, ConnectError::Timeout);
        assert!(
            resolve(&host("127.0.0.1:443"), &loopback(), LONG).await.is_ok(),
            "an IP literal needs no lookup"
        );
        drop(all);
        assert!(resolve(&to, &loopback(), LONG).await.is_ok());
    }

    #[tokio::test]
    async fn each_failure_to_connect_has_its_own_error() {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("bound");
        let to = host(&socket.local_addr().expect("an address").to_string());
        // Bound, so that no other process listens there.
        let refused = connect(&to, &loopback(), LONG).await.expect_err("no listener");
        assert!(matches!(refused, ConnectError::Closed(_)), "{refused}");
        let _full = socket.listen(0).expect("listens");
        let mut open = Vec::new();
        // The backlog of a listener that never accepts fills up, and then the kernel stops
        // answering.
        let late = loop {
            match connect(&to, &loopback(), Duration::from_millis(200)).await {
                Ok(connected) => open.push(connected),
                Err(late) => break late,
            }
            assert!(open.len() < 64, "the queue never fills");
        };
        assert_eq!(late, ConnectError::Timeout);
    }
}
