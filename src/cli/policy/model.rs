//! The language model that is asked first, as a question to the rules that no run asks.

use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::config::Config;
use crate::egress::Endpoint;
use crate::types::{ModelSink, limits};

/// The model that is asked first.
pub(super) fn configured(config: &Config) -> Result<ModelSink, Fail> {
    let model = config.models.asked().next().ok_or_else(|| Fail::usage("no model is asked"))?;
    let own = compose::wire(model)?.base_url().ok_or_else(|| {
        Fail::usage(format!(
            "the provider `{}` sends nothing, so no rule is asked about it: `[llm]` in par.toml sets another",
            model.wire
        ))
    })?;
    let base_url = if model.base_url.is_empty() { own } else { &model.base_url };
    let setting = model.setting("base_url");
    let endpoint = Endpoint::parse(base_url, "").map_err(|e| Fail::usage(format!("`{setting}`: {e}")))?;
    Ok(ModelSink {
        name: model.name.clone(),
        provider: model.wire.clone(),
        model: model.model.clone(),
        host: endpoint.host_port(),
        reply_tokens_max: model.reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
    })
}
