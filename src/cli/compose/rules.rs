//! Tools and policies of a home, with the command line's words where they are at fault.

use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::Config;
use crate::gate::Rules;
use crate::rules;

/// Loads tools and policies; the error names file, line and reason.
pub(in crate::cli) fn load_rules(config: &Config) -> Result<Rules, Fail> {
    rules::load_rules(config).map_err(|e| Fail::usage(e.0.join("\npar: ")))
}

/// Loads tools and policies for a server, and says so where its policies are closed.
pub(in crate::cli) fn load_or_close(config: &Config) -> Result<Rules, Fail> {
    let rules = rules::load_or_close(config).map_err(|e| Fail::usage(e.0.join("\npar: ")))?;
    let broken = rules.bundle.broken();
    broken.iter().for_each(|reason| show::note(&format!("par: {reason}")));
    if !broken.is_empty() {
        show::note(
            "par: the policies are not loaded: nothing runs and nothing is approved. An administrator reads, and \
             `par reload` loads them once they are mended",
        );
    }
    Ok(rules)
}

/// Loads tools and policies without running the policies' own tests: to look at, not to decide by.
pub(in crate::cli) fn load_unproven(config: &Config) -> Result<Rules, Fail> {
    rules::load_unproven(config).map_err(|e| Fail::usage(e.0.join("\npar: ")))
}
