import type { ListedDelivery } from '../../core/webhooks/webhook-deliveries.ts';
import type { Webhook, WebhookDelivery } from '../../generated/prisma/client.ts';
import { iso } from './times.ts';

export function webhook(row: Webhook) {
  return {
    id: row.id,
    url: row.url,
    events: row.events,
    status: row.status,
    disabled_reason: row.disabledReason,
    failing_since: iso(row.failingSince),
    created_at: iso(row.createdAt),
  };
}

/** With the secret that replaces the previous one. */
export function rotatedWebhook(row: Webhook, secret: string) {
  return { webhook: webhook(row), secret, previous_secret_valid_until: iso(row.previousSecretUntil) };
}

function webhookDelivery(row: Omit<WebhookDelivery, 'payload'>) {
  return {
    id: row.id,
    webhook_id: row.webhookId,
    event: row.event,
    email_id: row.emailId,
    status: row.status,
    error: row.error,
    attempts: row.attempts,
    next_attempt_at: iso(row.nextAttemptAt),
    created_at: iso(row.createdAt),
  };
}

export function listedWebhookDelivery(row: ListedDelivery) {
  return { ...webhookDelivery(row), recipient: row.recipient, subject: row.subject };
}

/** `payload` is the body that is sent, parsed. */
export function webhookDeliveryWithPayload(row: WebhookDelivery) {
  return { ...webhookDelivery(row), payload: JSON.parse(row.payload) as unknown };
}
