import t from 'tap';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import type { Claim } from '../../src/core/recipients/recipients.ts';
import { EmailsAhead } from '../../src/delivery/preparation/emails-ahead.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { buildClaim } from '../support/claim.ts';
import { openQueue } from '../support/db.ts';

t.test('the next emails are read ahead, and fewer of them if they are large', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const holder = holderOf(account);
  const claims = async (texts: string[]): Promise<Claim[]> => {
    const requests = texts.map((text) => requestOf(`s@${domain}`, ['a@b.test'], { text }));
    return (await accept(db, queue, holder, requests)).map((accepted) => {
      if (!('email' in accepted)) throw new Error('not accepted');
      return buildClaim({ emailId: accepted.email.id, to: ['a@b.test'] });
    });
  };

  const ahead = new EmailsAhead(db, new FreshBodies());
  t.equal(ahead.depth, 300);
  const large = await claims(Array(10).fill('x'.repeat(50_000)));
  t.strictSame(await ahead.readAhead(large), large);
  t.equal(ahead.depth, 80, 'four million characters');
  t.ok(large.every((claim) => ahead.has(claim)));
  t.equal((await ahead.load(large)).size, 10);
  t.notOk(
    large.some((claim) => ahead.has(claim)),
    'each is handed out once',
  );

  const larger = await claims(Array(3).fill('x'.repeat(99_000)));
  await ahead.readAhead(larger);
  t.equal(ahead.depth, 40);
  const small = await claims(Array(3).fill('short'));
  await ahead.readAhead(small);
  t.equal(ahead.depth, 300);

  const heavy = await claims(['x'.repeat(100_000)]);
  t.strictSame(await ahead.readAhead(heavy), [], 'one that is too large is left for its turn');
  const unread = { bodies: 100_000, files: 0, filesKey: '' };
  t.match((await ahead.load(heavy)).get(heavy[0]?.emailId ?? ''), { text: null, unread }, 'and alone then');
});
