import { readFileSync } from 'node:fs';
import t from 'tap';
import { actors } from '../../src/core/sandbox-messages.ts';
import { buildSender } from '../support/build.ts';
import { document } from '../support/contract.ts';
import { eventually, startTestNode } from '../support/node.ts';

t.test('addresses that act are listed where people look', async (t) => {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  const tags = JSON.stringify(document.tags);
  for (const local of Object.keys(actors)) {
    t.ok(readme.includes(`| \`${local}@\` |`), `${local}@ in the README`);
    t.ok(tags.includes(`\`${local}@\``), `${local}@ in the reference`);
  }
});

t.test('they do what is said of them', async (t) => {
  const encryptionKey = Buffer.alloc(32, 5);
  const env = { ENCRYPTION_KEY: encryptionKey.toString('hex'), RETRY_SCHEDULE: '1s' };
  const node = await startTestNode(t, env);
  const { key, from } = await buildSender(node.db, encryptionKey);
  const outcome = async (local: string) => {
    const body = { from, to: `${local}+1@acting.test`, subject: 's', text: 't' };
    const { id } = (await node.call('POST', '/api/v1/emails', { key, body })).body.email;
    const email = await eventually(async () => {
      const { body } = await node.call('GET', `/api/v1/emails/${id}`, { key });
      return body.email.status !== 'queued' && body.email;
    }, 15_000);
    const { attempts } = (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key })).body;
    const last = attempts.at(-1);
    return {
      status: email.status,
      attempts: attempts.length,
      class: last.classification,
      uncertain: attempts[0].uncertain,
    };
  };
  const [full, blocked, greylisted, disconnects, slow] = await Promise.all(
    ['full', 'blocked', 'greylisted', 'disconnects', 'slow'].map(outcome),
  );
  t.match(full, { status: 'failed', attempts: 1, class: 'mailbox_full' });
  t.match(blocked, { status: 'failed', attempts: 1, class: 'policy' });
  t.match(greylisted, { status: 'sent', attempts: 2, uncertain: false });
  t.match(disconnects, { status: 'sent', attempts: 2, uncertain: true });
  t.match(slow, { status: 'sent', attempts: 1 });
  t.equal(await node.db.prisma.suppression.count(), 0, 'none of them says that there is nobody');
});
