//! The configuration for people.

/// One key of the configuration, for `par config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Such as `server.listen`.
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
        // What was written as TOML reads as TOML.
        let value = self.value.parse::<toml::Value>().ok();
        value.and_then(|value| serde_json::to_value(value).ok()).unwrap_or_default()
    }
}
