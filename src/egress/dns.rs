//! The resolver of a client whose server's addresses are checked.

use super::address::{Forbidden, check};
use super::connect::{self, ConnectError};
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use url::Host;

/// The addresses of a name.
pub(super) type Found = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, ConnectError>> + Send>>;
/// Looks a name up.
pub(super) type LookUp = Arc<dyn Fn(String) -> Found + Send + Sync>;

/// Gives only addresses that were checked: each time that a connection is made, the name is looked
/// up and every address in the answer is checked.
#[derive(Clone)]
pub(super) struct CheckedDns {
    named: Arc<[IpNet]>,
    look_up: LookUp,
}

impl CheckedDns {
    /// For the server `host`. An IP literal or `localhost` is the operator's word. Any other name
    /// may lead to public addresses and to those in `named`. Link-local addresses and the like are
    /// refused in each case.
    pub(super) fn new(host: Option<Host<&str>>, named: &[IpNet]) -> Result<Self, Forbidden> {
        let mut named = named.to_vec();
        match host {
            Some(Host::Ipv4(ip)) => is_final(ip.into())?,
            Some(Host::Ipv6(ip)) => is_final(ip.into())?,
            Some(Host::Domain("localhost")) => named.extend(loopback()),
            Some(Host::Domain(_)) | None => {}
        }
        Ok(Self { named: named.into(), look_up: Arc::new(|name| Box::pin(connect::look_up(name))) })
    }

    /// The same with another resolver.
    #[cfg(test)]
    pub(super) fn asking(self, look_up: LookUp) -> Self {
        Self { look_up, ..self }
    }
}

impl Resolve for CheckedDns {
    fn resolve(&self, name: Name) -> Resolving {
        let (named, found) = (self.named.clone(), (self.look_up)(name.as_str().to_owned()));
        Box::pin(async move {
            // Port 0 stands for the port of the URL.
            let checked = connect::Checked::new(&found.await?, 0, &named)?;
            let addresses: Addrs = Box::new(checked.addresses().to_vec().into_iter());
            Ok(addresses)
        })
    }
}

/// Refuses what no configuration permits.
fn is_final(ip: IpAddr) -> Result<(), Forbidden> {
    check(ip, &everything())
}

fn everything() -> [IpNet; 2] {
    [
        IpNet::new_assert(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        IpNet::new_assert(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
    ]
}

fn loopback() -> [IpNet; 2] {
    [
        IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
        IpNet::new_assert(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    ]
}
