//! Builds a provider from its configuration.

use super::error::ModelError;
use super::guarded::Guarded;
use super::offline::provider::Offline;
use super::offline::sentences::NamedFolders;
use super::proposer::ProviderKind;
use super::provider::Provider;
use super::remote::client::Remote;
use super::remote::wire::Wire as _;
use super::settings::Settings;
use super::wires::anthropic::Messages;
use super::wires::gemini::GenerateContents;
use super::wires::ollama::OllamaChats;
use super::wires::openai::ChatCompletions;
use super::wires::responses::Responses;
use std::sync::Arc;

impl ProviderKind {
    /// The provider's default base URL; `None` if it uses no server.
    #[must_use]
    pub fn base_url(self) -> Option<&'static str> {
        match self {
            Self::Offline => None,
            Self::OpenAi => Some(ChatCompletions::BASE_URL),
            Self::OpenAiResponses => Some(Responses::BASE_URL),
            Self::Anthropic => Some(Messages::BASE_URL),
            Self::Gemini => Some(GenerateContents::BASE_URL),
            Self::Ollama => Some(OllamaChats::BASE_URL),
        }
    }
}

/// Builds the providers of the models that are asked, in order. Returns the first, which knows the
/// next ([`Provider::next`]).
pub fn build_all(asked: Vec<Settings>) -> Result<Arc<dyn Provider>, ModelError> {
    let mut next: Option<Arc<dyn Provider>> = None;
    for settings in asked.into_iter().rev() {
        let name = settings.name.clone();
        let named = |e: ModelError| ModelError { message: format!("the model `{name}`: {}", e.message), ..e };
        let provider = build(settings).map_err(named)?;
        next = Some(Arc::new(Guarded::new(name, provider, next.take())));
    }
    next.ok_or_else(|| ModelError::not_configured("no model is asked".to_owned()))
}

/// Builds the provider. Opens no connection and reads no file.
pub fn build(settings: Settings) -> Result<Arc<dyn Provider>, ModelError> {
    Ok(match settings.provider {
        ProviderKind::Offline => {
            Arc::new(Offline::new(NamedFolders { logs: settings.logs, workspace: settings.workspace }))
        }
        ProviderKind::OpenAi => Arc::new(Remote::<ChatCompletions>::new(settings)?),
        ProviderKind::OpenAiResponses => Arc::new(Remote::<Responses>::new(settings)?),
        ProviderKind::Anthropic => Arc::new(Remote::<Messages>::new(settings)?),
        ProviderKind::Gemini => Arc::new(Remote::<GenerateContents>::new(settings)?),
        ProviderKind::Ollama => Arc::new(Remote::<OllamaChats>::new(settings)?),
    })
}

#[cfg(test)]
mod tests {
    use super::{ProviderKind, Settings, build};
    use crate::config::ModelKeys;
    use crate::llm::ModelErrorKind;
    use crate::types::Secret;

    #[test]
    fn a_missing_setting_is_named() {
        for kind in ProviderKind::ALL.into_iter().filter(|kind| *kind != ProviderKind::Offline) {
            let (wire, usual) = (kind.as_str(), kind.base_url().expect("a server"));
            let check = |base_url: &str, model: &str, key: Option<&str>, expect: Option<&str>| {
                let settings = Settings {
                    provider: kind,
                    base_url: base_url.to_owned(),
                    model: model.to_owned(),
                    name: "one".to_owned(),
                    table: "models.one".to_owned(),
                    keys: key
                        .and_then(|key| Secret::new(key.to_owned()))
                        .map_or_else(ModelKeys::default, |key| ModelKeys::of("one", key)),
                    ..Settings::default()
                };
                match (build(settings), expect) {
                    (Ok(provider), None) => assert_eq!((provider.name(), provider.model()), (wire, model)),
                    (Err(error), Some(expect)) => {
                        assert_eq!(error.kind, ModelErrorKind::NotConfigured);
                        assert!(error.message.contains(expect), "{error}");
                    }
                    (Ok(_), Some(expect)) => {
                        panic!("`{base_url}` was accepted, expected a refusal with {expect}")
                    }
                    (Err(error), None) => panic!("`{base_url}` was refused: {error}"),
                }
            };
            check("", "m", Some("sk-1"), None);
            let refused = Some(format!("no API key for `{usual}`"));
            // A server on this host needs none.
            check("", "m", None, refused.as_deref().filter(|_| kind != ProviderKind::Ollama));
            check("http://127.0.0.1:8080/v1/", "m", None, None);
            check("http://127.0.0.1:8080/v1/", " ", None, Some("`models.one.model`"));
            check("127.0.0.1:8080", "m", None, Some("the URL"));
            check("unix:///run/model.sock", "m", None, Some("the URL"));
        }
    }

    #[test]
    fn offline_needs_nothing() {
        let provider = build(Settings::default()).expect("offline");
        assert_eq!((provider.name(), provider.model()), ("offline", "offline"));
        assert_eq!(ProviderKind::parse("offline"), Some(ProviderKind::Offline));
        assert_eq!(ProviderKind::parse("Offline"), None);
    }
}
