//! The tests that drive PAR from outside: the built binary, real processes, real files, real HTTP.
//!
//! What PAR does with processes, owners of files and kernel layers depends on the user that starts
//! it. CI runs the tests as root, and then the modules marked here again as an ordinary user.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

// The source keeps the house rules: which room may name which, and where each power is.
mod tidy;
// Only mints make proofs, and the compiler enforces it.
mod forgery;
// The shipped policies decide as the table says.
mod decisions;
// The ledger reveals every change, survives kills, and refuses without space.
mod ledger;
// Canonical JSON and SHA-256 give the published bytes.
mod vectors;
// The commands in the documents work.
mod readme; // as an ordinary user too
// The first command leaves a home in which a person can go on.
mod quickstart; // as an ordinary user too
// The examples do what their page says.
mod examples;
// Links and paths in the documents lead to files and headings that exist.
mod links;
// Tools and rules are added by a command, and taken back if a start would refuse them.
mod new; // as an ordinary user too
// Sentences that need no model.
mod sentences;
// The shipped tools are what their page says, and show no secret of the host.
mod shipped; // as an ordinary user too
// A newer version on an edited home.
mod upgrade;
// Reports from files of the host: packages, logins, jobs, certificates.
mod system_files; // as an ordinary user too
// Calls that wait for a person.
mod approval; // as an ordinary user too
// Approval requests are sent as events.
mod stream;
// What a run comes to on every wire, whole and streamed, whatever is wrong with the server.
mod outcomes;
// Models by name, their keys, and which of them is asked.
mod models;
// Questions on a terminal are answered there.
mod terminal;
// A home for one person, and one for several.
mod people; // as an ordinary user too
// What a person stops, and what goes on.
mod halt; // as an ordinary user too
// Users of this host ask without a key.
mod ask;
// Many clients without a key, and one key that takes what it can, leave enough for others.
mod crowd;
// Rules are replaced while calls are in progress.
mod reload; // as an ordinary user too
// Decisions are made again from the ledger, and edited ones are found.
mod replay;
// Requests to models are built again from the ledger, also by another reader.
mod rebuilt;

mod held;
// Followers of the ledger receive the entries that match.
mod follow;
// Runbooks are followed, recorded and checked.
mod runbooks;
// The page of ten questions is made on a host in trouble.
mod questions;
// Tools are switched on and off with their rules.
mod switch;
// Tools of the server itself: its record, look-ups and probes.
mod front; // as an ordinary user too
mod probes; // as an ordinary user too
// An export proves itself, and is recorded on the ledger.
mod export;
// Erased data is in no file any more.
mod redact;
// Backups, logs that follow damaged ones, and ledgers of several files.
mod backup; // as an ordinary user too
// A search leaves out what policies exclude, and records that it did.
mod search; // as an ordinary user too
// Powers of the API under custom rules.
mod powers;
// Another verifier, written from the specification of the format, agrees with PAR on whatever is
// done to a ledger.
mod attacks;
mod second;
// A ledger of many decisions.
mod evidence;
// A ledger that was changed behind the server makes it read-only, and every place says so.
mod damage;
// Its checkpoints are anchored outside, and reveal changes to it.
mod anchor;
mod forge;
mod history;
mod origins;
// Files of a group of the host are read by the tools that are in it.
mod rights;
// Scripts as tools deploy, roll back, and stay in their folder.
mod jobs; // as an ordinary user too
// An uploader of versions decides neither what a model does nor what is live.
mod uploader; // as an ordinary user too
// Tools connected to a real bus ask systemd, and restart a service there.
mod bus; // as an ordinary user too
// Tools that read a real journal.
mod journal; // as an ordinary user too
// A disk that fails at any one moment.
mod faults; // as an ordinary user too
// Installed into a folder, served as two users, watched.
mod service; // as an ordinary user too
// An approval is answered on its page.
mod dashboard;
// The dashboard looks right and behaves in a real browser.
mod browser;
// The launcher's binary contains no more than it needs.
mod launcher_binary; // as an ordinary user too
// A home, a server, and a way to talk to both.
mod support;
// A hostile model requests everything, and gets what the policy allows and no more.
mod model;
// Tools with network connections.
mod network; // as an ordinary user too
// What a hostile tool tries, one by one, and the outcomes.
mod attempts; // as an ordinary user too
// A kernel that offers less: what is reported, and what is refused.
mod withheld; // as an ordinary user too
// Processes that die, starts that must fail, orderly stops.
mod crash; // as an ordinary user too
// Named secrets: replaced before model, caller, page, log and ledger see them.
mod secrets; // as an ordinary user too
// The HTTP API: keys, roles, bodies, pages, waiting.
mod api;
// Output that cannot be written or is not read, and output for programs.
mod output;
// What the command line prints, word for word.
mod transcripts;
// What people see on terminals of several widths.
mod screens;
// The command line on an empty home, on a busy one, and about words that were meant.
mod ceiling;
// Several runs in one conversation.
mod sessions;
mod commands;
// A run without a server, as it happens.
mod live;
// The words of a model while they come, on a terminal and as events.
mod words;
