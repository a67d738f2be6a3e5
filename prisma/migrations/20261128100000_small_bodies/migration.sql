-- As for the partitions that are made from now on: see src/db/partitions.ts.
DO $$
DECLARE
  leaf regclass;
BEGIN
  FOR leaf IN
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'email_contents'::regclass
  LOOP
    EXECUTE format('ALTER TABLE %s SET (toast_tuple_target = 4080)', leaf);
  END LOOP;
END $$;
