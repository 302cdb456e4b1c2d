//! The models in force, by name, and the order in which they are asked.

use super::home::Home;
use super::model_key::ModelKeySource;
use super::raw_models::{RawLlm, RawModel};
use crate::types::{ModelSink, Price, limits, nearest};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Longest name of a model.
const NAME_BYTES_MAX: usize = 32;

/// The models of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Models {
    /// Every model, sorted by name.
    pub all: Vec<NamedModel>,
    /// The names of those that are asked, in order. At least one.
    pub order: Vec<String>,
}

/// A model of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedModel {
    /// Its name: `[A-Za-z0-9_-]{1,32}`.
    pub name: String,
    /// The table that describes it, for messages: `llm` or `models.NAME`.
    pub table: String,
    /// The protocol, as written; the code that speaks it parses the word.
    pub wire: String,
    /// Base URL of the server; empty for the protocol's own.
    pub base_url: String,
    /// The model to ask for.
    pub model: String,
    /// Where its key comes from.
    pub key: ModelKeySource,
    /// Tokens that the model reads and writes at most; `None` is not known.
    pub window_tokens: Option<u64>,
    /// Maximum number of tokens in one reply.
    pub reply_tokens_max: Option<u32>,
    /// The price of a million tokens that the model reads.
    pub input_price: Option<Price>,
    /// The price of a million tokens that the model writes.
    pub output_price: Option<Price>,
    /// How long its server is waited for.
    pub waits: ModelWaits,
    /// The proxy through which its server is reached: an `http` URL.
    pub proxy: Option<String>,
    /// Certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Address ranges that are not public and that the name in `base_url` may lead to.
    pub addresses: Vec<IpNet>,
}

/// How long a model's server is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelWaits {
    /// For the connection: look-up, TCP, TLS.
    pub connect: Duration,
    /// For the head of the answer, once the request is being sent.
    pub first_byte: Duration,
    /// For the next piece of the answer.
    pub idle: Duration,
    /// For all attempts at one request together.
    pub total: Duration,
}

impl Default for ModelWaits {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(limits::MODEL_CONNECT_MS),
            first_byte: Duration::from_millis(limits::MODEL_FIRST_BYTE_MS),
            idle: Duration::from_millis(limits::MODEL_IDLE_MS),
            total: Duration::from_millis(limits::MODEL_MS_MAX),
        }
    }
}

/// The setting at fault and the reason.
type Refused = (String, String);

impl Models {
    pub(super) fn resolve(
        llm: RawLlm,
        tables: BTreeMap<String, RawModel>,
        home: &Home,
    ) -> Result<Self, Refused> {
        let of_default = llm.of_default();
        let quoted = of_default.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        if let Some(first) = tables.keys().next() {
            check_tables(&tables)?;
            if !of_default.is_empty() {
                let what = format!(
                    "there are `[models.{first}]` and the model of `[llm]`: remove {quoted} and name the models \
                     in `llm.use`, or remove the tables `[models.…]`"
                );
                return Err(("llm".to_owned(), what));
            }
            if llm.order.is_empty() {
                let what = format!("is missing: write `use = [\"{first}\"]`, in the order of asking");
                return Err(("llm.use".to_owned(), what));
            }
        } else if !llm.order.is_empty() && !of_default.is_empty() {
            let what = format!("both this and {quoted} are set: remove one of them");
            return Err(("llm.use".to_owned(), what));
        }
        if llm.order.is_empty() {
            return Ok(Self {
                all: vec![default_model(llm, home)?],
                order: vec![ModelSink::DEFAULT.to_owned()],
            });
        }
        check_order(&llm.order, &tables)?;
        let all = tables.into_iter().map(|(name, raw)| model(name, raw, home));
        Ok(Self { all: all.collect::<Result<_, _>>()?, order: llm.order })
    }

    /// The models that are asked, in order.
    pub fn asked(&self) -> impl Iterator<Item = &NamedModel> {
        self.order.iter().filter_map(|name| self.find(name))
    }

    /// The model of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&NamedModel> {
        self.all.iter().find(|model| model.name == name)
    }

    /// The known name that `name` most likely stands for.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.all.iter().map(|model| model.name.as_str()))
    }
}

impl NamedModel {
    /// The name of its key among the secrets.
    #[must_use]
    pub fn secret_name(&self) -> String {
        secret_name(&self.name)
    }

    /// The settings that decide where its key comes from and goes to, and that `other` has
    /// otherwise.
    pub(super) fn sends_differently(&self, other: &Self) -> Vec<&'static str> {
        let differ = [
            ("wire", self.wire != other.wire),
            ("base_url", self.base_url != other.base_url),
            ("key", self.key != other.key),
            ("addresses", self.addresses != other.addresses),
            ("proxy", self.proxy != other.proxy),
            ("ca_file", self.ca_file != other.ca_file),
        ];
        differ.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// A setting of it, as messages name it: `llm.model`, `models.NAME.model`.
    #[must_use]
    pub fn setting(&self, key: &str) -> String {
        format!("{}.{key}", self.table)
    }
}

/// The name among the secrets of the key of the model `name`.
#[must_use]
pub fn secret_name(name: &str) -> String {
    if name == ModelSink::DEFAULT { "llm.api_key".to_owned() } else { format!("models.{name}.key") }
}

fn check_tables(tables: &BTreeMap<String, RawModel>) -> Result<(), Refused> {
    if tables.len() > limits::MODELS_MAX {
        return Err(("models".to_owned(), format!("more than {} models", limits::MODELS_MAX)));
    }
    if tables.contains_key(ModelSink::DEFAULT) {
        let what = "this is the name of the model that `[llm]` describes: choose another one";
        return Err((format!("models.{}", ModelSink::DEFAULT), what.to_owned()));
    }
    match tables.keys().find(|name| !is_name(name)) {
        Some(name) => {
            let must = format!("must be 1 to {NAME_BYTES_MAX} characters of `A-Z a-z 0-9 _ -`");
            Err((format!("models.{name}"), format!("the name {must}")))
        }
        None => Ok(()),
    }
}

fn check_order(order: &[String], tables: &BTreeMap<String, RawModel>) -> Result<(), Refused> {
    for (at, name) in order.iter().enumerate() {
        if !tables.contains_key(name) {
            let meant = nearest(name, tables.keys().map(String::as_str));
            let meant = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
            let shown = crate::types::text::visible_line(name);
            return Err(("llm.use".to_owned(), format!("no table `[models.{shown}]`{meant}")));
        }
        if order.iter().take(at).any(|other| other == name) {
            return Err(("llm.use".to_owned(), format!("`{name}` is named twice")));
        }
    }
    Ok(())
}

/// Whether it can name a model: it is part of a file name, of a secret's name and of a policy's
/// resource.
fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// The model that `[llm]` describes by itself.
fn default_model(llm: RawLlm, home: &Home) -> Result<NamedModel, Refused> {
    let wire = llm.provider.unwrap_or_else(|| "offline".to_owned());
    let key = ModelKeySource::of_default(&wire, llm.api_key_file.as_deref().unwrap_or_default(), home);
    let raw = RawModel {
        wire,
        base_url: llm.base_url.unwrap_or_default(),
        model: llm.model.unwrap_or_default(),
        reply_tokens_max: llm.reply_tokens_max.unwrap_or_default(),
        ca_file: llm.ca_file.unwrap_or_default(),
        addresses: llm.addresses.unwrap_or_default(),
        ..RawModel::default()
    };
    finish(ModelSink::DEFAULT.to_owned(), "llm".to_owned(), key, raw, home)
}

fn model(name: String, raw: RawModel, home: &Home) -> Result<NamedModel, Refused> {
    let table = format!("models.{name}");
    let refuse = |key: &str, why: &str| Err((format!("{table}.{key}"), why.to_owned()));
    if raw.wire.is_empty() {
        return refuse("wire", "is missing: the protocol that the server speaks");
    }
    let key = ModelKeySource::parse(&raw.key, &name, home).map_err(|why| (format!("{table}.key"), why))?;
    finish(name, table, key, raw, home)
}

fn finish(
    name: String,
    table: String,
    key: ModelKeySource,
    raw: RawModel,
    home: &Home,
) -> Result<NamedModel, Refused> {
    let addresses = raw
        .addresses
        .iter()
        .map(|range| net(range).map_err(|why| (format!("{table}.addresses"), format!("`{range}` {why}"))));
    let addresses = addresses.collect::<Result<_, _>>()?;
    if (1..limits::MODEL_WINDOW_TOKENS_MIN).contains(&raw.window_tokens) {
        let least = limits::MODEL_WINDOW_TOKENS_MIN;
        let why = format!("must be at least {least}, or 0 if it is not known");
        return Err((format!("{table}.window_tokens"), why));
    }
    let waits = waits(&raw).map_err(|(key, why)| (format!("{table}.{key}"), why))?;
    Ok(NamedModel {
        addresses,
        waits,
        key,
        wire: raw.wire,
        base_url: raw.base_url,
        model: raw.model,
        window_tokens: (raw.window_tokens > 0).then_some(raw.window_tokens),
        reply_tokens_max: (raw.reply_tokens_max > 0).then_some(raw.reply_tokens_max),
        input_price: raw.input_price,
        output_price: raw.output_price,
        proxy: (!raw.proxy.is_empty()).then_some(raw.proxy),
        ca_file: (!raw.ca_file.is_empty()).then(|| home.root.join(&raw.ca_file)),
        name,
        table,
    })
}

fn net(range: &str) -> Result<IpNet, &'static str> {
    let net: IpNet = range.parse().map_err(|_| "is not an address range, expected the form `10.1.0.0/16`")?;
    if net == net.trunc() { Ok(net) } else { Err("has bits set after its prefix") }
}

fn waits(raw: &RawModel) -> Result<ModelWaits, (&'static str, String)> {
    let most = limits::RUN_MS_MAX;
    let one = |key, ms| match ms {
        1.. if ms <= most => Ok(Duration::from_millis(ms)),
        _ => Err((key, format!("must be between 1 and {most}"))),
    };
    Ok(ModelWaits {
        connect: one("connect_ms", raw.connect_ms)?,
        first_byte: one("first_byte_ms", raw.first_byte_ms)?,
        idle: one("idle_ms", raw.idle_ms)?,
        total: one("total_ms", raw.total_ms)?,
    })
}
