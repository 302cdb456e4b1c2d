//! `par key`: through the admin socket of the running server, or directly on the ledger if none
//! runs.

use super::exit::{self, Fail};
use super::table::{Cell, Column, Screen, Sheet};
use super::{compose, run, show};
use crate::auth::{self, KeyError, KeyState, NewKey, Role};
use crate::config::Config;
use crate::http::admin::{self, AdminError, FailureCode, Operation};
use crate::ledger::Lock;
use crate::types::clock::Wall;
use crate::types::{nearest, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(super) enum Key {
    /// Create a key and print it; it cannot be shown again
    Create(Create),
    /// List keys; their secrets are not stored and cannot be shown
    List,
    /// Revoke a key immediately, by its id or name
    Revoke {
        /// Id or name of the key
        #[arg(value_name = "ID|NAME")]
        key: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Name of the key: letters, digits, `.`, `_` and `-`
    name: String,
    /// Role: `viewer` reads the ledger, `operator` runs the agent, `approver` approves calls,
    /// `admin` manages the server
    #[arg(long, value_parser = ["viewer", "operator", "approver", "admin"])]
    role: String,
    /// User that the key belongs to, as policies and groups name it [default: none]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Lifetime: a number followed by `m` (minutes), `h` (hours) or `d` (days), for example
    /// `90d` [default: never expires]
    #[arg(long, value_name = "LIFETIME", value_parser = lifetime)]
    expires: Option<u64>,
    /// Let runs with the key use only these tools, for example `read_file,tail_file` [default:
    /// every tool that the policies permit]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
}

impl Key {
    pub(super) fn run(&self, config: Config, is_json: bool) -> Result<u8, Fail> {
        let answer = self.ask(&config)?;
        match self {
            Self::Create(_) => show_once(&config, &answer, is_json)?,
            Self::List => list(&answer, is_json)?,
            Self::Revoke { .. } if is_json => show::json(&answer)?,
            Self::Revoke { key } => show::line(&format!("revoked {}", text::visible_line(key)))?,
        }
        Ok(exit::OK)
    }

    /// Sends the request to the running server, or answers it in this process if none runs.
    fn ask(&self, config: &Config) -> Result<Value, Fail> {
        match admin::call(&config.home.data, &self.request()) {
            Err(AdminError::NotRunning) => self.apply_locally(config),
            Err(AdminError::Failed(FailureCode::Unknown, why)) => Err(match self {
                Self::Revoke { key } => unknown_key(key, &Self::List.ask(config)?, &why),
                Self::Create(_) | Self::List => Fail::failed(why),
            }),
            Err(other) => Err(other.into()),
            Ok(answer) => Ok(answer),
        }
    }

    fn request(&self) -> Value {
        match self {
            Self::Create(new) => {
                let expires = new.expires_at().map(|at| at.0);
                json!({
                    "op": Operation::KeyCreate.as_str(), "name": new.name, "role": new.role, "user": new.user,
                    "expires_us": expires, "tools": run::ceiling(new.tools.as_deref()),
                })
            }
            Self::List => json!({ "op": Operation::KeyList.as_str() }),
            Self::Revoke { key } => json!({ "op": Operation::KeyRevoke.as_str(), "key": key }),
        }
    }

    /// Does the same without a server: takes the ledger's lock, appends, and returns the same JSON.
    fn apply_locally(&self, config: &Config) -> Result<Value, Fail> {
        if let Some(holder) = Lock::holder(&compose::files(config)) {
            show::note(&format!("par: waiting for the ledger, held by {}", holder.replace('\n', " ").trim()));
        }
        let by =
            auth::local(&config.home.data, Role::Admin).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
        let ledger = match self {
            Self::List => compose::open_ledger(config)?,
            Self::Create(_) | Self::Revoke { .. } => compose::open_to_act(config)?,
        };
        let authority = compose::authority(config, ledger)?;
        compose::runtime()?.block_on(async {
            match self {
                Self::Create(new) => {
                    let new = new.resolve()?;
                    // Only a key with a ceiling needs the tools.
                    if !new.tools.is_open()
                        && let Some(unknown) = compose::load_unproven(config)?.catalog.unknown(&new.tools)
                    {
                        return Err(Fail::usage(unknown));
                    }
                    let (minted, view) = authority.create(&by, new, None).await.map_err(Fail::failed)?;
                    Ok(json!({ "key": minted.expose(), "view": view }))
                }
                Self::List => Ok(json!({ "items": authority.list().map_err(Fail::failed)? })),
                Self::Revoke { key } => match authority.revoke(&by, key, None).await {
                    Ok(view) => Ok(json!({ "view": view })),
                    Err(why @ KeyError::Unknown(_)) => {
                        let known = json!({ "items": authority.list().map_err(Fail::failed)? });
                        Err(unknown_key(key, &known, &why.to_string()))
                    }
                    Err(other) => Err(Fail::failed(other)),
                },
            }
        })
    }
}

/// Prints the key, the only time it is shown. If that fails, the key is revoked at once: a
/// key that was never seen must not stay valid.
fn show_once(config: &Config, answer: &Value, is_json: bool) -> Result<(), Fail> {
    let shown = if is_json {
        show::hand_over(&answer.to_string())
    } else {
        show::note("par: store this key now, it cannot be shown again:");
        show::hand_over(&word(answer, "key"))
    };
    let Err(e) = shown else { return Ok(()) };
    let id = answer.pointer("/view/id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let unseen = format!("the key `{id}` could not be printed: {e}");
    match (Key::Revoke { key: id }).ask(config) {
        Ok(_) => Err(Fail::failed(format!("{unseen}. It is revoked"))),
        Err(failed) => Err(Fail::failed(format!("{unseen}. It could not be revoked either: {failed}"))),
    }
}

fn list(answer: &Value, is_json: bool) -> Result<(), Fail> {
    let items = answer.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if is_json {
        return items.iter().try_for_each(show::json);
    }
    let screen = Screen::stdout();
    let names = ["id", "name", "role", "user"];
    let columns = names.map(Column::Whole).into_iter().chain([
        Column::Whole("state"),
        Column::Whole("created"),
        Column::Whole("expires"),
    ]);
    // Few keys have a ceiling.
    let is_bounded = items.iter().any(|item| !tools(item).is_empty());
    let columns = columns.chain(is_bounded.then_some(Column::Words("tools")));
    let mut table = Sheet::new(&columns.collect::<Vec<_>>());
    for item in items {
        let mut row: Vec<Cell> = names.map(|name| word(item, name).into()).into();
        row.push(Cell::outcome(&word(item, "state")));
        row.extend(["created", "expires"].map(|name| Cell::written_time(&word(item, name), &screen)));
        row.extend(is_bounded.then(|| Cell::from(tools(item))));
        table.push(row);
    }
    table.print_or(&screen, "par: there are no keys: `par key create NAME --role ROLE` makes one")
}

/// The ceiling of a key, empty if it has none.
fn tools(item: &Value) -> String {
    let names = item.get("tools").and_then(Value::as_array);
    let names = names.map(|names| names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    text::visible_line(&names.unwrap_or_default())
}

fn word(value: &Value, name: &str) -> String {
    text::visible_line(value.get(name).and_then(Value::as_str).unwrap_or("-"))
}

/// The error for a key that does not exist, with the one that was likely meant.
fn unknown_key(key: &str, listed: &Value, why: &str) -> Fail {
    let items = listed.get("items").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<String> = items.flat_map(|item| ["name", "id"].map(|name| word(item, name))).collect();
    match nearest(key, words.iter().map(String::as_str)) {
        Some(meant) => Fail::failed(format!("{why}, did you mean `{meant}`?")),
        None => Fail::failed(why),
    }
}

/// Returns the live key with this id or name, in the form of `par key list --json`.
pub(super) fn find(config: &Config, key: &str) -> Result<Value, Fail> {
    let answer = Key::List.ask(config)?;
    let items = answer.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is = |item: &&Value, name: &str| item.get(name).is_some_and(|word| word == key);
    let named = || items.iter().filter(|item| is(item, "name"));
    let found = items.iter().find(|item| is(item, "id")).or_else(|| {
        // If several keys share the name, prefer one that is live.
        named().find(|item| is_live(item)).or_else(|| named().next())
    });
    let shown = text::visible_line(key);
    let found = found.ok_or_else(|| {
        Fail::usage(format!(
            "unknown key or role `{shown}`: `par key list` shows the keys; the roles are viewer, operator, \
             approver and admin"
        ))
    })?;
    if is_live(found) {
        return Ok(found.clone());
    }
    Err(Fail::usage(format!("the key `{shown}` is {} and can do nothing", word(found, "state"))))
}

fn is_live(item: &Value) -> bool {
    item.get("state").and_then(Value::as_str).and_then(KeyState::parse) == Some(KeyState::Live)
}

impl Create {
    fn resolve(&self) -> Result<NewKey, Fail> {
        let role =
            Role::parse(&self.role).ok_or_else(|| Fail::usage(format!("unknown role `{}`", self.role)))?;
        let tools = run::ceiling(self.tools.as_deref());
        Ok(NewKey {
            name: self.name.clone(),
            role,
            user: self.user.clone(),
            expires: self.expires_at(),
            tools,
        })
    }

    fn expires_at(&self) -> Option<Wall> {
        self.expires.map(|us| Wall(Wall::now().0.saturating_add(us)))
    }
}

/// Why a lifetime is refused.
#[derive(Debug, thiserror::Error)]
enum WrongLifetime {
    #[error("`{0}` is not a lifetime: give a number followed by `m`, `h` or `d`, for example `90d`")]
    Form(String),
    #[error("`{0}` is out of range: a lifetime is at least one minute and at most a hundred years")]
    Length(String),
}

/// Parses a number and `m`, `h` or `d`, and returns microseconds.
fn lifetime(text: &str) -> Result<u64, WrongLifetime> {
    let wrong = || WrongLifetime::Form(text.to_owned());
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    // A hundred years: more than any key needs, and within the integers that every reader of the
    // ledger keeps exact.
    let within = number.checked_mul(seconds).filter(|life| (1..=3_153_600_000).contains(life));
    within.map(|life| life * 1_000_000).ok_or_else(|| WrongLifetime::Length(text.to_owned()))
}
