//! The dashboard: pages made on the server, one stylesheet, one script, nothing from elsewhere.
//!
//! Here a browser opens a login with a key, reads, and answers approvals. No page starts a run, loads rules or makes
//! a key, and none holds a script or a style of its own.
//!
//! # Layout
//!
//! `format` makes text from outside safe and short; `assets` are stylesheet and script; `csrf` turns away what another
//! site sends; `cookie` names a login and `logins` holds them; `badge` is the check of the chain; `state` is what pages
//! answer from; `visitor` is who looks; `page` is the frame of every page; `headers` are those of every answer, with the pages of
//! errors; `form` reads what is sent; `login` opens a login and ends it; `row` is an entry in a table; `activity` counts the last hours. Then
//! one file per page; `live` is the stream behind the live one; `routes` their paths.
//!
//! Architecture invariants: model and tool text reaches a page only as text, through maud's escaping and
//! [`format`]; a page needs the same power as its endpoint of the API.

mod format;
mod assets;
mod csrf;
mod cookie;
mod logins;
mod badge;
mod state;
mod visitor;
mod page;
mod headers;
mod form;
mod login;
mod row;
mod live;
mod activity;
mod timeline;
mod run;
mod runs;
mod overview;
mod audit;
mod entry;
mod approvals;
mod tools;
mod health;
mod routes;

pub(super) use routes::routes;
