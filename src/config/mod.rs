//! Configuration: a flag overrides the environment, which overrides the file, which overrides the
//! default; unknown keys are refused.
//!
//! Configuration has two stages: `Raw` is what was written, [`Config`] is what was checked.
//!
//! Invariant: no other room reads the environment.
//!
//! # Layout
//!
//! * `environment`: the only code that reads environment variables. `home`: the paths of a home.
//! * [`trusted`]: reads files that only their owner can write.
//! * `raw`: the configuration as written. `settings`: the configuration in force.
//! * `raw_models`, `models`: the models by name. `model_key`: where a key comes
//!   from. `model_keys`: the keys in use.
//! * `secret`: the source of a named secret. `shown`: the configuration for display.
//! * `error`: why a configuration was refused.

mod error;
mod shown;
mod environment;
mod home;
pub mod trusted;
mod raw_models;
mod raw;
mod model_key;
mod models;
mod model_keys;
mod secret;
mod settings;
#[cfg(test)]
mod tests;

pub use environment::{
    KEY_VARIABLES, accepted_connection, client_key, is_color_wanted, is_journal, is_on_search_path,
    known_logs_file, log_filter, log_key_file, notify_socket, passed_sockets, terminal_columns,
    terminal_rows, watchdog_us,
};
pub use error::{ConfigError, ConfigFaults};
pub use home::{Home, closed_to_others, socket_folders};
pub use model_key::{FoundKey, KeyPlace, ModelKeySource};
pub use model_keys::{ModelKeys, RereadKeys};
pub use models::{ModelWaits, Models, NamedModel, secret_name};
pub use raw::{OsUser, ROLE_NAMES};
pub use secret::SecretSource;
pub use settings::{Anchoring, Config, LogFormat, Segments};
pub use shown::Shown;
