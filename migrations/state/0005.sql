-- agent: runs by session, and the sessions that a person ended. All tables are rebuilt from the
-- first entry on.
ALTER TABLE run ADD COLUMN session TEXT NOT NULL DEFAULT '';
CREATE INDEX run_session ON run(session, first_seq);
CREATE TABLE session_end(session TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
DELETE FROM api_key;
DELETE FROM open_call;
DELETE FROM approval;
DELETE FROM run;
DELETE FROM stop;
UPDATE applied SET size = 0;
