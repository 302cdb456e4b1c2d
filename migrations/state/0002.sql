-- gate: approvals. All tables are rebuilt from the first entry on.
CREATE TABLE approval(
    id TEXT PRIMARY KEY, request_seq INTEGER NOT NULL, run TEXT NOT NULL, call_hash TEXT NOT NULL,
    policy TEXT NOT NULL, expires_us INTEGER NOT NULL, state TEXT NOT NULL, answer_seq INTEGER) STRICT;
CREATE INDEX approval_seq ON approval(request_seq);
CREATE INDEX approval_answer ON approval(answer_seq);
CREATE INDEX approval_open ON approval(run) WHERE state IN ('pending', 'granted');
CREATE INDEX run_waiting ON run(first_seq) WHERE status = 'waiting';
DELETE FROM api_key;
DELETE FROM open_call;
DELETE FROM run;
UPDATE applied SET size = 0;
