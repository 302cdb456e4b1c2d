//! `par serve`: the supervisor, with the front in a separate process; or the front alone, if
//! launchers are reached through a socket.
//!
//! # Layout
//!
//! * `launcher`: `par launcher`
//! * `passed`: sockets that the service manager passed
//! * `notify`: messages to the service manager
//! * `watch`: checks the launcher and replaces it
//! * `signals`: signals of the process
//! * `serving`: a running server
//! * `front`: start and end of a front

mod launcher;
mod passed;
mod notify;
mod watch;
mod signals;
mod serving;
mod front;

pub(super) use front::supervise;
pub(super) use launcher::Launcher;
pub(super) use serving::Serving;
pub(super) use signals::Signals;

use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::config::{Config, LogFormat};
use clap::Args;
use front::alone;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Listen on this address instead of `server.listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Connect to this socket for launchers instead of forking one; each connection reaches a
    /// launcher
    #[arg(long, value_name = "SOCKET")]
    launcher: Option<PathBuf>,
    /// Write log lines in this format instead of `server.log`: `text` or `json`
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    log_format: Option<String>,
}

impl Serve {
    pub(super) fn run(&self, mut config: Config) -> Result<u8, Fail> {
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        if let Some(format) = self.log_format.as_deref().and_then(LogFormat::parse) {
            config.log = format;
        }
        let launcher = self.launcher.clone().or_else(|| config.launcher.clone());
        let work = async |serving: &Serving, signals: Signals| {
            show::note(&format!(
                "par: listening on {}, home {}",
                serving.url,
                serving.config.home.root.display()
            ));
            serving.stopped(signals).await;
            Ok(exit::OK)
        };
        match launcher {
            None => supervise(config, "serve", work),
            Some(socket) => alone(config, "serve", &socket, work),
        }
    }
}
