-- DKIM keys beside the one that signs for the domain: those that are to take its place, Ed25519 ones that sign beside it, and
-- those that signed before, whose record receivers still look for.
CREATE TYPE dkim_key_status AS ENUM ('pending', 'active', 'retired');
CREATE TYPE dkim_algorithm AS ENUM ('rsa', 'ed25519');

CREATE TABLE dkim_keys (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL,
  domain_id uuid NOT NULL REFERENCES domains ON DELETE CASCADE,
  selector text NOT NULL,
  algorithm dkim_algorithm NOT NULL,
  status dkim_key_status NOT NULL DEFAULT 'pending',
  -- Sealed as the domain's own; null for one that signs no more.
  private_key bytea,
  public_key text NOT NULL,
  -- What the last look-up of its record found wrong.
  problem text,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  activated_at timestamptz(3),
  retired_at timestamptz(3),
  UNIQUE (domain_id, selector)
);
CREATE UNIQUE INDEX dkim_keys_one_pending ON dkim_keys (domain_id, algorithm) WHERE status = 'pending';
CREATE UNIQUE INDEX dkim_keys_one_beside ON dkim_keys (domain_id) WHERE status = 'active';
