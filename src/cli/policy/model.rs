//! The model that is asked first, as a question to the rules that no run asks.

use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::config::Config;
use crate::egress::Endpoint;
use crate::types::{ModelSink, limits};

/// The first model that the configuration asks.
pub(super) fn configured(config: &Config) -> Result<ModelSink, Fail> {
    let offline =
        || Fail::usage("`offline` sends nothing, so no rule is asked about it: par.toml configures a model");
    let model = config.models.asked().next().ok_or_else(offline)?;
    let own = compose::wire(model)?.base_url().ok_or_else(offline)?;
    let base_url = if model.base_url.is_empty() { own } else { &model.base_url };
    let endpoint = Endpoint::parse(base_url, "")
        .map_err(|e| Fail::usage(format!("`{}`: {e}", model.setting("base_url"))))?;
    Ok(ModelSink {
        name: model.name.clone(),
        provider: model.wire.clone(),
        model: model.model.clone(),
        host: endpoint.host_port(),
        reply_tokens_max: model.reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
    })
}
