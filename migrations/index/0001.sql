-- Data for queries: follows the ledger, can be rebuilt from it at any time, and proves nothing.
CREATE TABLE covered(one INTEGER PRIMARY KEY CHECK (one = 1), log TEXT NOT NULL, size INTEGER NOT NULL) STRICT;
INSERT INTO covered VALUES (1, '', 0);
-- one line per entry; `text` is the digest of its row in the table `words`
CREATE TABLE line(
    seq INTEGER PRIMARY KEY, leaf BLOB NOT NULL, wall_us INTEGER NOT NULL, kind TEXT, run TEXT, session TEXT, call TEXT,
    principal TEXT, decision TEXT, status TEXT, tool TEXT, policy TEXT, text BLOB) STRICT;
CREATE INDEX line_kind ON line(kind, seq);
CREATE INDEX line_run ON line(run, seq) WHERE run IS NOT NULL;
CREATE INDEX line_principal ON line(principal, seq) WHERE principal IS NOT NULL;
CREATE INDEX line_decision ON line(decision, seq) WHERE decision IS NOT NULL;
CREATE INDEX line_status ON line(status, seq) WHERE status IS NOT NULL;
CREATE INDEX line_tool ON line(tool, seq) WHERE tool IS NOT NULL;
-- one digest per 256 lines
CREATE TABLE block(id INTEGER PRIMARY KEY, digest BLOB NOT NULL) STRICT;
-- words are cut and in lower case already: the tokenizer only splits at spaces
CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'ascii');
INSERT INTO words(words, rank) VALUES ('secure-delete', 1);
