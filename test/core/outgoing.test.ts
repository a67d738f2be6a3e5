import t from 'tap';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import { load, loadSuppressed } from '../../src/core/outgoing/outgoing.ts';
import { addAll } from '../../src/core/returns/suppressions.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';

t.test(
  "who is suppressed, when mail is tried again, depends on the account's own list and the type of mail",
  async (t) => {
    const { db, queue } = await openQueue(t);
    const [own, other] = [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))];
    const to = ['bounced@a.test', 'left@a.test', 'fine@a.test', 'unknown@b.test'];
    const accepted = await accept(db, queue, holderOf(own.account), [
      requestOf(own.from, to),
      requestOf(own.from, to, { type: 'marketing' }),
    ]);
    const [plain = '', marketing = ''] = accepted.map((one) => ('email' in one ? one.email.id : ''));
    const entry = { accountId: own.account.id, emailId: null };
    await addAll(db, [
      { ...entry, address: 'bounced@a.test', reason: 'bounce' },
      { ...entry, address: 'left@a.test', reason: 'unsubscribe' },
      { ...entry, address: 'nobody@a.test', reason: 'bounce' },
      { ...entry, accountId: other.account.id, address: 'fine@a.test', reason: 'bounce' },
    ]);
    const expected = { [plain]: ['bounced@a.test'], [marketing]: ['bounced@a.test', 'left@a.test'] };
    const sorted = (found: Map<string, ReadonlySet<string>>) =>
      Object.fromEntries([...found].map(([id, addresses]) => [id, [...addresses].sort()]));
    t.strictSame(sorted(await loadSuppressed(db, [plain, marketing])), expected);
    const loaded = async (tried: boolean) => {
      const wanted = [plain, marketing].map((id) => ({ id, tried, ahead: false }));
      const emails = await load(db, wanted, new FreshBodies({ room: 0 }));
      return sorted(new Map([...emails].map(([id, { suppressed }]) => [id, suppressed])));
    };
    t.strictSame(await loaded(true), expected);
    await db.query({ text: `UPDATE emails SET created_at = now() - interval '3 s'` });
    t.strictSame(await loaded(false), expected, 'what has waited is looked up as well');
  },
);
