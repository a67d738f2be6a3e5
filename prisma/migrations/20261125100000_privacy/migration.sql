-- Requests to erase what is stored about one recipient of an account, and afterwards the receipts of it (src/core/erasures.ts).
CREATE TABLE erasures (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  -- Until it is done, sealed and bound to the id; then nothing says whose it was but the hash, which is keyed.
  sealed_address bytea,
  address_hash text NOT NULL,
  keeps_suppression boolean NOT NULL,
  counts jsonb NOT NULL DEFAULT '{}',
  asked_at timestamptz(3) NOT NULL DEFAULT now(),
  done_at timestamptz(3),
  CHECK ((done_at IS NULL) = (sealed_address IS NOT NULL))
);
CREATE INDEX erasures_account_id_id_idx ON erasures (account_id, id DESC);
CREATE UNIQUE INDEX erasures_pending_idx ON erasures (account_id, address_hash) WHERE done_at IS NULL;

-- When a recipient of the email was erased: what is written down about it later must not bring the address back.
ALTER TABLE emails ADD COLUMN erased_at timestamptz(3);
CREATE INDEX emails_erased_idx ON emails (account_id, id DESC) WHERE erased_at IS NOT NULL;

-- Which emails need a file: asked before its bytes go. Emails without files, which are nearly all, are not in it.
CREATE INDEX email_contents_attachments_idx ON email_contents USING gin (attachments jsonb_path_ops) WHERE attachments <> '[]';
