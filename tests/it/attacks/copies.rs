//! Truncated tails, older copies, other logs, and copies that diverged.

use super::{Against, Attack, Base, Homes, copied, cut_from_older, db, put, remove, settle, size};
use crate::forge::{connect, sign_again};
use crate::support::TestHome;

/// Truncated tails, older copies, and other logs.
pub(super) fn tails() -> Vec<Attack> {
    let act = |name: &str, act: fn(&TestHome, &Homes)| Attack::new(Base::Young, name, act);
    vec![
        act("the tail cut after a checkpoint", |home, homes| cut_from_older(home, homes, 2)),
        act("the tail cut at a checkpoint", |home, homes| cut_from_older(home, homes, 0)),
        act("the tail cut in front of the newest checkpoint", |home, _| cut(home, 1)),
        act("the tail cut in front of it, and the mark gone", |home, _| {
            cut(home, 1);
            remove(home, &["high-water"]);
        }),
        act("the tail cut, and mark and checkpoints gone", |home, _| {
            cut(home, 1);
            remove(home, &["high-water"]);
            db(home).execute("DELETE FROM checkpoint", []).expect("checkpoints");
        }),
        act("the tail cut, re-signed with the live keys", |home, _| {
            cut(home, 3);
            remove(home, &["high-water"]);
            sign_again(home);
        })
        .against(Against::Kept),
        act("yesterday's ledger.db beside today's mark", |home, homes| {
            remove(home, &["ledger.db-wal", "ledger.db-shm"]);
            std::fs::copy(homes.yesterday.path("data/ledger.db"), home.path("data/ledger.db")).expect("copy");
        }),
        act("yesterday's whole folder", |home, homes| put(home, &homes.yesterday)).against(Against::Kept),
        act("yesterday's whole folder, gone on with", |home, homes| put(home, &homes.fork))
            .against(Against::Kept),
        act("another log in its place", |home, homes| put(home, &homes.other)).against(Against::Kept),
        act("a checkpoint of another log, of more entries", |_, _| {}).against(Against::Foreign),
        act("another log's keys lie beside it, signed with them", |home, homes| {
            for name in ["log.key", "epoch.key"] {
                std::fs::copy(homes.other.path("data").join(name), home.path("data").join(name))
                    .expect("key");
            }
            sign_again(home);
        }),
    ]
}

/// Parts of two diverged copies, joined.
pub(super) fn forks() -> Vec<Attack> {
    let merge = |name: &str, rows: fn(u64, u64) -> String| {
        Attack::new(Base::Young, name, move |home, homes| {
            let fork = copied(&homes.fork);
            settle(&fork);
            let db = db(home);
            let at = size(&connect(&homes.yesterday.path("data/ledger.db")));
            db.execute("ATTACH ?1 AS fork", [fork.path("data/ledger.db").display().to_string()])
                .expect("fork");
            db.execute_batch(&rows(at, size(&db))).expect("merged");
        })
    };
    vec![
        merge("the tail of a copy that went on apart", |at, size| {
            format!(
                "DELETE FROM entry WHERE seq >= {at}; DELETE FROM payload WHERE seq >= {at};
                 INSERT INTO entry SELECT * FROM fork.entry WHERE seq >= {at} AND seq < {size};
                 INSERT INTO payload SELECT * FROM fork.payload WHERE seq >= {at} AND seq < {size};"
            )
        }),
        merge("all of a copy that went on apart, not its mark", |at, _| {
            format!(
                "DELETE FROM entry; DELETE FROM payload; DELETE FROM checkpoint;
                 INSERT INTO entry SELECT * FROM fork.entry; INSERT INTO payload SELECT * FROM fork.payload;
                 INSERT INTO checkpoint SELECT * FROM fork.checkpoint WHERE size > {at};"
            )
        }),
        merge("every second entry of a copy that went on apart", |at, _| {
            format!(
                "UPDATE entry SET header = (SELECT header FROM fork.entry f WHERE f.seq = entry.seq)
                 WHERE seq >= {at} AND seq % 2 = 0 AND seq IN (SELECT seq FROM fork.entry);"
            )
        }),
        merge("the payloads of a copy that went on apart", |at, _| {
            format!(
                "UPDATE payload SET (salt, body) = (SELECT salt, body FROM fork.payload f WHERE f.seq = payload.seq)
                 WHERE seq >= {at} AND seq IN (SELECT seq FROM fork.payload);"
            )
        }),
        merge("both tails, one after the other", |at, size| {
            format!(
                "INSERT INTO entry SELECT seq - {at} + {size}, header FROM fork.entry WHERE seq >= {at};
                 INSERT INTO payload SELECT seq - {at} + {size}, salt, body FROM fork.payload WHERE seq >= {at};"
            )
        }),
        merge("the checkpoint of a copy that went on apart", |at, _| {
            format!(
                "DELETE FROM checkpoint; INSERT INTO checkpoint SELECT * FROM fork.checkpoint WHERE size > {at};"
            )
        }),
    ]
}

/// Truncates the tail to `before` entries before the newest checkpoint.
fn cut(home: &TestHome, before: u64) {
    let db = db(home);
    let sql = format!(
        "DELETE FROM entry WHERE seq >= (SELECT max(size) FROM checkpoint) - {before};
         DELETE FROM payload WHERE seq >= (SELECT max(size) FROM checkpoint) - {before};"
    );
    db.execute_batch(&sql).expect("cut");
}
