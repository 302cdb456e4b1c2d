//! A credential that is held but not shown.

use std::fmt;
use zeroize::Zeroizing;

/// A secret text: not printed by `Debug`, not cloned, overwritten in memory when dropped.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes `text` as it is; `None` where it is empty.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Zeroizing::new(text)))
    }

    /// The secret itself, for the one place that sends or compares it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("sk-0123456789".to_owned()).expect("not empty");
        assert_eq!((format!("{secret:?}").as_str(), secret.expose()), ("…", "sk-0123456789"));
        assert!(Secret::new(String::new()).is_none());
    }
}
