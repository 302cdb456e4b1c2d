//! The configured language model, as a question to the rules that no run asks.

use crate::cli::exit::Fail;
use crate::config::Config;
use crate::egress::Endpoint;
use crate::llm::ProviderKind;
use crate::types::{ModelSink, limits};

/// The model of `[llm]`.
pub(super) fn configured(config: &Config) -> Result<ModelSink, Fail> {
    let llm = &config.llm;
    let kind = ProviderKind::parse(&llm.provider);
    let kind = kind.ok_or_else(|| Fail::usage(format!("`llm.provider`: unknown `{}`", llm.provider)))?;
    let own = kind.base_url().ok_or_else(|| {
        Fail::usage(format!(
            "the provider `{}` sends nothing, so no rule is asked about it: `[llm]` in par.toml sets another",
            llm.provider
        ))
    })?;
    let base_url = if llm.base_url.is_empty() { own } else { &llm.base_url };
    let endpoint = Endpoint::parse(base_url, "").map_err(|e| Fail::usage(format!("`llm.base_url`: {e}")))?;
    Ok(ModelSink {
        name: ModelSink::DEFAULT.to_owned(),
        provider: llm.provider.clone(),
        model: llm.model.clone(),
        host: endpoint.host_port(),
        reply_tokens_max: llm.reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
    })
}
