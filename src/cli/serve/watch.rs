//! Monitors the launcher for as long as a server runs.

use crate::sandbox::Launcher;
use crate::types::limits::LAUNCHER_PING_EVERY_MS;
use std::convert::Infallible;
use std::time::Duration;

/// Asks the launcher periodically whether it answers, and replaces it if it does not. Changes are
/// logged.
pub(super) async fn watch_launcher(launcher: &Launcher) -> Infallible {
    let mut was_well = true;
    let mut renewals = launcher.renewals();
    loop {
        let answer = launcher.check_or_replace().await;
        match &answer {
            Ok(()) if !was_well => tracing::info!("the launcher answers again"),
            Err(why) if was_well => tracing::error!(%why, "no launcher answers"),
            Ok(()) | Err(_) => {}
        }
        was_well = answer.is_ok();
        let now = launcher.renewals();
        if now != renewals {
            tracing::info!(renewals = now, "the launcher was replaced");
            renewals = now;
        }
        tokio::time::sleep(Duration::from_millis(LAUNCHER_PING_EVERY_MS)).await;
    }
}
