import { chmod, mkdir } from 'node:fs/promises';
import { readConfig } from '../../../src/config.ts';
import { addUp } from '../../../src/core/log/email-counts.ts';
import { Keyring } from '../../../src/crypto/seal.ts';
import type { Database } from '../../../src/db/client.ts';
import { startEmbedded } from '../../../src/db/embedded.ts';
import { silentLog } from '../../../src/log.ts';
import { startNode } from '../../../src/node/node.ts';
import { buildSender } from '../../support/build.ts';
import { testEnv } from '../../support/node.ts';
import { timeFilter } from './one-filter.ts';

/** The time for one filter of the log, in ms. */
export interface FilterTimes {
  filter: string;
  matching: number;
  median: number;
  /** With fewer than a hundred calls, the slowest. */
  p99: number;
}

interface LogOptions {
  dataDir: string;
  /** The account's emails; made in steps of 20,000. */
  emails: number;
  /** Calls with each filter. */
  calls: number;
  say(sentence: string): void;
  tell?(times: FilterTimes): void;
}

const step = 20_000;

/** Makes an account with this many emails and reads its log over HTTP with each filter, one call at a time. */
export async function timeLog({ dataDir, emails, calls, say, tell }: LogOptions): Promise<FilterTimes[]> {
  await mkdir(dataDir, { recursive: true });
  await chmod(dataDir, 0o755);
  const postgres = await startEmbedded({ dataDir, password: 'bench', log: silentLog });
  const config = readConfig(testEnv(postgres.url, { ROLES: 'api' }));
  const encryptionKey = config.encryptionKey ?? Buffer.alloc(0);
  const node = await startNode(config, {
    databaseUrl: postgres.url,
    alone: true,
    jwtSecret: config.jwtSecret ?? '',
    keyring: new Keyring(encryptionKey),
    log: silentLog,
  });
  try {
    const sender = await buildSender(node.db, encryptionKey);
    say(`Seeding ${emails} emails`);
    await seed(node.db, sender, emails);
    const all: FilterTimes[] = [];
    for (const [filter, query] of Object.entries(queriesOf(sender.domain))) {
      const { matching, times } = await timeFilter({ baseUrl: node.baseUrl, key: sender.key }, query, calls);
      const at = (share: number) => times[Math.ceil(share * calls) - 1] ?? 0;
      const one = { filter, matching, median: at(0.5), p99: at(0.99) };
      all.push(one);
      tell?.(one);
    }
    return all;
  } finally {
    await node.stop();
    await postgres.stop();
  }
}

async function seed(
  db: Database,
  { account, domain, domainId }: Awaited<ReturnType<typeof buildSender>>,
  emails: number,
): Promise<void> {
  for (let done = 0; done < emails; done += step) {
    // Ids over the last days, ordered by time: 48 bits of milliseconds, version 7, and the number itself.
    await db.query({
      text: `INSERT INTO emails (id, account_id, domain_id, status, type, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending,
                                 failed, suppressed, created_at, from_address, from_domain, recipient_addresses)
             SELECT (lpad(to_hex($4::bigint + n * 200), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid,
                    $1, $2, (CASE WHEN n % 100 = 0 THEN 'failed' WHEN n % 1000 = 1 THEN 'suppressed' ELSE 'sent' END)::email_status,
                    (CASE WHEN n % 10 = 0 THEN 'marketing' ELSE 'transactional' END)::email_type, 'a@' || $3::text, ARRAY['r' || n % 200000 || '@x.test'],
                    '{}', '{}', '{}', 'Order ' || n || ' for customer ' || n % 5000, ARRAY['tag' || n % 50, 'all'], n || '@x', 0,
                    (n % 100 = 0)::int, (n % 1000 = 1)::int, to_timestamp(($4::bigint + n * 200) / 1000.0),
                    CASE WHEN n % 20 = 0 THEN 'other@' ELSE 'a@' END || $3::text, $3, ARRAY['r' || n % 200000 || '@x.test']
               FROM generate_series($5::int, $6::int) n`,
      values: [account.id, domainId, domain, Date.now() - emails * 200, done + 1, done + step],
    });
  }
  await addUp(db);
  await db.session(async (session) => {
    // On a busy machine it takes longer than any statement of the service may.
    await session.query({ text: 'SET statement_timeout = 0' });
    await session.query({ text: 'VACUUM ANALYZE' });
    await session.query({ text: 'RESET statement_timeout' });
  });
}

const queriesOf = (domain: string): Record<string, string> => ({
  'no filter': '',
  'offset 100,000': 'offset=100000',
  'offset past the end': 'offset=999999999',
  'status=sent (99 %)': 'status=sent',
  'status=failed (1 %)': 'status=failed',
  'status=suppressed (0.1 %)': 'status=suppressed',
  'status=canceled (none)': 'status=canceled',
  'status=queued (none)': 'status=queued',
  'type=marketing (10 %)': 'type=marketing',
  'tag=tag7 (2 %)': 'tag=tag7',
  'tag=all (100 %)': 'tag=all',
  'from (5 %)': `from=other@${domain}`,
  'domain (100 %)': `domain=${domain}`,
  'tag=all, status=failed (1 %)': 'tag=all&status=failed',
  'tag=all and domain (100 %)': `tag=all&domain=${domain}`,
  'to (5 emails)': 'to=r4711@x.test',
  'to=@x.test (100 %)': 'to=@x.test',
  'to=@y.test (none)': 'to=@y.test',
  'q=customer 42 (200)': 'q=customer%2042',
  'q=customer (100 %)': 'q=customer',
  'q=order, tag=tag7 (2 %)': 'q=order&tag=tag7',
  'one hour (1.8 %)': `created_after=${new Date(Date.now() - 7_200_000).toISOString()}&created_before=${new Date(Date.now() - 3_600_000).toISOString()}`,
});
