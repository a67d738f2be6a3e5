SET LOCAL lock_timeout = '5s';

-- When nodes have started during the hold, the latest twenty. A database that was restored from a backup of the midst of a hold
-- is not known from one that goes on with it: a start on either is here, and who ends the hold says which it was. Nodes of the
-- release before note no start.
ALTER TABLE service_hold ADD COLUMN starts timestamptz(3)[] NOT NULL DEFAULT '{}';
