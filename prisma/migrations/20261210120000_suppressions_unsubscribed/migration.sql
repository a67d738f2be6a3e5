SET LOCAL lock_timeout = '5s';

-- An entry has one reason. One that stops all mail hid that the owner of the address had unsubscribed, and with the entry that was gone.
ALTER TABLE suppressions ADD COLUMN unsubscribed boolean NOT NULL DEFAULT false;
