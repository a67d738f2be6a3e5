-- As for the partitions that are made from now on: see src/db/partitions.ts.
DO $$
DECLARE
  leaf regclass;
BEGIN
  FOR leaf IN
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'email_contents'::regclass
  LOOP
    EXECUTE format('ALTER TABLE %s SET (autovacuum_analyze_threshold = 2147483647)', leaf);
  END LOOP;
END $$;
