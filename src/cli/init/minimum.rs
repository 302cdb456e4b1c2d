//! The level of the sandbox that a new home begins with: what this machine reaches is what it demands from
//! then on.

use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::{Config, Home};
use crate::launcher::Spec;
use crate::sandbox;
use crate::types::Level;

/// As it stands in the shipped par.toml.
const UNSET: &str = "\nminimum = \"\"\n";

/// What was found.
#[derive(Debug)]
pub(in crate::cli) struct Found {
    /// What is demanded from now on; `None` where no launcher starts here.
    pub(in crate::cli) level: Option<Level>,
    /// What keeps it below `strict`, or a launcher from starting.
    pub(in crate::cli) lacking: Vec<String>,
}

/// Finds the level and writes it to a `par.toml` that names none. To be called with one thread.
///
/// Where tools will run as a user of their own, behind a service manager, a launcher of this command's says
/// nothing of theirs: then `standard` is demanded, and a person who has seen `par doctor` there may demand
/// more.
pub(in crate::cli) fn settle(home: &Home, is_elsewhere: bool) -> Result<Found, Fail> {
    let config = Config::load(home.clone()).map_err(Fail::usage)?;
    let found = match sandbox::start(&Spec::from_config(&config)) {
        Ok(seed) => {
            let report = seed.report();
            let level = report.level.map(|level| if is_elsewhere { Level::Standard } else { level });
            Found { level, lacking: report.missing.iter().chain(&report.lacking).cloned().collect() }
        }
        Err(e) => Found { level: None, lacking: vec![e.to_string()] },
    };
    let path = home.file();
    let refuse = |e: std::io::Error| Fail::failed(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(refuse)?;
    if let Some(level) = found.level.filter(|_| text.contains(UNSET)) {
        let line = format!("\nminimum = \"{}\"\n", level.as_str());
        std::fs::write(&path, text.replacen(UNSET, &line, 1)).map_err(refuse)?;
    }
    Ok(found)
}

impl Found {
    pub(in crate::cli) fn tell(&self) -> Result<(), Fail> {
        match self.level {
            Some(level) => show::line(&format!("Sandbox: {0}, and par.toml demands it", level.as_str()))?,
            None => show::line("Sandbox: none on this machine: no tool will run")?,
        }
        self.lacking.iter().try_for_each(|lacking| show::line(&format!("  missing: {lacking}")))
    }
}
