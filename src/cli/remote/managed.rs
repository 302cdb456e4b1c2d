//! The runs of all users, over the admin socket of a home's server: for root and the owner of the
//! home.

use crate::cli::exit::{self, Fail};
use crate::config::Home;
use crate::http::admin::{self, AdminError, Operation};
use crate::types::RunId;
use serde_json::{Value, json};

/// Whether this user may read them.
pub(in crate::cli) fn is_manager(home: &Home) -> bool {
    ask(home, Operation::RunList, json!({ "limit": 1 })).is_ok()
}

/// A page of runs. `asked` has the parameters of `GET /runs`, with `query` in place of `q`.
pub(in crate::cli) fn runs(home: &Home, asked: Value) -> Result<Value, Fail> {
    ask(home, Operation::RunList, asked)
}

/// One run.
pub(in crate::cli) fn run(home: &Home, id: &RunId) -> Result<Value, Fail> {
    let mut found = ask(home, Operation::RunShow, json!({ "id": id.as_str() }))?;
    Ok(found.get_mut("run").map(Value::take).unwrap_or_default())
}

/// Cancels a run.
pub(in crate::cli) fn cancel(home: &Home, id: &RunId, reason: Option<&str>) -> Result<Value, Fail> {
    ask(home, Operation::RunCancel, json!({ "id": id.as_str(), "reason": reason }))
}

/// A page of approvals.
pub(in crate::cli) fn approvals(home: &Home, after: u64) -> Result<Value, Fail> {
    ask(home, Operation::ApprovalList, json!({ "after": after }))
}

fn ask(home: &Home, operation: Operation, asked: Value) -> Result<Value, Fail> {
    let mut request = asked;
    if let Some(members) = request.as_object_mut() {
        members.insert("op".to_owned(), operation.as_str().into());
    }
    admin::call(&home.data, &request).map_err(|error| match error {
        AdminError::Refused(why) => Fail::new(exit::DENIED, why),
        AdminError::NotRunning => Fail::failed(AdminError::NotRunning),
        error => error.into(),
    })
}
