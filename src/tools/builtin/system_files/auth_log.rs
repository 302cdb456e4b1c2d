//! What sshd writes into the log of logins (`auth.log`, `secure`).

use std::net::IpAddr;

/// A login by SSH.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SshLogin<'a> {
    pub(super) has_failed: bool,
    pub(super) user: &'a str,
    pub(super) from: IpAddr,
    /// How often, if the logger wrote equal lines once.
    pub(super) times: u64,
}

/// The login that `line` reports. Names come from whoever tries, so the end of the line counts,
/// which sshd writes itself.
pub(super) fn ssh_login(line: &[u8]) -> Option<SshLogin<'_>> {
    let line = std::str::from_utf8(line).ok()?;
    let (head, message) = line.split_once("]: ")?;
    let tag = head.rsplit(' ').next()?;
    let (program, pid) = tag.split_once('[')?;
    if !matches!(program, "sshd" | "sshd-session") || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (times, message) = match message.strip_prefix("message repeated ").and_then(repeated) {
        Some(found) => found,
        None => (1, message),
    };
    let (has_failed, rest) = match (message.strip_prefix("Accepted "), message.strip_prefix("Failed ")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return None,
    };
    // METHOD for [invalid user ]NAME from ADDRESS port NUMBER …
    let (_, rest) = rest.split_once(" for ")?;
    let (user, from) = rest.rsplit_once(" from ")?;
    let mut words = from.split(' ');
    let from = words.next()?.parse().ok()?;
    if words.next() != Some("port") {
        return None;
    }
    let user = if has_failed { user.strip_prefix("invalid user ").unwrap_or(user) } else { user };
    Some(SshLogin { has_failed, user, from, times })
}

/// `3 times: [ MESSAGE]`
fn repeated(words: &str) -> Option<(u64, &str)> {
    let (times, rest) = words.split_once(" times: [ ")?;
    Some((times.parse().ok().filter(|times| *times < 1_000_000)?, rest.strip_suffix(']')?))
}

#[cfg(test)]
mod tests {
    use super::{SshLogin, ssh_login};

    #[test]
    fn the_end_of_the_line_says_who_came_from_where() {
        let login = |has_failed, user, from: &str, times| {
            Some(SshLogin { has_failed, user, from: from.parse().expect("an address"), times })
        };
        let head = "2026-11-24T10:00:00+00:00 web1 sshd[77]: ";
        for (message, expect) in [
            (
                "Accepted publickey for ada from 192.0.2.7 port 50100 ssh2: ED25519 SHA256:x",
                login(false, "ada", "192.0.2.7", 1),
            ),
            ("Failed password for root from 2001:db8::7 port 1 ssh2", login(true, "root", "2001:db8::7", 1)),
            (
                "Failed password for invalid user x from 192.0.2.8 port 1 ssh2",
                login(true, "x", "192.0.2.8", 1),
            ),
            (
                "message repeated 3 times: [ Failed password for root from 192.0.2.8 port 1 ssh2]",
                login(true, "root", "192.0.2.8", 3),
            ),
            // A part of the name looks like the end of the line.
            (
                "Failed password for invalid user a from 198.51.100.1 port 1 ssh2 from 192.0.2.9 port 2 ssh2",
                login(true, "a from 198.51.100.1 port 1 ssh2", "192.0.2.9", 1),
            ),
            ("Failed password for root from nowhere port 1 ssh2", None),
            ("Failed password for root", None),
            ("Server listening on 0.0.0.0 port 22.", None),
            ("message repeated x times: [ Failed password for root from 192.0.2.8 port 1 ssh2]", None),
        ] {
            assert_eq!(ssh_login(format!("{head}{message}").as_bytes()), expect, "{message}");
        }
        let of_others = "Nov 24 10:00:00 web1 app[7]: Accepted password for root from 192.0.2.7 port 1 ssh2";
        assert_eq!(ssh_login(of_others.as_bytes()), None);
        assert_eq!(ssh_login(b"\xff sshd[7]: Accepted password for root from 192.0.2.7 port 1"), None);
        assert_eq!(ssh_login(b""), None);
    }
}
