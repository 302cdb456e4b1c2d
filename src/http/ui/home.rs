//! `/ui/`: the first page that the visitor may see.

use super::overview;
use super::state::Ui;
use super::visitor::Visitor;
use crate::http::problem::Problem;
use crate::policy::Power;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Redirect, Response};

/// The first page of a visitor who may not see the overview, by the power that it needs.
const FIRST: [(Power, &str); 3] =
    [(Power::RunRead, "/ui/runs"), (Power::ApprovalRead, "/ui/approvals"), (Power::ToolsRead, "/ui/tools")];

pub(super) async fn show(
    ui: State<Ui>,
    visitor: Visitor,
    asked: Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let elsewhere = FIRST.into_iter().find(|(power, _)| visitor.may(*power));
    match elsewhere.filter(|_| !visitor.may(Power::AuditRead)) {
        Some((_, path)) => Ok(Redirect::to(path).into_response()),
        None => Ok(overview::show(ui, visitor, asked).await?.into_response()),
    }
}
