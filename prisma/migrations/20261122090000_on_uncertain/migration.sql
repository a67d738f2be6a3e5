-- What to do after an attempt that ended between the final dot and the answer to it: try again, or wait for a word.
CREATE TYPE uncertain_policy AS ENUM ('retry', 'hold');
ALTER TABLE emails ADD COLUMN on_uncertain uncertain_policy NOT NULL DEFAULT 'retry';
