-- When an endpoint last answered with success, to within half a minute: what nobody has heard from is given a few jobs only.
ALTER TABLE webhooks ADD COLUMN answered_at timestamptz(3);
