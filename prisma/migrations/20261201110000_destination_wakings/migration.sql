SET LOCAL lock_timeout = '5s';

-- What orders about destinations have still to make due, in batches; a row goes when nothing is left of it.
CREATE TABLE destination_wakings (
  id uuid PRIMARY KEY,
  name text NOT NULL,
  kind text NOT NULL,
  destinations text[] NOT NULL,
  next_at timestamptz(3) NOT NULL
);
