-- The key that new secrets are sealed with, and the one before it while there is still something that it sealed
-- (src/core/key-rotation.ts). Null: the row is from before keys had names; the next start names it.
ALTER TABLE encryption_check ADD COLUMN key_id text, ADD COLUMN retiring_key_id text;

-- Keys of the installation itself, sealed: they outlive a change of the master key, as what they signed is in mail that was sent.
CREATE TABLE service_secrets (
  name text PRIMARY KEY,
  sealed bytea NOT NULL
);

-- Which master keys each running process knows: a key begins to seal when all of them can open with it.
CREATE TABLE key_holders (
  id uuid PRIMARY KEY,
  hostname text NOT NULL,
  key_ids text[] NOT NULL,
  seen_at timestamptz(3) NOT NULL DEFAULT now()
);
