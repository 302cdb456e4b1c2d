//! The state that the pages use.

use super::logins::Logins;
use crate::http::app::App;
use crate::http::stream::Streams;
use std::sync::Arc;

/// The state that the pages use. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Ui {
    pub(super) app: App,
    pub(super) logins: Arc<Logins>,
    pub(super) streams: Streams,
}
