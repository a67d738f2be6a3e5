SET LOCAL lock_timeout = '5s';

-- What a call of before says is not about an endpoint that its owner has enabled since (src/core/webhook-calls.ts). Nodes of
-- the release before count nothing, so one that is enabled by them is judged by such calls as it was.
ALTER TABLE webhooks ADD COLUMN times_enabled integer NOT NULL DEFAULT 0;
