-- Logins that their user ended before their time: their tokens count no more, on any node.
CREATE TABLE ended_sessions (
  id uuid PRIMARY KEY,
  expires_at timestamptz(3) NOT NULL
);
CREATE INDEX ended_sessions_expires_at_idx ON ended_sessions (expires_at);
