SET LOCAL lock_timeout = '5s';

-- What is held until somebody decides is due at the same moment as all that a pause keeps, of which there can be a million.
-- Only what is held is in it, so that the rest pays nothing; beside that it is as recipients_due_idx, so that the planner
-- never takes that one for shorter, whatever the statistics say. Only declared, as recipients_line_idx was: until a week has
-- it, what is held in that week is found by recipients_due_idx, as before (src/core/held.ts).
CREATE INDEX recipients_held_idx ON ONLY recipients (account_id, next_attempt_at)
  WHERE job_id IS NULL AND next_attempt_at IS NOT NULL
    AND waiting_for IN ('held: it may have been delivered', 'held: processes ended while they had it');
