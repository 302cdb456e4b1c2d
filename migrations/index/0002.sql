-- Entries by time: `at` counts spans of five minutes since 1970. A missing field is empty. The tool
-- of an invalid call is left out: its name may come from the model.
CREATE TABLE counted(
    at INTEGER NOT NULL, kind TEXT NOT NULL, decision TEXT NOT NULL, status TEXT NOT NULL, tool TEXT NOT NULL,
    principal TEXT NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (at, kind, decision, status, tool, principal)) STRICT, WITHOUT ROWID;
-- One line per run, made from its lines. `marks` has ` tool:X decision:Y status:Z ` of its calls.
CREATE TABLE run_line(
    run TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, owner TEXT NOT NULL, status TEXT NOT NULL,
    began_us INTEGER NOT NULL, calls INTEGER NOT NULL, denied INTEGER NOT NULL, refused INTEGER NOT NULL,
    tools TEXT NOT NULL, marks TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX run_line_first ON run_line(first);
-- An index without these tables is filled again from the first entry on.
UPDATE covered SET log = '', size = 0;
