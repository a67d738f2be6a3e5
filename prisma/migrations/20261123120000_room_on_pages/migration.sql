-- As for the partitions that are made from now on: see src/db/partitions.ts.
DO $$
DECLARE
  leaf regclass;
BEGIN
  FOR leaf IN
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent IN ('emails'::regclass, 'recipients'::regclass)
  LOOP
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 50)', leaf);
  END LOOP;
END $$;
