import t from 'tap';
import type { Claim } from '../../src/core/webhooks/webhook-calls.ts';
import { Lines } from '../../src/webhooks/lines.ts';

const claimOf = (accountId: string, webhookId: string, n: number): Claim => ({
  ...{ nodeId: 'n', jobId: `${webhookId} ${n}`, deliveryId: `${webhookId} ${n}`, webhookId, accountId },
  failing: false,
});

/** So many calls for each endpoint, which is `account/endpoint`. */
function linesOf(endpoints: Record<string, number>): Lines {
  const lines = new Lines();
  for (const [endpoint, count] of Object.entries(endpoints))
    for (let n = 1; n <= count; n += 1) lines.add(claimOf(endpoint.split('/')[0] ?? '', endpoint, n));
  return lines;
}

const told = (claims: Iterable<Claim>) => [...claims].map(({ jobId }) => jobId);
const endpoint = (webhookId: string) => ({ accountId: webhookId.split('/')[0] ?? '', webhookId });

t.test('accounts take turns, in each its endpoints, and in each of those the calls as they came', async (t) => {
  const lines = linesOf({ 'a/1': 3, 'a/2': 1, 'b/1': 2 });
  t.strictSame(told(lines.inTurn(() => true)), ['a/1 1', 'b/1 1', 'a/2 1', 'b/1 2', 'a/1 2', 'a/1 3']);
  t.strictSame(lines.endpoints, []);
});

t.test('a call that somebody waits for goes before the others to its endpoint', async (t) => {
  const lines = linesOf({ 'a/1': 2, 'b/1': 1 });
  for (const asked of [claimOf('a', 'a/1', 9), claimOf('c', 'c/1', 9)]) lines.addFirst(asked);
  t.strictSame(told(lines.inTurn(() => true)), ['a/1 9', 'b/1 1', 'c/1 9', 'a/1 1', 'a/1 2']);
});

t.test('an endpoint without room holds up neither the others of its account nor other accounts', async (t) => {
  const lines = linesOf({ 'a/1': 2, 'a/2': 2, 'b/1': 1, 'c/1': 1 });
  const mayBegin = ({ webhookId }: Claim) => webhookId !== 'a/1' && webhookId !== 'b/1';
  t.strictSame(told(lines.inTurn(mayBegin)), ['a/2 1', 'c/1 1', 'a/2 2']);
  t.strictSame(lines.endpoints.sort(), ['a/1', 'b/1']);
  t.strictSame(told(lines.inTurn(() => true)), ['b/1 1', 'a/1 1', 'a/1 2'], 'and keeps its place');
});

t.test('whose turn it is does not start anew when there is no room for a while', async (t) => {
  const lines = linesOf({ 'a/1': 9, 'b/1': 9, 'c/1': 9 });
  const begun: string[] = [];
  for (let round = 0; round < 7; round += 1)
    for (const { jobId } of lines.inTurn(() => true)) {
      begun.push(jobId);
      break;
    }
  t.strictSame(begun, ['a/1 1', 'b/1 1', 'c/1 1', 'a/1 2', 'b/1 2', 'c/1 2', 'a/1 3']);
});

t.test('what waits for one endpoint can be taken out, and so can everything', async (t) => {
  const lines = linesOf({ 'a/1': 2, 'a/2': 1, 'b/1': 1 });
  t.strictSame(told(lines.cut(endpoint('a/1'))), ['a/1 1', 'a/1 2']);
  t.strictSame(
    ['a/1', 'a/2', 'b/1', 'c/1'].map((webhookId) => lines.has(endpoint(webhookId))),
    [false, true, true, false],
  );
  t.strictSame([lines.cut(endpoint('a/1')), lines.cut(endpoint('c/1'))], [[], []]);
  t.strictSame(told(lines.cut(endpoint('b/1'))), ['b/1 1']);
  lines.add(claimOf('b', 'b/1', 2));
  t.strictSame(told(lines.empty()), ['a/2 1', 'b/1 2']);
  t.strictSame([lines.endpoints, lines.empty()], [[], []]);
});

t.test('an account of which nothing was left keeps no place: it comes behind those that came meanwhile', async (t) => {
  const lines = linesOf({ 'a/1': 1 });
  t.strictSame(told(lines.inTurn(() => true)), ['a/1 1']);
  for (const [accountId, n] of [['b', 1] as const, ['a', 2] as const])
    lines.add(claimOf(accountId, `${accountId}/1`, n));
  t.strictSame(told(lines.cut(endpoint('b/1'))), ['b/1 1']);
  lines.add(claimOf('b', 'b/1', 2));
  t.strictSame(told(lines.inTurn(() => true)), ['a/1 2', 'b/1 2'], 'after its calls were taken out');
  for (const accountId of ['c', 'a']) lines.add(claimOf(accountId, `${accountId}/1`, 3));
  t.strictSame(told(lines.inTurn(() => true)), ['c/1 3', 'a/1 3'], 'after they were made');
});
