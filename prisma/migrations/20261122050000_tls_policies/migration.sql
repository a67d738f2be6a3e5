-- What senders ask of TLS, for all of a domain and for one email: the stricter counts.
CREATE TYPE tls_level AS ENUM ('opportunistic', 'required', 'verified');
ALTER TABLE domains ADD COLUMN tls tls_level NOT NULL DEFAULT 'opportunistic';
ALTER TABLE emails ADD COLUMN tls tls_level NOT NULL DEFAULT 'opportunistic';

CREATE TYPE sts_mode AS ENUM ('enforce', 'testing', 'none');

-- MTA-STS policies of receiving domains: known to every node and after a restart, until they expire.
CREATE TABLE tls_policies (
  domain text PRIMARY KEY,
  -- What the domain's TXT record called it.
  policy_id text NOT NULL,
  mode sts_mode NOT NULL,
  mx text[] NOT NULL,
  max_age_seconds integer NOT NULL,
  fetched_at timestamptz(3) NOT NULL,
  expires_at timestamptz(3) NOT NULL
);
CREATE INDEX tls_policies_expires_at ON tls_policies (expires_at);

-- How many sessions with a domain's hosts came to what, by day (UTC): what TLS-RPT (RFC 8460) reports.
CREATE TABLE tls_results (
  day date NOT NULL,
  domain text NOT NULL,
  policy_type text NOT NULL,
  -- The policy as it was found, line by line, and the hosts that it names.
  policy text[] NOT NULL,
  mx text[] NOT NULL,
  result text NOT NULL,
  host text NOT NULL,
  address text NOT NULL,
  local_address text NOT NULL,
  -- The last failure in words.
  reason text NOT NULL,
  sessions integer NOT NULL,
  -- Of all that tells results apart; the policy is too long for an index.
  kind bytea NOT NULL,
  PRIMARY KEY (day, domain, kind)
);
