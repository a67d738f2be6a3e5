-- How many emails there are, by hour, status and type, for each of the filters that can match very many: everything (''),
-- 'domain:…', 'from:…' and 'tag:…'. The log's exact count would otherwise read a million rows.
--
-- Triggers keep them, so that no statement that changes an email can forget to. A change is a row that is only ever
-- appended, which no other transaction waits for; src/core/email-counts.ts adds them up into email_counts every few
-- seconds. The number is always the sum of both tables.
CREATE TABLE email_counts (
  facet text NOT NULL,
  account_id uuid NOT NULL,
  hour timestamptz(3) NOT NULL,
  status email_status NOT NULL,
  type email_type NOT NULL,
  emails integer NOT NULL,
  PRIMARY KEY (facet, account_id, hour, status, type)
);

CREATE TABLE email_count_changes (
  facet text NOT NULL,
  account_id uuid NOT NULL,
  hour timestamptz(3) NOT NULL,
  status email_status NOT NULL,
  type email_type NOT NULL,
  emails integer NOT NULL
);
ALTER TABLE email_count_changes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

CREATE FUNCTION email_facets(from_domain text, from_address text, tags text[]) RETURNS SETOF text
LANGUAGE sql IMMUTABLE AS $$
  SELECT '' UNION ALL SELECT 'domain:' || from_domain UNION ALL SELECT 'from:' || from_address
  UNION ALL SELECT DISTINCT 'tag:' || tag FROM unnest(tags) tag
$$;

CREATE FUNCTION count_emails() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO email_count_changes
      SELECT facet, account_id, date_trunc('hour', created_at, 'UTC'), status, type, count(*)
        FROM added, email_facets(from_domain, from_address, tags) facet GROUP BY 1, 2, 3, 4, 5;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO email_count_changes
      SELECT facet, account_id, date_trunc('hour', created_at, 'UTC'), status, type, -count(*)
        FROM removed, email_facets(from_domain, from_address, tags) facet GROUP BY 1, 2, 3, 4, 5;
  ELSE
    INSERT INTO email_count_changes
      SELECT facet, added.account_id, date_trunc('hour', added.created_at, 'UTC'), change.status, added.type, sum(change.emails)
        FROM added JOIN removed ON removed.id = added.id, LATERAL (VALUES (added.status, 1), (removed.status, -1)) change (status, emails),
             email_facets(added.from_domain, added.from_address, added.tags) facet
       WHERE added.status <> removed.status GROUP BY 1, 2, 3, 4, 5;
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER emails_added AFTER INSERT ON emails
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_emails();
CREATE TRIGGER emails_changed AFTER UPDATE ON emails
  REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_emails();
CREATE TRIGGER emails_removed AFTER DELETE ON emails
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_emails();

INSERT INTO email_counts
  SELECT facet, account_id, date_trunc('hour', created_at, 'UTC'), status, type, count(*)
    FROM emails, email_facets(from_domain, from_address, tags) facet GROUP BY 1, 2, 3, 4, 5;

-- For pages of the rare among many. A delivered email never has these columns changed, so its one update stays in place.
CREATE INDEX emails_failed_idx ON emails (account_id, id DESC) WHERE failed > 0;
CREATE INDEX emails_suppressed_idx ON emails (account_id, id DESC) WHERE suppressed > 0;
CREATE INDEX emails_scheduled_idx ON emails (account_id, id DESC) WHERE scheduled_at IS NOT NULL;
