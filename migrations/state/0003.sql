-- gate: stops in force; `run` for those that end with a run. All tables are rebuilt from the first
-- entry on.
CREATE TABLE stop(seq INTEGER PRIMARY KEY, run TEXT) STRICT;
DELETE FROM api_key;
DELETE FROM open_call;
DELETE FROM approval;
DELETE FROM run;
UPDATE applied SET size = 0;
