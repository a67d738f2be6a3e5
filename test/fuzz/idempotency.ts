import fc from 'fast-check';
import { newId } from '../../src/ids.ts';
import type { Answer } from '../support/node.ts';
import type { Target } from './target.ts';
import { equal, hold } from './texts.ts';

/**
 * What a call requests. `stranger` is refused because of its sender, which is checked while the key is held;
 * `malformed` is refused at once.
 */
const wishes = ['one', 'other', 'batch', 'stranger', 'malformed'] as const;
type Wish = (typeof wishes)[number];

const round = fc.array(fc.record({ key: fc.nat(2), wish: fc.constantFrom(...wishes) }), { minLength: 1, maxLength: 7 });

/** What is known about a key from earlier rounds: the request, and the answer. */
type Known = Map<number, { wish: Wish; answer: string }>;

const isRefused = (wish: Wish) => wish === 'stranger' || wish === 'malformed';

/** @throws Error if simultaneous calls with one key got answers that no sequence of them could give */
function holdRound(known: Known, key: number, asked: { wish: Wish; answer: Answer }[]): void {
  const good = asked.filter(({ wish }) => !isRefused(wish));
  const before = known.get(key);
  const taken = good.filter(({ answer }) => answer.status === 200);
  const [first] = before ? [] : taken;
  if (first) known.set(key, { wish: first.wish, answer: JSON.stringify(first.answer.body) });
  const now = known.get(key);
  hold(good.length === 0 || now !== undefined, 'none of those that could be first is');
  for (const { wish, answer } of asked) {
    if (wish === 'malformed') equal(answer.status, 400);
    else if (wish === 'stranger')
      hold(
        [403, 400, 409].includes(answer.status) && (answer.status !== 409 || now !== undefined),
        `a stranger got ${answer.status}`,
      );
    else if (wish === now?.wish) equal([answer.status, JSON.stringify(answer.body)], [200, now.answer]);
    else equal([answer.status, answer.body.error], [409, 'conflict']);
  }
  const played = taken.filter(({ answer }) => answer.headers.get('idempotent-replayed') === 'true').length;
  equal(played, taken.length - (first ? 1 : 0));
}

export const idempotency: Target = {
  name: 'idempotency',
  quick: 20,
  async open({ caller }) {
    const { node, from, key, account } = await caller();
    const email = { from, to: 'a@b.test', subject: 's', text: 't' };
    const requests: Record<Wish, [path: string, body: unknown]> = {
      one: ['', email],
      other: ['', { ...email, text: 'another' }],
      batch: ['/batch', { emails: [email, email] }],
      stranger: ['', { ...email, from: 'a@stranger.example' }],
      malformed: ['', { ...email, to: 'nobody' }],
    };
    const count = async () => {
      const [row] = await node.db.query<{ n: number }>({
        text: 'SELECT count(*)::int AS n FROM emails WHERE account_id = $1',
        values: [account.id],
      });
      return row?.n ?? 0;
    };
    return {
      'a key performs its first request once, however many calls come at once': fc.asyncProperty(
        fc.array(round, { minLength: 1, maxLength: 3 }),
        async (rounds) => {
          const run = newId();
          const known: Known = new Map();
          const before = await count();
          for (const calls of rounds) {
            const asked = await Promise.all(
              calls.map(async (one) => {
                const [path, body] = requests[one.wish];
                const headers = { 'Idempotency-Key': `${run}-${one.key}` };
                return { ...one, answer: await node.call('POST', `/api/v1/emails${path}`, { key, body, headers }) };
              }),
            );
            for (const [of, same] of Map.groupBy(asked, (one) => one.key)) holdRound(known, of, same);
          }
          const wanted = [...known.values()].reduce((sum, { wish }) => sum + (wish === 'batch' ? 2 : 1), 0);
          equal((await count()) - before, wanted);
        },
      ),
    };
  },
};
