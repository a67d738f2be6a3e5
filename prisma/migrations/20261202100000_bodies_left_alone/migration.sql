-- As for the partitions that are made from now on: see src/db/partitions.ts.
DO $$
DECLARE
  leaf regclass;
BEGIN
  FOR leaf IN
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'email_contents'::regclass
  LOOP
    EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_insert_threshold = -1, toast.autovacuum_vacuum_insert_threshold = -1)', leaf);
  END LOOP;
END $$;
