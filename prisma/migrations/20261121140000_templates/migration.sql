-- `draft` and `published` hold {from, subject, replyTo, html, text, variables}. Publishing copies the one to the other.
CREATE TABLE templates (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  name text NOT NULL,
  alias text,
  draft jsonb NOT NULL,
  published jsonb,
  -- Known before the bodies are read, so that one request cannot have gigabytes of them loaded.
  published_characters integer GENERATED ALWAYS AS
    (coalesce(length(published->>'html'), 0) + coalesce(length(published->>'text'), 0)) STORED,
  published_at timestamptz(3),
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  updated_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (account_id, alias)
);
CREATE INDEX templates_account_id_id_idx ON templates (account_id, id DESC);
