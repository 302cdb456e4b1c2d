//! The hosts that a tool may connect to.

use super::host_form::HostForm;
use super::words::ResourceSpec;
use crate::types::HostPort;
use ipnet::IpNet;

/// The hosts that a manifest lets its tool connect to. Empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Hosts with their ports.
    pub hosts: Vec<HostPort>,
    /// Ports on which any host may be reached, if the call is about it and was allowed: `*:443`.
    pub ports: Vec<u16>,
    /// Whether any host may be reached so on any port: `*:*`.
    pub every_port: bool,
    /// Address ranges that are not public and may be connected to nevertheless.
    pub named: Vec<IpNet>,
}

impl Reach {
    /// Reads `addresses` and the hosts of `[sandbox] connect`.
    pub(super) fn read(
        connect: &[String],
        addresses: &[String],
        resource: &ResourceSpec,
    ) -> Result<Self, (&'static str, String)> {
        let mut reach = Self::default();
        for entry in connect {
            let at = |reason: String| ("connect =", format!("`{entry}` {reason}"));
            match entry.strip_prefix("*:") {
                Some(_) if !matches!(resource, ResourceSpec::Host { .. }) => {
                    return Err(at("is only for tools whose resource is the host".to_owned()));
                }
                Some("*") => reach.every_port = true,
                Some(port) => {
                    let known =
                        port.parse().ok().filter(|known: &u16| *known != 0 && known.to_string() == port);
                    reach.ports.push(known.ok_or_else(|| at("has no port".to_owned()))?);
                }
                None => reach.hosts.push(HostForm::Host.read(entry).map_err(|e| at(e.to_string()))?),
            }
        }
        for range in addresses {
            let at = |reason: &str| ("addresses =", format!("`{range}` {reason}"));
            let net: IpNet =
                range.parse().map_err(|_| at("is not an address range, expected the form `10.1.0.0/16`"))?;
            if net != net.trunc() {
                return Err(at("has bits set after its prefix"));
            }
            reach.named.push(net);
        }
        if connect.is_empty() && !addresses.is_empty() {
            return Err(("addresses =", "`addresses` is only for tools with `connect`".to_owned()));
        }
        Ok(reach)
    }

    /// Whether the tool connects to no host.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.ports.is_empty() && !self.every_port
    }

    /// Whether the tool may connect to `host`.
    #[must_use]
    pub fn holds(&self, host: &HostPort) -> bool {
        self.every_port || self.hosts.contains(host) || self.ports.contains(&host.port())
    }

    /// The entries as the manifest writes them.
    pub fn entries(&self) -> impl Iterator<Item = String> {
        let ports = self.ports.iter().map(|port| format!("*:{port}"));
        let every = self.every_port.then(|| "*:*".to_owned());
        self.hosts.iter().map(|host| host.as_str().to_owned()).chain(ports).chain(every)
    }
}
