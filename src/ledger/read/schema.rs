//! Compares the schema of a database with the one that the migrations make.

use crate::store::{self, Database, StoreError};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Why a schema cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(in crate::ledger) enum SchemaError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Each item of a schema, by type and name, with the SQL that made it.
pub(in crate::ledger) type Schema = BTreeMap<(String, String), Option<String>>;

/// The differences between the schema of `db` and the migrations, one text for each item. An added
/// view, trigger, index or column can change what a query returns while the chain is intact.
pub(in crate::ledger) fn unlike_made(db: &Connection, kind: Database) -> Result<Vec<String>, SchemaError> {
    let (want, is) = (schema(&store::open_memory(kind)?)?, schema(db)?);
    let name = match kind {
        Database::Ledger => "ledger.db",
        Database::State => "state.db",
        Database::Index => "index.db",
    };
    let odd = is.iter().filter_map(|(item, sql)| match want.get(item) {
        None => Some(format!("{name} has a {} that does not belong there: `{}`", item.0, item.1)),
        Some(other) if other != sql => {
            Some(format!("{name}: {} `{}` differs from the migrations", item.0, item.1))
        }
        Some(_) => None,
    });
    let missing = want.keys().filter(|item| !is.contains_key(*item));
    let missing = missing.map(|item| format!("{name}: {} `{}` is missing", item.0, item.1));
    Ok(odd.chain(missing).collect())
}

pub(in crate::ledger) fn schema(db: &Connection) -> Result<Schema, rusqlite::Error> {
    let mut statement = db.prepare("SELECT type, name, sql FROM sqlite_master")?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    let mut schema: Schema = rows.collect::<Result<_, _>>()?;
    // The version decides which migrations run, so it is part of the schema.
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    schema.insert(("pragma".to_owned(), "user_version".to_owned()), Some(version.to_string()));
    Ok(schema)
}
