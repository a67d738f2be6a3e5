-- What was said in the session, as [[ms, by, text], …]; on the first attempt of each session only, as its recipients share it.
ALTER TABLE attempts ADD COLUMN conversation jsonb;
