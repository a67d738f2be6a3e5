SET LOCAL lock_timeout = '5s';

-- The latest time that nodes have seen on this database's clock, and when one found that it had been set back. A node that starts
-- would otherwise have to read all mail that waits, as the clock may have been set back while none ran. What happened before
-- this table nobody knows: the first node of this release takes the clock for set back.
CREATE TABLE time_seen (
  id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  seen_at timestamptz(3) NOT NULL,
  set_back_at timestamptz(3)
);
INSERT INTO time_seen (seen_at) VALUES ('infinity');
