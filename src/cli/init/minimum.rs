//! The sandbox level of a new home: the level that this machine reaches is required from then on.

use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::{Config, Home};
use crate::launcher::Spec;
use crate::sandbox;
use crate::types::Level;

/// The line in the shipped par.toml.
const UNSET: &str = "\nminimum = \"\"\n";

/// The level that was found.
#[derive(Debug)]
pub(in crate::cli) struct Found {
    /// The level required from now on; `None` if no launcher starts here.
    pub(in crate::cli) level: Option<Level>,
    /// What keeps the level below `strict`, or a launcher from starting.
    pub(in crate::cli) missing: Vec<String>,
}

/// Finds the level and writes it to a `par.toml` that names none. To be called with one thread.
///
/// If tools will run as a separate user under a service manager, a launcher of this command says
/// nothing about theirs. Then `standard` is required, and a person who has seen `par doctor` there
/// may require more.
pub(in crate::cli) fn set_minimum(home: &Home, is_elsewhere: bool) -> Result<Found, Fail> {
    let config = Config::load(home.clone()).map_err(Fail::usage)?;
    let found = match sandbox::start(&Spec::from_config(&config)) {
        Ok(seed) => {
            let report = seed.report();
            let level = report.level.map(|level| if is_elsewhere { Level::Standard } else { level });
            Found { level, missing: report.missing.iter().chain(&report.lacking).cloned().collect() }
        }
        Err(e) => Found { level: None, missing: vec![e.to_string()] },
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
    pub(in crate::cli) fn print(&self) -> Result<(), Fail> {
        match self.level {
            Some(level) => show::line(&format!("Sandbox: {0}, now required by par.toml", level.as_str()))?,
            None => show::line("Sandbox: not available on this machine, so no tool will run")?,
        }
        self.missing.iter().try_for_each(|missing| show::line(&format!("  missing: {missing}")))
    }
}
