//! The secrets that a manifest gives its program.

use crate::types::limits;

/// The environment variable that says where the secret `name` is: `PAR_SECRET_BACKUP_PASSWORD` for
/// `backup.password`.
#[must_use]
pub fn secret_variable(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("PAR_SECRET_{}", name.chars().map(plain).collect::<String>())
}

/// Refuses more than [`limits::SECRETS_GIVEN_MAX`], and two that would share one variable.
pub(super) fn check_secrets(names: &[String]) -> Result<(), String> {
    if names.len() > limits::SECRETS_GIVEN_MAX {
        return Err(format!("more than {} secrets", limits::SECRETS_GIVEN_MAX));
    }
    let mut words: Vec<String> = names.iter().map(|name| secret_variable(name)).collect();
    words.sort_unstable();
    match words.iter().zip(words.iter().skip(1)).find(|(word, next)| word == next) {
        Some((word, _)) => Err(format!("two secrets would share the variable `{word}`")),
        None => Ok(()),
    }
}
