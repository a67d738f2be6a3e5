SET LOCAL lock_timeout = '5s';

-- The calls of an endpoint that failed were looked for among all of them, which are as many as emails, and so were those of one
-- event. Each status and event has its calls in order here, and the endpoint is in the entry, so that those of others are passed
-- without reading their rows. Only declared: until every week has it, they are found as before (src/core/webhooks/delivery-search.ts).
CREATE INDEX webhook_deliveries_state_idx ON ONLY webhook_deliveries (account_id, status, event, id DESC, webhook_id);
