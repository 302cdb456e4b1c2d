//! What this host has, and the reading tools for it that are off as shipped.

use super::ask::is_yes;
use crate::cli::exit::Fail;
use crate::cli::new::{SwitchedTool, enable, reading_tools_off};
use crate::cli::{compose, show};
use crate::config::Home;
use std::path::Path;

/// Something that a host may have: one of these paths, and the tools that need it.
struct HostPart {
    name: &'static str,
    paths: &'static [&'static str],
    tools: &'static [&'static str],
}

const PARTS: [HostPart; 8] = [
    HostPart {
        name: "systemd",
        paths: &["/run/systemd/system"],
        tools: &["failed_units", "service_list", "service_status", "timer_list"],
    },
    HostPart {
        name: "journal",
        paths: &["/usr/bin/journalctl", "/bin/journalctl"],
        tools: &["journal_query", "journal_search", "journal_size", "kernel_log"],
    },
    HostPart { name: "apt", paths: &["/usr/bin/apt-get"], tools: &["pending_updates"] },
    HostPart { name: "cron", paths: &["/etc/crontab", "/etc/cron.d"], tools: &["cron_list"] },
    HostPart {
        name: "login records",
        paths: &["/var/log/wtmp", "/var/log/auth.log", "/var/log/secure"],
        tools: &["logins"],
    },
    HostPart { name: "nginx", paths: &["/usr/sbin/nginx", "/etc/nginx"], tools: &["nginx_test"] },
    HostPart { name: "docker", paths: &["/run/docker.sock", "/var/run/docker.sock"], tools: &[] },
    HostPart { name: "postgresql", paths: &["/etc/postgresql", "/run/postgresql"], tools: &[] },
];

/// Who decides which reading tools are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostTools {
    /// The person at the terminal.
    Ask,
    /// All that fit this host.
    All,
    /// None: they stay off, as shipped.
    AsShipped,
}

/// The names of what this host has.
pub(super) fn parts() -> Vec<&'static str> {
    PARTS.iter().filter(|part| part.is_here()).map(|part| part.name).collect()
}

impl HostPart {
    fn is_here(&self) -> bool {
        self.paths.iter().any(|path| Path::new(path).exists())
    }
}

/// Enables tools that are off as shipped, only read, and fit this host. Returns those.
pub(super) fn enable_reading(home: &Home, by: HostTools) -> Result<Vec<SwitchedTool>, Fail> {
    if by == HostTools::AsShipped {
        return Ok(Vec::new());
    }
    let config = compose::load(home.clone())?;
    let fits = |tool: &String| {
        let part = PARTS.iter().find(|part| part.tools.contains(&tool.as_str()));
        part.is_none_or(HostPart::is_here)
    };
    let mut enabled = Vec::new();
    for tool in reading_tools_off(&config)?.into_iter().filter(fits) {
        let is_wanted =
            by == HostTools::All || is_yes(&format!("Enable the tool {tool}, which only reads?"))?;
        if is_wanted {
            let switched = match enable(&config, &tool) {
                Ok(switched) => switched,
                Err(fail) => {
                    show::note(&format!("par: {tool} stays off: {fail}"));
                    continue;
                }
            };
            if by == HostTools::Ask {
                switched.lines().iter().for_each(|line| show::note(line));
            }
            enabled.push(switched);
        }
    }
    Ok(enabled)
}
