import t from 'tap';
import * as lines from '../../src/core/emails/mail-lines.ts';
import { claim } from '../../src/core/recipients/recipients.ts';
import { type Settlement, settle } from '../../src/core/recipients/settlement.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Sql } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { decided } from '../support/decided.ts';

t.test('the final event names the recipients it is about, whichever was settled last', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const endpoint = { url: 'https://example.test/hook', events: [...webhooks.eventTypes] };
  await webhooks.create(db, account.id, endpoint, new Keyring(Buffer.alloc(32)));
  const nodeId = newId();
  await buildNode(db, nodeId);

  const send = async (to: string[]) => {
    const [accepted] = await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, to)]);
    if (!accepted || !('email' in accepted)) throw new Error('not accepted');
    return accepted.email.id;
  };
  const later = new Date(Date.now() + 3_600_000);
  const claimDue = () => db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));

  /** Sends to one recipient per outcome, and settles them in these groups one after another. */
  async function settleInTurn(outcomes: Settlement['status'][], groups: number[][]) {
    const to = outcomes.map((_, index) => `r${index}@d${index}.test`);
    const id = await send(to);
    const held = await claimDue();
    const settlements = held.flatMap(({ jobId, emailId, recipients }) =>
      recipients.map(
        ({ position }): Settlement => ({
          ...decided(outcomes[position] ?? 'failed', later),
          ...{ nodeId, jobId, emailId, position, attempts: 1, lastResponse: `answer to ${position}` },
          ...{ waitingFor: null, uncertain: false, suppress: null },
        }),
      ),
    );
    const statements: (string | undefined)[] = [];
    for (const group of groups) {
      await db.transaction((tx) => {
        const counting: Sql = {
          ...tx,
          query: (statement) => {
            statements.push(statement.name);
            return tx.query(statement);
          },
        };
        const now = settlements.filter(({ position }) => group.includes(position));
        return settle(counting, queue, now, []);
      });
    }
    return { id, statements };
  }

  /** The last event of an email that ended so. */
  async function end(outcomes: Settlement['status'][], groups: number[][]) {
    const { id, statements } = await settleInTurn(outcomes, groups);
    const rows = await db.query<{ event: string; payload: string }>({
      text: `SELECT event, payload FROM webhook_deliveries WHERE email_id = $1
              AND event IN ('email.delivered', 'email.failed', 'email.suppressed')`,
      values: [id],
    });
    return {
      told: rows.map(({ event, payload }) => [event, JSON.parse(payload).data.recipients]),
      loads: statements.filter((name) => name === 'settlement-recipients').length,
    };
  }
  const named = (index: number, status: string) => ({
    ...{ address: `r${index}@d${index}.test`, status, response: `answer to ${index}` },
  });

  t.strictSame(await end(['failed', 'delivered'], [[0], [1]]), {
    told: [['email.failed', [named(0, 'failed')]]],
    loads: 1,
  });
  t.strictSame(await end(['suppressed', 'delivered', 'suppressed'], [[0], [1, 2]]), {
    told: [['email.suppressed', [named(0, 'suppressed'), named(2, 'suppressed')]]],
    loads: 1,
  });
  t.strictSame(await end(['delivered', 'delivered'], [[1], [0]]), {
    told: [['email.delivered', [named(0, 'delivered'), named(1, 'delivered')]]],
    loads: 1,
  });
  t.strictSame(await end(['failed', 'delivered'], [[0, 1]]), {
    told: [['email.failed', [named(0, 'failed')]]],
    loads: 0,
  });
  t.strictSame(await end(['failed', 'delivered', 'suppressed'], [[2], [0, 1]]), {
    told: [['email.failed', [named(0, 'failed'), named(2, 'suppressed')]]],
    loads: 1,
  });
  t.strictSame(await end(['delivered'], [[0]]), { told: [['email.delivered', [named(0, 'delivered')]]], loads: 0 });

  t.test('an email says how it ended, and when, whichever recipient was settled last', async (t) => {
    const [sent, failed] = [
      { status: 'sent', error: null, sentAt: Date },
      { status: 'failed', sentAt: null },
    ];
    const suppressed = { status: 'suppressed', error: 'answer to 0', sentAt: null };
    const table: [outcomes: Settlement['status'][], groups: number[][], email: object][] = [
      [['delivered', 'delivered'], [[0], [1]], sent],
      [['failed', 'delivered'], [[0], [1]], { ...failed, error: 'answer to 0' }],
      [['failed', 'failed'], [[1], [0]], { ...failed, error: 'answer to 1' }],
      [['suppressed', 'delivered'], [[0], [1]], suppressed],
      [['suppressed', 'delivered'], [[1], [0]], suppressed],
      [['delivered', 'deferred'], [[0, 1]], { status: 'queued', error: null, sentAt: null }],
    ];
    for (const [outcomes, groups, email] of table) {
      const { id } = await settleInTurn(outcomes, groups);
      const what = `${outcomes} in the order ${groups}`;
      t.match(await db.prisma.email.findUniqueOrThrow({ where: { id } }), email, what);
      t.strictSame(
        (await db.prisma.recipient.findMany({ where: { emailId: id }, orderBy: { position: 'asc' } })).map(
          ({ settledAt }) => settledAt !== null,
        ),
        outcomes.map((outcome) => outcome !== 'deferred'),
        what,
      );
    }
  });

  t.test('a delay is reported once, even if an attempt that does not count follows', async (t) => {
    const id = await send(['a@slow.test']);
    for (const attempt of [{ attempts: 1 }, { attempts: 1, undone: true }, { attempts: 2 }]) {
      await lines.wakeDue(db, queue);
      const [held] = await claimDue();
      if (!held) throw new Error('nothing is due');
      const { jobId, emailId } = held;
      const settlement: Settlement = {
        ...{ nodeId, jobId, emailId, position: 0, status: 'deferred', nextAttemptAt: new Date(Date.now() - 1_000) },
        ...{ waitingFor: null, uncertain: false, suppress: null, lastResponse: '451 later', ...attempt },
      };
      await db.transaction((tx) => settle(tx, queue, [settlement], []));
    }
    const told = await db.prisma.webhookDelivery.findMany({ where: { emailId: id }, orderBy: { id: 'asc' } });
    t.strictSame(
      told.map(({ event }) => event),
      ['email.queued', 'email.delayed'],
    );
  });
});
