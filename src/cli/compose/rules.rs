//! Loads the tools and policies of a home, with error messages for the command line.

use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::Config;
use crate::gate::Rules;
use crate::rules::{self, RulesError};

/// Loads tools and policies. The error names file, line and reason.
pub(in crate::cli) fn load_rules(config: &Config) -> Result<Rules, Fail> {
    rules::load_rules(config).map_err(|e| refused(config, e))
}

fn refused(config: &Config, error: RulesError) -> Fail {
    let mut reasons = error.0;
    reasons.extend(absent_tools(config, &reasons));
    Fail::rules(reasons.join("\npar: "))
}

/// How shipped tools come back whose files were removed while cases name them.
fn absent_tools(config: &Config, reasons: &[String]) -> Vec<String> {
    // What was shipped to this home: one line for each file, with its digest.
    let record = std::fs::read_to_string(config.home.etc.join("shipped.txt")).unwrap_or_default();
    let shipped = record.lines().filter_map(|line| {
        let (_, file) = line.rsplit_once(' ')?;
        let name = file.strip_prefix("tools.d/")?.split('.').next()?;
        Some((name, file))
    });
    let is_missing = |(name, file): &(&str, &str)| {
        let missing = format!("no tool is named `{name}`");
        reasons.iter().any(|reason| reason.contains(&missing)) && !config.home.etc.join(file).exists()
    };
    let line = |(_, file)| {
        let way = format!("par init --upgrade --apply --restore {file}");
        format!(
            "{}/{file} was removed: `{way}` brings it back; or remove its cases",
            config.home.etc.display()
        )
    };
    shipped.filter(is_missing).map(line).collect()
}

/// Loads tools and policies for a server. If the policies are broken, it says so and loads them
/// closed.
pub(in crate::cli) fn load_or_close(config: &Config) -> Result<Rules, Fail> {
    let rules = rules::load_or_close(config).map_err(|e| refused(config, e))?;
    let broken = rules.bundle.broken();
    let more = absent_tools(config, broken);
    broken.iter().cloned().chain(more).for_each(|reason| show::note(&format!("par: {reason}")));
    if !broken.is_empty() {
        show::note(
            "par: the policies are not loaded: nothing runs and nothing is approved. Administrators may read; \
             correct the policies, then run `par reload`",
        );
    }
    Ok(rules)
}

/// Loads tools and policies without running the policies' own tests: for inspection, not for
/// decisions.
pub(in crate::cli) fn load_unproven(config: &Config) -> Result<Rules, Fail> {
    rules::load_unproven(config).map_err(|e| Fail::rules(e.0.join("\npar: ")))
}
