-- What came back after an email had left: bounces and delays from other servers, complaints, and who unsubscribed. One row for
-- each recipient and kind: the same notice twice is one, and nobody can make it grow. Not partitioned: few emails have any.
CREATE TYPE return_kind AS ENUM ('bounce', 'delay', 'complaint', 'unsubscribe');

CREATE TABLE returns (
  account_id uuid NOT NULL REFERENCES accounts ON DELETE CASCADE,
  email_id uuid NOT NULL,
  recipient text NOT NULL,
  kind return_kind NOT NULL,
  classification text,
  enhanced_code text,
  diagnostic text,
  received_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (email_id, recipient, kind)
);
