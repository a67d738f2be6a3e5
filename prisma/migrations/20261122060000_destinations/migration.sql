-- Why a due recipient waits although nothing was tried: a limit, a back-off or a pause of its destination. Null otherwise.
ALTER TABLE recipients ADD COLUMN waiting_for text;

-- What operators said about destinations, by domain or by site (whoever's mail exchangers take the domain's mail).
CREATE TABLE destination_orders (
  name text PRIMARY KEY,
  paused_at timestamptz(3),
  flushed_at timestamptz(3)
);

-- How each node stands with each site that it has sent to lately.
CREATE TABLE destination_reports (
  node_id uuid NOT NULL REFERENCES nodes ON DELETE CASCADE,
  site text NOT NULL,
  destinations text[] NOT NULL,
  running integer NOT NULL,
  waiting integer NOT NULL,
  connections integer NOT NULL,
  most_connections integer NOT NULL,
  per_minute integer,
  backoff_until timestamptz(3),
  reason text,
  last_reply text,
  last_success_at timestamptz(3),
  reported_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (node_id, site)
);
