//! Connections for tools: to the address that was checked, never by name again.

use super::{Forbidden, IpNet, check};
use crate::types::{HostPort, limits, text};
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection that was made for a tool: to the address that was checked.
#[derive(Debug)]
pub struct Connected {
    /// The open connection.
    pub stream: TcpStream,
    /// Where it leads.
    pub address: SocketAddr,
}

/// The addresses of a host, all of which a tool may be connected to. Only [`resolve`] makes one.
#[derive(Clone, Debug)]
pub struct Checked {
    addresses: Vec<SocketAddr>,
}

/// Why there is no connection. The texts are visible and bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The name has no address, or who was asked gave no answer.
    Resolve(String),
    /// An address is one that no tool may be connected to.
    Forbidden(Forbidden),
    /// Nobody answers there; of several addresses the last one's reason.
    Connect(String),
    /// The deadline passed.
    Timeout,
}

/// Resolves `to` and connects to the first of its addresses that answers: [`resolve`], then [`Checked::connect`], both
/// within `deadline`.
pub async fn connect(to: &HostPort, named: &[IpNet], deadline: Duration) -> Result<Connected, ConnectError> {
    let began = Instant::now();
    let checked = resolve(to, named, deadline).await?;
    checked.connect(deadline.saturating_sub(began.elapsed())).await
}

/// Asks the system's resolver for `to`, where it is no literal address, and checks each address that comes back: if one
/// is forbidden, none is used.
///
/// What is left are at most [`limits::CONNECT_ADDRESSES_MAX`], with the port of `to`.
pub async fn resolve(to: &HostPort, named: &[IpNet], deadline: Duration) -> Result<Checked, ConnectError> {
    let found = match to.ip() {
        Some(ip) => vec![ip],
        None => timeout(deadline, look_up(to)).await.map_err(|_| ConnectError::Timeout)??,
    };
    Checked::of(&found, to.port(), named)
}

async fn look_up(to: &HostPort) -> Result<Vec<IpAddr>, ConnectError> {
    #[expect(clippy::disallowed_methods, reason = "this is the room that resolves names")]
    let found = tokio::net::lookup_host((to.host(), to.port())).await;
    let found = found.map_err(|e| ConnectError::Resolve(bounded(&e)))?;
    Ok(found.map(|address| address.ip()).collect())
}

impl Checked {
    fn of(found: &[IpAddr], port: u16, named: &[IpNet]) -> Result<Self, ConnectError> {
        let mut addresses = Vec::new();
        for ip in found {
            check(*ip, named).map_err(ConnectError::Forbidden)?;
            let address = SocketAddr::new(*ip, port);
            if !addresses.contains(&address) && addresses.len() < limits::CONNECT_ADDRESSES_MAX {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(ConnectError::Resolve("the name has no address".to_owned()));
        }
        Ok(Self { addresses })
    }

    /// The addresses, in the order in which they are tried. At least one.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Each address alone, for who records each before it is tried.
    pub fn each(&self) -> impl ExactSizeIterator<Item = Self> {
        self.addresses.iter().map(|address| Self { addresses: vec![*address] })
    }

    /// Connects to the first address that answers. Each has its equal part of `deadline`.
    pub async fn connect(&self, deadline: Duration) -> Result<Connected, ConnectError> {
        let part = deadline / u32::try_from(self.addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = ConnectError::Timeout;
        for address in &self.addresses {
            #[expect(clippy::disallowed_methods, reason = "this is the room that makes outbound connections")]
            let tried = timeout(part, TcpStream::connect(address)).await;
            last = match tried {
                Ok(Ok(stream)) => return Ok(Connected { stream, address: *address }),
                Ok(Err(e)) => ConnectError::Connect(bounded(&e)),
                Err(_) => ConnectError::Timeout,
            };
        }
        Err(last)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(why) => write!(f, "cannot resolve: {why}"),
            Self::Forbidden(why) => write!(f, "not permitted: {why}"),
            Self::Connect(why) => write!(f, "cannot connect: {why}"),
            Self::Timeout => f.write_str("no connection before the deadline"),
        }
    }
}

impl Error for ConnectError {}

fn bounded(error: &std::io::Error) -> String {
    text::visible_line(text::prefix(&error.to_string(), limits::REASON_BYTES_MAX))
}
