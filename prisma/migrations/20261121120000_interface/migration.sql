-- What successful send calls answered, for 24 hours. The row is written in the transaction of the emails: a second call
-- with the same key waits for it at the unique index, on whichever node.
CREATE TABLE idempotency_keys (
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  key text NOT NULL,
  fingerprint bytea NOT NULL,
  response jsonb,
  expires_at timestamptz(3) NOT NULL,
  PRIMARY KEY (account_id, key)
);
CREATE INDEX idempotency_keys_expires_at_idx ON idempotency_keys (expires_at);

CREATE TYPE suppression_reason AS ENUM ('bounce', 'complaint', 'unsubscribe', 'manual');

-- `address` is the whole address in lower case.
CREATE TABLE suppressions (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  address text NOT NULL,
  reason suppression_reason NOT NULL,
  email_id uuid,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (account_id, address)
);
CREATE INDEX suppressions_account_id_id_idx ON suppressions (account_id, id DESC);

ALTER TYPE recipient_status ADD VALUE 'suppressed';
ALTER TYPE recipient_status ADD VALUE 'canceled';
ALTER TABLE emails ADD COLUMN suppressed smallint NOT NULL DEFAULT 0;
