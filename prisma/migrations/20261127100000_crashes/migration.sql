-- How many processes in a row ended while they had this recipient in hand.
ALTER TABLE recipients ADD COLUMN crashes smallint NOT NULL DEFAULT 0;
