SET LOCAL lock_timeout = '5s';

-- That of the email, as far as it is known: what was there before, and what nodes of the release before write, counts as
-- transactional, and so waits for no other mail of its account.
ALTER TABLE recipients ADD COLUMN type email_type NOT NULL DEFAULT 'transactional';

-- Only declared: the weeks that are there get theirs one after the other, without a lock that mail would wait for
-- (src/db/indexes.ts); those that are attached later have it at once. It has the rows of recipients_due_idx, and says which in
-- another way, so that the planner does not take that one where this is meant (src/core/mail-lines.ts).
CREATE INDEX recipients_line_idx ON ONLY recipients (account_id, type, next_attempt_at)
  WHERE num_nonnulls(job_id) = 0 AND next_attempt_at IS NOT NULL;
