//! The configuration for display.

/// One key of the configuration, for `par config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key, such as `server.listen`.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// `default`, `file` or the variable's name.
    pub from: String,
}

impl Shown {
    /// Its value, as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        // A value that was written as TOML parses as TOML.
        let value = self.value.parse::<toml::Value>().ok();
        value.and_then(|value| serde_json::to_value(value).ok()).unwrap_or_default()
    }
}
