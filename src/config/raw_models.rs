//! `[llm]` and `[models.NAME]` as written.

use crate::types::{Price, limits};
use serde::Deserialize;

/// `[llm]`: the order of named models, or the one model `default`.
#[derive(Default, Deserialize)]
#[serde(rename = "Llm", default, deny_unknown_fields)]
pub(super) struct RawLlm {
    #[serde(rename = "use")]
    pub(super) order: Vec<String>,
    pub(super) provider: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) model: Option<String>,
    pub(super) api_key_file: Option<String>,
    pub(super) ca_file: Option<String>,
    pub(super) addresses: Option<Vec<String>>,
    pub(super) reply_tokens_max: Option<u32>,
}

impl RawLlm {
    /// The keys that describe the model `default`, as far as they are written.
    pub(super) fn of_default(&self) -> Vec<&'static str> {
        [
            ("llm.provider", self.provider.is_some()),
            ("llm.base_url", self.base_url.is_some()),
            ("llm.model", self.model.is_some()),
            ("llm.api_key_file", self.api_key_file.is_some()),
            ("llm.ca_file", self.ca_file.is_some()),
            ("llm.addresses", self.addresses.is_some()),
            ("llm.reply_tokens_max", self.reply_tokens_max.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, is_written)| is_written.then_some(key))
        .collect()
    }

    /// Each key with its value as TOML. Without named models, the model `default` in full.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        let mut keys = vec![("llm.use".to_owned(), list(&self.order))];
        if self.order.is_empty() {
            let word = |word: &Option<String>, usual: &str| text(word.as_deref().unwrap_or(usual));
            keys.extend([
                ("llm.provider".to_owned(), word(&self.provider, "offline")),
                ("llm.base_url".to_owned(), word(&self.base_url, "")),
                ("llm.model".to_owned(), word(&self.model, "")),
                ("llm.api_key_file".to_owned(), word(&self.api_key_file, "")),
                ("llm.ca_file".to_owned(), word(&self.ca_file, "")),
                ("llm.addresses".to_owned(), list(self.addresses.as_deref().unwrap_or_default())),
                ("llm.reply_tokens_max".to_owned(), self.reply_tokens_max.unwrap_or(0).to_string()),
            ]);
        }
        keys
    }
}

/// `[models.NAME]`.
#[derive(Deserialize)]
#[serde(rename = "Model", default, deny_unknown_fields)]
pub(super) struct RawModel {
    pub(super) wire: String,
    pub(super) base_url: String,
    pub(super) model: String,
    pub(super) key: String,
    pub(super) window_tokens: u64,
    pub(super) reply_tokens_max: u32,
    pub(super) input_price: Option<Price>,
    pub(super) output_price: Option<Price>,
    pub(super) connect_ms: u64,
    pub(super) first_byte_ms: u64,
    pub(super) idle_ms: u64,
    pub(super) total_ms: u64,
    pub(super) proxy: String,
    pub(super) ca_file: String,
    pub(super) addresses: Vec<String>,
}

impl Default for RawModel {
    fn default() -> Self {
        Self {
            wire: String::new(),
            base_url: String::new(),
            model: String::new(),
            key: String::new(),
            window_tokens: 0,
            reply_tokens_max: 0,
            input_price: None,
            output_price: None,
            connect_ms: limits::MODEL_CONNECT_MS,
            first_byte_ms: limits::MODEL_FIRST_BYTE_MS,
            idle_ms: limits::MODEL_IDLE_MS,
            total_ms: limits::MODEL_MS_MAX,
            proxy: String::new(),
            ca_file: String::new(),
            addresses: Vec::new(),
        }
    }
}

impl RawModel {
    /// Each key with its value as TOML.
    pub(super) fn shown(&self, name: &str) -> Vec<(String, String)> {
        let mut keys = vec![
            ("wire", text(&self.wire)),
            ("base_url", text(&self.base_url)),
            ("model", text(&self.model)),
            ("key", text(&self.key)),
            ("window_tokens", self.window_tokens.to_string()),
            ("reply_tokens_max", self.reply_tokens_max.to_string()),
        ];
        let price = |price: &Option<Price>| price.map(|price| price.to_string());
        keys.extend(price(&self.input_price).map(|price| ("input_price", price)));
        keys.extend(price(&self.output_price).map(|price| ("output_price", price)));
        keys.extend([
            ("connect_ms", self.connect_ms.to_string()),
            ("first_byte_ms", self.first_byte_ms.to_string()),
            ("idle_ms", self.idle_ms.to_string()),
            ("total_ms", self.total_ms.to_string()),
            ("proxy", text(&self.proxy)),
            ("ca_file", text(&self.ca_file)),
            ("addresses", list(&self.addresses)),
        ]);
        keys.into_iter().map(|(key, value)| (format!("models.{name}.{key}"), value)).collect()
    }
}

fn text(value: &str) -> String {
    toml::Value::from(value).to_string()
}

fn list(values: &[String]) -> String {
    toml::Value::from(values.to_vec()).to_string()
}
