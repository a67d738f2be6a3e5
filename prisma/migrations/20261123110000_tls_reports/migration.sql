CREATE TYPE tls_report_state AS ENUM ('waiting', 'done', 'failed');

-- Reports of TLS results (TLS-RPT, RFC 8460): one for each day (UTC), domain and place that the domain wants it at.
CREATE TABLE tls_reports (
  day date NOT NULL,
  domain text NOT NULL,
  -- Where it goes; empty: looking up where the domain wants it, which makes the other rows.
  uri text NOT NULL,
  state tls_report_state NOT NULL DEFAULT 'waiting',
  tries integer NOT NULL DEFAULT 0,
  first_try_at timestamptz(3),
  -- While it is being tried: when another node may take it over. Null when it does not wait.
  next_try_at timestamptz(3),
  last_error text,
  PRIMARY KEY (day, domain, uri)
);
CREATE INDEX tls_reports_due ON tls_reports (next_try_at) WHERE state = 'waiting';
