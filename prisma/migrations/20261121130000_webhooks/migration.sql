CREATE TYPE webhook_status AS ENUM ('enabled', 'disabled');
CREATE TYPE webhook_delivery_status AS ENUM ('pending', 'succeeded', 'failed');

CREATE TABLE webhooks (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  url text NOT NULL,
  events text[] NOT NULL,
  status webhook_status NOT NULL DEFAULT 'enabled',
  disabled_reason text,
  secret bytea NOT NULL,
  previous_secret bytea,
  previous_secret_until timestamptz(3),
  failing_since timestamptz(3),
  created_at timestamptz(3) NOT NULL DEFAULT now()
);
CREATE INDEX webhooks_account_id_id_idx ON webhooks (account_id, id DESC);

-- Cut by week on the id, as whatever grows with every email. `payload` is text and not jsonb: these exact bytes are signed.
CREATE TABLE webhook_deliveries (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL,
  webhook_id uuid NOT NULL,
  email_id uuid,
  event text NOT NULL,
  payload text NOT NULL,
  status webhook_delivery_status NOT NULL DEFAULT 'pending',
  error text,
  attempts jsonb NOT NULL DEFAULT '[]',
  attempt_count smallint NOT NULL DEFAULT 0,
  next_attempt_at timestamptz(3),
  job_id uuid,
  claimed_by uuid,
  claimed_at timestamptz(3),
  created_at timestamptz(3) NOT NULL DEFAULT now()
) PARTITION BY RANGE (id);
CREATE INDEX webhook_deliveries_account_id_id_idx ON webhook_deliveries (account_id, id DESC);
CREATE INDEX webhook_deliveries_webhook_id_id_idx ON webhook_deliveries (webhook_id, id DESC);
CREATE INDEX webhook_deliveries_email_id_idx ON webhook_deliveries (email_id) WHERE email_id IS NOT NULL;
-- As with recipients: what waits has no job, what has a job is due, and what is over is in neither. Both begin with the
-- endpoint, so that one with very many waiting calls is stepped over as easily as one with few.
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (webhook_id, next_attempt_at) WHERE job_id IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX webhook_deliveries_working_idx ON webhook_deliveries (webhook_id, id) WHERE job_id IS NOT NULL;
