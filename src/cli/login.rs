//! `par login`: a link that opens a login for answering approvals on the dashboard.

use super::exit::{self, Fail};
use super::remote;
use super::{compose, show};
use crate::config::Config;
use crate::http::admin::{self, Operation};
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct LoginLink {}

impl LoginLink {
    #[expect(clippy::unused_self, reason = "as every command")]
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let asked = json!({ "op": Operation::LoginCreate.as_str() });
        let answer = admin::call(&config.home.data, &asked)?;
        let word = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
        // The lock names the address; a user who cannot read it is at the configured one.
        let url = remote::url(&compose::files(config)).unwrap_or_else(|| format!("http://{}", config.listen));
        let link = format!("{url}/ui/login#{}", word("code"));
        let seconds = answer.get("seconds").and_then(Value::as_u64).unwrap_or_default();
        if is_json {
            show::hand_over(&json!({ "link": link, "seconds": seconds }).to_string())
                .map_err(Fail::failed)?;
        } else {
            show::note(&format!(
                "par: this link opens one login, within {seconds} s; it answers approvals for 15 minutes:"
            ));
            show::hand_over(&link).map_err(Fail::failed)?;
        }
        Ok(exit::OK)
    }
}
