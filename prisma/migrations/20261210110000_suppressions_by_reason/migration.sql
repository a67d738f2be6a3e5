SET LOCAL lock_timeout = '5s';

-- A list of a million bounces was read to its end for the few complaints in it. It grows by what comes back and by imports, and
-- not with every email, so this is built at once: about a second for each million, in which nobody adds an address.
CREATE INDEX suppressions_account_id_reason_id_idx ON suppressions (account_id, reason, id DESC);
