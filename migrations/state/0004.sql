-- gate: lists of approvals are made from the table, by state, by requester or by both. All tables
-- are rebuilt from the first entry on.
ALTER TABLE approval ADD COLUMN requester TEXT NOT NULL DEFAULT '';
CREATE INDEX approval_state ON approval(state, request_seq);
CREATE INDEX approval_requester ON approval(requester, request_seq);
DELETE FROM api_key;
DELETE FROM open_call;
DELETE FROM approval;
DELETE FROM run;
DELETE FROM stop;
UPDATE applied SET size = 0;
