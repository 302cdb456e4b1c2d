//! A use of a power of the API.

use super::power::Power;
use crate::auth::Subject;
use std::net::IpAddr;

/// One use of a power, as the policy is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// Who uses it.
    pub subject: &'a Subject,
    /// The power.
    pub power: Power,
    /// Of what.
    pub over: Over<'a>,
    /// By which door.
    pub door: Door,
    /// When the key ends, in microseconds since 1970; `None` where it does not.
    pub expires_us: Option<u64>,
    /// Wall clock, in microseconds since 1970.
    pub now_us: u64,
    /// What its runs came to; looked at for [`Power::Run`] alone.
    pub ran: Ran,
}

/// What the runs of a caller came to within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Runs that were begun; this one not among them.
    pub runs_hour: i64,
    /// What they put on the ledger, in bytes.
    pub bytes_hour: i64,
}

/// What a power is used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over<'a> {
    /// The server as a whole.
    Server,
    /// A run or a question of one: `Power::over` says which.
    Of {
        /// Its identifier.
        id: &'a str,
        /// Who asked for it, by the name on the ledger.
        owner: &'a str,
    },
}

/// How somebody came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// By which door.
    pub via: Via,
    /// From which address, where there is one.
    pub source_ip: Option<IpAddr>,
}

/// The doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The API, with a key.
    Http,
    /// The dashboard, with a session that a key has opened.
    Page,
    /// The admin socket.
    Socket,
    /// A command of the owner of `data/`, without a server.
    Local,
}

impl Via {
    /// Every door.
    pub const ALL: [Self; 4] = [Self::Http, Self::Page, Self::Socket, Self::Local];

    /// The word in policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Page => "page",
            Self::Socket => "socket",
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
    /// The admin socket: no network is behind it.
    pub const SOCKET: Self = Self { via: Via::Socket, source_ip: None };
    /// A command without a server.
    pub const LOCAL: Self = Self { via: Via::Local, source_ip: None };
}
