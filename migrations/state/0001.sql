-- A projection of ledger.db: can be rebuilt from it at any time, and proves nothing.
CREATE TABLE applied(one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL) STRICT;
INSERT INTO applied VALUES (1, 0);
-- auth
CREATE TABLE api_key(
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, user TEXT, expires_us INTEGER,
    created_seq INTEGER NOT NULL, revoked_seq INTEGER) STRICT;
CREATE UNIQUE INDEX api_key_name ON api_key(name) WHERE revoked_seq IS NULL;
-- gate: allowed calls without a result
CREATE TABLE open_call(decision_seq INTEGER PRIMARY KEY, call TEXT NOT NULL, run TEXT NOT NULL) STRICT;
-- agent
CREATE TABLE run(
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, first_seq INTEGER NOT NULL, reply_seq INTEGER,
    status TEXT NOT NULL) STRICT;
CREATE INDEX run_open ON run(first_seq) WHERE reply_seq IS NULL;
