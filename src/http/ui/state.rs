//! What the pages answer from.

use super::badge::Chain;
use super::logins::Logins;
use crate::http::app::App;
use crate::http::stream::Streams;
use std::sync::Arc;

/// What the pages answer from. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Ui {
    pub(super) app: App,
    pub(super) logins: Arc<Logins>,
    pub(super) chain: Arc<Chain>,
    pub(super) streams: Streams,
}
