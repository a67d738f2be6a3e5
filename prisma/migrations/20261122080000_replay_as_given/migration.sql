-- An answer that is given again is the same to the byte: jsonb would order its members anew.
ALTER TABLE idempotency_keys ALTER COLUMN response TYPE json;
