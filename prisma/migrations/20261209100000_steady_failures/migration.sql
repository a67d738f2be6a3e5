SET LOCAL lock_timeout = '5s';

-- An endpoint whose calls all fail was disabled when one of them was given up, which takes nine attempts: with more events than
-- calls are made to such an endpoint, none of them gets there for weeks. Nodes of the previous release write neither column:
-- a success that they record resets failing_since, which counts, too.
ALTER TABLE webhooks
  ADD COLUMN failed_at timestamptz(3),
  ADD COLUMN steady_failure_since timestamptz(3);
