//! A use of a power of the API.

use super::power::Power;
use crate::auth::Subject;
use std::net::IpAddr;

/// One use of a power, as the policies see it.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// The caller.
    pub subject: &'a Subject,
    /// The power.
    pub power: Power,
    /// The object.
    pub over: Over<'a>,
    /// How the caller connected.
    pub door: Door,
    /// When the key expires, in microseconds since 1970; `None` if it never does.
    pub expires_us: Option<u64>,
    /// Wall clock, in microseconds since 1970.
    pub now_us: u64,
    /// The caller's runs of the last hour; used for [`Power::Run`] alone.
    pub ran: Ran,
}

/// The runs of a caller within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Number of runs begun, without this one.
    pub runs_hour: i64,
    /// What they wrote to the ledger, in bytes.
    pub bytes_hour: i64,
}

/// The object of a use of a power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over<'a> {
    /// The server as a whole.
    Server,
    /// A run or an approval: `Power::over` says which.
    Owned {
        /// Its identifier.
        id: &'a str,
        /// The caller that asked for it, by its name on the ledger.
        owner: &'a str,
    },
}

/// How a caller connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// The door.
    pub via: Via,
    /// The client's address, if the door has one.
    pub source_ip: Option<IpAddr>,
}

/// The doors: the ways to reach the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The API, with a key.
    Http,
    /// The dashboard, with a login that a key has opened.
    Page,
    /// The admin socket.
    Socket,
    /// `par.sock`, for users of this host who ask.
    ParSock,
    /// A command of the owner of `data/`, without a server.
    Local,
}

impl Via {
    /// Every door.
    pub const ALL: [Self; 5] = [Self::Http, Self::Page, Self::Socket, Self::ParSock, Self::Local];

    /// The name in policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Page => "page",
            Self::Socket => "socket",
            Self::ParSock => "par_sock",
            Self::Local => "local",
        }
    }

    /// The door of this name.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.as_str() == word)
    }
}

impl Door {
    /// The admin socket, which has no network address.
    pub const SOCKET: Self = Self { via: Via::Socket, source_ip: None };
    /// `par.sock`, which has no network address.
    pub const PAR_SOCK: Self = Self { via: Via::ParSock, source_ip: None };
    /// A command without a server.
    pub const LOCAL: Self = Self { via: Via::Local, source_ip: None };
}
