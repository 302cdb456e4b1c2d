//! Loads the tools and policies of a home, with error messages for the command line.

use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::Config;
use crate::gate::Rules;
use crate::rules;

/// Loads tools and policies. The error names file, line and reason.
pub(in crate::cli) fn load_rules(config: &Config) -> Result<Rules, Fail> {
    rules::load_rules(config).map_err(|e| Fail::rules(e.0.join("\npar: ")))
}

/// Loads tools and policies for a server. If the policies are broken, it says so and loads them
/// closed.
pub(in crate::cli) fn load_or_close(config: &Config) -> Result<Rules, Fail> {
    let rules = rules::load_or_close(config).map_err(|e| Fail::rules(e.0.join("\npar: ")))?;
    let broken = rules.bundle.broken();
    broken.iter().for_each(|reason| show::note(&format!("par: {reason}")));
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
