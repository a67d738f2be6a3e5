-- Recipients wait in a line for each account: however many one account has waiting, the next of another's are found at once.
ALTER TABLE recipients ADD COLUMN account_id uuid;
UPDATE recipients r SET account_id = e.account_id FROM emails e WHERE e.id = r.email_id;
ALTER TABLE recipients ALTER COLUMN account_id SET NOT NULL;
DROP INDEX recipients_due_idx;
DROP INDEX recipients_working_idx;
CREATE INDEX recipients_due_idx ON recipients (account_id, next_attempt_at) WHERE job_id IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX recipients_working_idx ON recipients (account_id, email_id, position) WHERE job_id IS NOT NULL;
