-- The pool of sending addresses that a domain's mail leaves from; null: the one for that kind of mail.
ALTER TABLE domains ADD COLUMN pool text;

-- How many messages new sending addresses were let send on a day (UTC), by all nodes together. `granted` is what the last
-- statement that asked for some was given, so that it can tell.
CREATE TABLE warm_up_days (
  ip text NOT NULL,
  day date NOT NULL,
  cap integer NOT NULL,
  messages integer NOT NULL,
  granted integer NOT NULL,
  PRIMARY KEY (ip, day)
);

-- What each node sends from. `first_day` and `plan` are of those that are new, or were.
CREATE TABLE sending_addresses (
  node_id uuid NOT NULL REFERENCES nodes ON DELETE CASCADE,
  ip text NOT NULL,
  pool text NOT NULL,
  first_day date,
  plan integer[] NOT NULL,
  PRIMARY KEY (node_id, ip)
);
