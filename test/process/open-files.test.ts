import t from 'tap';
import { connectionsWithin } from '../../src/process/open-files.ts';

t.test('clients of all ports together leave a fifth of the open files to the rest: DOS-08', async (t) => {
  const taken = (files: number | null) =>
    [
      connectionsWithin(10_000, 'api', files),
      connectionsWithin(500, 'submission', files),
      connectionsWithin(500, 'submissions', files),
      connectionsWithin(200, 'returns', files),
    ] as const;
  t.strictSame(taken(1_024), [512, 128, 128, 51]);
  t.strictSame(taken(1_048_576), [10_000, 500, 500, 200]);
  t.strictSame(taken(null), [10_000, 500, 500, 200], 'where the system does not say');
  const mine = connectionsWithin(Number.POSITIVE_INFINITY, 'api');
  t.ok(mine > 0 && (mine === Number.POSITIVE_INFINITY || Number.isInteger(mine)), 'by the limit of this process');
});
