//! `par model test`: one short request, outside any run.

use crate::cli::compose;
use crate::cli::exit::{self, Fail};
use crate::cli::progress::Busy;
use crate::cli::show;
use crate::config::{Config, ModelKeys, NamedModel};
use crate::llm::ModelReply;
use crate::types::clock::mono_us;
use crate::types::{limits, text};
use serde_json::json;
use std::time::Duration;

/// Sends the request and shows the outcome and the time that it took.
pub(super) fn test(config: &Config, model: &NamedModel, is_json: bool) -> Result<u8, Fail> {
    let found = config.model_key(model).map_err(Fail::usage)?;
    let keys = found.map_or_else(ModelKeys::default, |found| ModelKeys::of(&model.name, found.key));
    let secrets = compose::secrets(config, Some(&keys))?;
    let provider = compose::provider_of(config, model, &keys, &secrets)?;
    let runtime = compose::runtime()?;
    let deadline = Duration::from_millis(limits::MODEL_MS_MAX);
    let name = model.name.clone();
    let busy = Busy::new(move || format!("asking {name}"));
    let began_us = mono_us();
    let asked = runtime.block_on(provider.probe(deadline));
    let ms = mono_us().saturating_sub(began_us) / 1_000;
    drop(busy);
    match asked {
        Ok(reply) => {
            let reply = secrets.clean(reply).into_inner();
            answered(model, &reply, ms, is_json)?;
            Ok(exit::OK)
        }
        Err(error) => {
            let error = error.to_string();
            if is_json {
                show::json(&json!({ "name": model.name, "ok": false, "ms": ms, "error": error }))?;
            } else {
                show::line(&format!("✗ {}  failed after {ms} ms: {error}", model.name))?;
            }
            Ok(exit::FAILED)
        }
    }
}

fn answered(model: &NamedModel, reply: &ModelReply, ms: u64, is_json: bool) -> Result<(), Fail> {
    let (input, output) = (reply.usage.input_tokens, reply.usage.output_tokens);
    let said = reply.text.as_deref().unwrap_or_default().trim();
    let said = text::visible_line(text::prefix(said, limits::SHOWN_BYTES_MAX));
    if is_json {
        return show::json(&json!({
            "name": model.name, "ok": true, "ms": ms, "model": reply.model, "text": said,
            "input_tokens": input, "output_tokens": output,
        }));
    }
    let said = if said.is_empty() { "no text".to_owned() } else { format!("`{said}`") };
    let tokens = format!("{input} tokens read, {output} written");
    show::line(&format!("✓ {}  {} answered {said} in {ms} ms; {tokens}", model.name, reply.model))
}
