import fc from 'fast-check';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import { type Claim, claim } from '../../src/core/recipients/recipients.ts';
import { type Settlement, settle } from '../../src/core/recipients/settlement.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { decided } from '../support/decided.ts';
import type { Closing, Target } from './target.ts';
import { equal } from './texts.ts';

const finals = ['delivered', 'failed', 'suppressed'] as const;

/** The course of one recipient: some attempts that settle nothing, and one that does. */
const person = fc.record({
  domain: fc.constantFrom('one.test', 'two.test', 'three.test'),
  deferrals: fc.nat(2),
  final: fc.oneof(
    { weight: 3, arbitrary: fc.constant('delivered' as const) },
    { weight: 2, arbitrary: fc.constantFrom(...finals) },
  ),
});
type Person = typeof person extends fc.Arbitrary<infer One> ? One : never;

/** The order in which outcomes are recorded, how many per transaction, and whether these run at the same time. */
const manner = fc.record({
  order: fc.array(fc.nat(), { minLength: 8, maxLength: 8 }),
  size: fc.integer({ min: 1, max: 4 }),
  atOnce: fc.boolean(),
});
type Manner = typeof manner extends fc.Arbitrary<infer One> ? One : never;

function inManner(all: Settlement[], { order, size }: Manner): Settlement[][] {
  const sorted = all.toSorted(
    (a, b) => (order[a.position % 8] ?? 0) - (order[b.position % 8] ?? 0) || a.position - b.position,
  );
  return Array.from({ length: Math.ceil(sorted.length / size) }, (_, at) => sorted.slice(at * size, (at + 1) * size));
}

/** What the email must become, depending only on the outcomes of its recipients. */
function expected(people: Person[]) {
  const of = (final: Person['final']) => people.filter((one) => one.final === final).length;
  const status = of('failed') > 0 ? 'failed' : of('suppressed') > 0 ? 'suppressed' : 'sent';
  const terminal = { failed: 'email.failed', suppressed: 'email.suppressed', sent: 'email.delivered' }[status];
  const delayed = people.filter(({ deferrals }) => deferrals > 0).length;
  const times = (name: string, n: number) => Array.from({ length: n }, () => name);
  return {
    status,
    counts: { pending: 0, failed: of('failed'), suppressed: of('suppressed') },
    events: [
      'email.queued',
      terminal,
      ...times('email.sent', of('delivered')),
      ...times('email.delayed', delayed),
    ].sort(),
  };
}

async function openScene(closing: Closing) {
  const { db, queue } = await openQueue(closing);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const url = 'https://example.test/hook';
  await webhooks.create(db, account.id, { url, events: [...webhooks.eventTypes] }, new Keyring(Buffer.alloc(32)));
  const nodeId = newId();
  await buildNode(db, nodeId);
  const holder = holderOf(account);
  const send = async (to: string[]) => {
    const [accepted] = await accept(db, queue, holder, [requestOf(`s@${domain}`, to)]);
    if (!accepted || !('email' in accepted)) throw new Error('not accepted');
    return accepted.email.id;
  };
  const take = () => db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  const write = (settlements: Settlement[]) => db.transaction((tx) => settle(tx, queue, settlements, []));
  const left = async (emailId: string) => {
    const { status, pending, failed, suppressed } = await db.prisma.email.findUniqueOrThrow({ where: { id: emailId } });
    const told = await db.query<{ event: string }>({
      text: 'SELECT event FROM webhook_deliveries WHERE email_id = $1',
      values: [emailId],
    });
    return { status, counts: { pending, failed, suppressed }, events: told.map(({ event }) => event).sort() };
  };
  const jobs = async () => (await db.query({ text: `SELECT 1 FROM pgboss.job WHERE name = 'deliver'` })).length;
  return { send, take, write, left, jobs, wake: () => wakeDue(db, queue) };
}

function settlementsOf(people: Person[], claims: Claim[]): Settlement[] {
  return claims.flatMap(({ nodeId, emailId, jobId, recipients }) =>
    recipients.map(({ position, attempts }) => {
      const { deferrals, final } = people[position] as Person;
      const status = attempts < deferrals ? 'deferred' : final;
      return {
        // Due immediately.
        ...decided(status, new Date(Date.now() - 60_000)),
        ...{ nodeId, emailId, position, jobId, attempts: attempts + 1 },
        ...{ lastResponse: `answer to ${position}`, waitingFor: null, uncertain: false, suppress: null },
      };
    }),
  );
}

export const settlement: Target = {
  name: 'settlement',
  quick: 8,
  async open({ closing }) {
    const scene = await openScene(closing);
    return {
      "an email's end follows from its recipients' outcomes, in any order, and is reported once": fc.asyncProperty(
        fc.array(person, { minLength: 1, maxLength: 8 }),
        fc.array(manner, { minLength: 3, maxLength: 3 }),
        async (people, manners) => {
          const id = await scene.send(people.map(({ domain }, at) => `p${at}@${domain}`));
          for (const manner of manners) {
            const groups = inManner(settlementsOf(people, await scene.take()), manner);
            if (manner.atOnce) await Promise.all(groups.map(scene.write));
            else for (const group of groups) await scene.write(group);
            await scene.wake();
          }
          equal(await scene.left(id), expected(people));
          equal(await scene.jobs(), 0);
        },
      ),
    };
  },
};
