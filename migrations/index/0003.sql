-- The words of a run's message are marked, so that a search of runs finds no other words of its
-- request; calls that were not valid are counted apart from denied ones. An index without these is
-- filled again from the first entry on.
ALTER TABLE run_line ADD COLUMN invalid INTEGER NOT NULL DEFAULT 0;
UPDATE covered SET log = '', size = 0;
