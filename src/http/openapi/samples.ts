/** Nine o'clock in a month, from when this process began: what is scheduled in the past is refused, and an example is copied. */
const scheduledAt = new Date();
scheduledAt.setUTCDate(scheduledAt.getUTCDate() + 30);
scheduledAt.setUTCHours(9, 0, 0, 0);

/** What the examples share, so that they belong together. */
export const samples = {
  account: '01a3c1a0-0c1e-7000-8000-000000000001',
  user: '01a3c1a0-0c1e-7000-8000-000000000002',
  key: '01a3c1a0-1d40-7000-8000-000000000003',
  domain: '01a3c1a0-2b77-7000-8000-000000000004',
  template: '01a3c1a0-3f02-7000-8000-000000000005',
  email: '01a3c1a0-5a9d-7000-8000-000000000006',
  attempt: '01a3c1a0-5b10-7000-8000-000000000007',
  webhook: '01a3c1a0-4e55-7000-8000-000000000008',
  delivery: '01a3c1a0-5a9e-7000-8000-000000000009',
  dkimKey: '01a3c1a0-3a01-7000-8000-00000000000b',
  erasure: '01a3c1a0-5c20-7000-8000-00000000000c',
  message: '01a3c1a0-5b11-7000-8000-00000000000a',
  createdAt: '2026-11-21T09:00:00.000Z',
  deliveredAt: '2026-11-21T09:00:00.412Z',
  scheduledAt: scheduledAt.toISOString(),
  from: 'Shop <hello@shop.example.com>',
  to: 'ann@example.net',
};

/** What an endpoint is posted, as an example. */
export const eventSamples = {
  delivered: {
    type: 'email.delivered',
    created_at: samples.deliveredAt,
    data: {
      email_id: samples.email,
      from: samples.from,
      to: [samples.to],
      subject: 'Your order',
      status: 'delivered',
      created_at: samples.createdAt,
      tags: ['orders'],
      recipients: [{ address: samples.to, status: 'delivered', response: '250 2.0.0 Ok: queued as 4XyZ' }],
    },
  },
  test: {
    type: 'webhook.test',
    created_at: samples.deliveredAt,
    data: { webhook_id: samples.webhook, message: 'A test call, made on request. No email is behind it.' },
  },
};
