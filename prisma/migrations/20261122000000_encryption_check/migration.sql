-- One row: a known text, sealed with the ENCRYPTION_KEY that this database was first used with. A node that cannot open it
-- has another key, could open no DKIM key and no webhook secret, and does not start (src/core/encryption-key.ts).
CREATE TABLE encryption_check (
  id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  sealed bytea NOT NULL
);
