//! The tests that drive PAR from outside: the built binary, real processes, real files, real HTTP.
//!
//! What PAR does depends on who starts it where processes, owners of files and kernel layers are concerned. CI runs as
//! root, and then the modules that are marked here again, as an ordinary user.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

// The source keeps the house rules: arrows between rooms, and where each power lives.
mod tidy;
// Proofs are made in their mints alone, and the compiler says so.
mod forgery;
// The shipped policies decide as the table says.
mod decisions;
// The ledger sees every change, survives kills, and refuses without space.
mod ledger;
// Canonical JSON and SHA-256 give the published bytes.
mod vectors;
// What the documents tell people to type works.
mod readme; // as an ordinary user too
// Links and paths in the documents lead to files and headings that exist.
mod links;
// Calls that wait for a person.
mod approval; // as an ordinary user too
// They are told as events.
mod stream;
// What is asked on a terminal is answered there.
mod terminal;
// A home for one person, and one for several.
mod people; // as an ordinary user too
// Many clients without a key, and one key that takes what it can, leave enough for the others.
mod crowd;
// Rules are exchanged while calls are under way.
mod reload; // as an ordinary user too
// Decisions are made again from the ledger, and edited ones are found.
mod replay;
// Who follows the ledger is told what matches.
mod follow;
// What is taken out proves itself, and stands on the ledger.
mod export;
// What is erased is in no file any more.
mod redact;
// Backups, logs behind damaged ones, and ledgers of several files.
mod backup; // as an ordinary user too
// A search leaves out what policies exclude, and says so on the record.
mod search; // as an ordinary user too
// Powers of the API under rules of one's own.
mod powers;
// Another verifier, written from the format's page, says the same as PAR of whatever is done to a ledger.
mod attacks;
mod second;
// A ledger of many decisions.
mod evidence;
// Its checkpoints are told outside, and hold it to what it was.
mod anchor;
mod forge;
mod history;
// Scripts as tools deploy, roll back, and stay in their folder.
mod jobs; // as an ordinary user too
// Who may upload a version chooses neither what a model does nor what is live.
mod uploader; // as an ordinary user too
// A tool that is connected to a real bus restarts a service there.
mod bus; // as an ordinary user too
// A disk that fails at any one moment.
mod faults; // as an ordinary user too
// Installed into a folder, served as two users, watched.
mod service; // as an ordinary user too
// An approval is answered on its page.
mod dashboard;
// The dashboard looks right and behaves in a real browser.
mod browser;
// The binary of the launcher holds no more than it needs.
mod launcher_binary; // as an ordinary user too
// A home, a server, and a way to talk to both.
mod support;
// A model that was taken over asks for everything, and gets what the policy allows and no more.
mod model;
// Tools that are connected.
mod network; // as an ordinary user too
// What a taken-over tool tries, one by one, and what comes of it.
mod attempts; // as an ordinary user too
// A kernel that gives less: what is told of it, and what is refused.
mod withheld; // as an ordinary user too
// Processes that die, starts that cannot be, stops in order.
mod crash; // as an ordinary user too
// Named secrets: replaced before model, caller, page, log and ledger see them.
mod secrets; // as an ordinary user too
// The HTTP API: keys, roles, bodies, pages, waiting.
mod api;
// Output that cannot be written or that nobody reads, and output for programs.
mod output;
// What the command line prints, word for word.
mod transcripts;
