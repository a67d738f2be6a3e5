-- The numbers of a week go with its emails, and as they do: by dropping their partition. To delete them took as long as the
-- rest of it. Partitions for the weeks to come are made by src/db/partitions.ts.
ALTER TABLE email_counts RENAME TO email_counts_whole;
ALTER TABLE email_counts_whole RENAME CONSTRAINT email_counts_pkey TO email_counts_whole_pkey;

CREATE TABLE email_counts (
  facet text NOT NULL,
  account_id uuid NOT NULL,
  hour timestamptz(3) NOT NULL,
  status email_status NOT NULL,
  type email_type NOT NULL,
  emails integer NOT NULL,
  PRIMARY KEY (facet, account_id, hour, status, type)
) PARTITION BY RANGE (hour);

DO $$
DECLARE week timestamptz;
BEGIN
  FOR week IN
    SELECT to_date(right(relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname ~ '^emails_\d{8}$'
    UNION SELECT date_trunc('week', hour, 'UTC') FROM email_counts_whole
  LOOP
    EXECUTE format('CREATE TABLE %I PARTITION OF email_counts FOR VALUES FROM (%L) TO (%L)',
      'email_counts_' || to_char(week AT TIME ZONE 'UTC', 'YYYYMMDD'), week, week + interval '168 hours');
  END LOOP;
END $$;

INSERT INTO email_counts SELECT * FROM email_counts_whole WHERE emails <> 0;
DROP TABLE email_counts_whole;
