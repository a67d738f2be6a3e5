SET LOCAL lock_timeout = '5s';

-- When mail to a domain or a site last arrived. Nodes report only the last hour, and what they report goes with them: after a
-- restart nobody could say it. Each node adds to it once a minute, so there is room in the pages for rows that stay on theirs.
CREATE TABLE destination_deliveries (
  name text PRIMARY KEY,
  last_delivered_at timestamptz(3) NOT NULL
) WITH (fillfactor = 80);
