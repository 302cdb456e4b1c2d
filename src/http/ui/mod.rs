//! The dashboard: pages made on the server, with one stylesheet and one script and nothing from
//! elsewhere.
//!
//! A browser opens a login with a key, reads, and answers approvals. No page starts a run, loads
//! rules or creates a key, and none contains an inline script or style.
//!
//! Invariants: text of models and tools reaches a page only as text, through maud's escaping and
//! [`format`]. A page needs the same power as its endpoint of the API. A change needs the form's
//! token and a page of ours; an answer also needs the proof of the tab that logged in; an approval
//! also needs a recent login.
//!
//! # Layout
//!
//! * `format`: makes outside text safe and short
//! * `assets`: stylesheet and script
//! * `csrf`: refuses requests from other sites
//! * `cookie`, `logins`: the login cookie and the open logins
//! * `state`: the state that pages use
//! * `visitor`: the login of a request
//! * `page`: the frame of every page
//! * `headers`: response headers, and errors as pages
//! * `form`: submitted forms
//! * `login`: logs in and out
//! * `row`: an entry in a table
//! * `activity`: counts of the last hours
//! * `live`: the stream of the live page
//! * `home`: the first page of a visitor
//! * `card`: what is shown of an approval
//! * `routes`: paths
//! * the other files: one page each

mod format;
mod assets;
mod csrf;
mod cookie;
mod logins;
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
mod halts;
mod run;
mod runs;
mod overview;
mod home;
mod audit;
mod entry;
mod card;
mod approvals;
mod tools;
mod health;
mod routes;

pub(super) use routes::routes;
