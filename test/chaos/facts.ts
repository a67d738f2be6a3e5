import pg from 'pg';

/** What the database says once everything is settled. */
export interface Facts {
  emails: { id: string; tag: string; status: string; messageId: string }[];
  recipients: { emailId: string; address: string; status: string; settled: boolean; says: string | null }[];
  /** Attempts that reached the final dot. */
  dots: { emailId: string; recipient: string; outcome: string; uncertain: boolean }[];
  calls: { id: string; emailId: string; event: string; status: string }[];
  returns: { emailId: string; address: string; kind: string }[];
  /** Waiting jobs. */
  jobs: number;
  /** Emails that the account was charged for. */
  charged: number;
  /** Emails according to the log's stored counts. */
  counted: number;
}

/** Reads everything, over its own direct connection. */
export async function readFacts(url: string): Promise<Facts> {
  return withClient(url, async (ask) => ({
    emails: await ask(`SELECT id, subject AS tag, status, message_id AS "messageId" FROM emails`),
    recipients: await ask(
      `SELECT email_id AS "emailId", address, status, next_attempt_at IS NULL AND claimed_by IS NULL AND job_id IS NULL AS settled,
              concat_ws('; ', last_response, waiting_for) AS says
         FROM recipients`,
    ),
    dots: await ask(
      `SELECT email_id AS "emailId", recipient, outcome, uncertain FROM attempts
        WHERE outcome = 'delivered' OR uncertain`,
    ),
    calls: await ask(
      `SELECT id, email_id AS "emailId", event, status FROM webhook_deliveries WHERE email_id IS NOT NULL`,
    ),
    returns: await ask(`SELECT email_id AS "emailId", recipient AS address, kind FROM returns`),
    jobs: await count(ask, liveJobs),
    charged: await count(ask, 'SELECT coalesce(sum(usage_month_count), 0)::int AS n FROM accounts'),
    counted: await count(
      ask,
      `SELECT coalesce(sum(emails), 0)::int AS n
         FROM (SELECT emails FROM email_counts WHERE facet = '' UNION ALL SELECT emails FROM email_count_changes WHERE facet = '') x`,
    ),
  }));
}

/** The work in progress: recipients, webhook calls and jobs. */
export function countOpen(url: string): Promise<{ recipients: number; calls: number; jobs: number }> {
  return withClient(url, async (ask) => ({
    recipients: await count(ask, 'SELECT count(*)::int AS n FROM recipients WHERE next_attempt_at IS NOT NULL'),
    calls: await count(ask, 'SELECT count(*)::int AS n FROM webhook_deliveries WHERE next_attempt_at IS NOT NULL'),
    jobs: await count(ask, liveJobs),
  }));
}

const liveJobs = `SELECT count(*)::int AS n FROM pgboss.job WHERE name IN ('deliver', 'webhook') AND state < 'completed'`;

type Ask = <Row>(text: string, values?: unknown[]) => Promise<Row[]>;

const count = async (ask: Ask, text: string) => (await ask<{ n: number }>(text))[0]?.n ?? 0;

/** @throws whatever the database says while it is down */
export async function withClient<T>(url: string, work: (ask: Ask) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000, query_timeout: 10_000 });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(async (text, values = []) => (await client.query(text, values)).rows);
  } finally {
    await client.end().catch(() => undefined);
  }
}
