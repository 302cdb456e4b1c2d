//! Configuration: flag over environment over file over default; unknown keys are refused.
//!
//! Two stages: `Raw` is what was written, [`Config`] is what was checked.
//!
//! Architecture invariant: no other room reads the environment.
//!
//! # Layout
//!
//! `error`: why it was refused · `shown`: for people · `environment`: the one reader of variables · `home`: where its
//! parts are · [`trusted`]: files that only their owner writes · `raw`: as it was written · `secret`: where a named
//! secret is · `settings`: as it is in force.

mod error;
mod shown;
mod environment;
mod home;
pub mod trusted;
mod raw;
mod secret;
mod settings;

pub use environment::{
    KEY_VARIABLES, accepted_connection, client_key, is_color_wanted, is_journal, known_logs_file,
    log_key_file, notify_socket, server_url, watchdog_us,
};
pub use error::ConfigError;
pub use home::Home;
pub use secret::SecretSource;
pub use settings::{Anchoring, Config, Llm, LogFormat, Segments};
pub use shown::Shown;
