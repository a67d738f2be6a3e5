import { createHash, randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { loadFiles, storeFiles } from '../../src/core/emails/attachments.ts';
import type { Sql } from '../../src/db/client.ts';
import { openDatabase } from '../support/db.ts';

const megabyte = 1024 * 1024;
const early = new Date('2026-01-01T00:00:00Z');
const late = new Date('2026-02-01T00:00:00Z');

const file = (content: Buffer, lastUsedAt = early) => ({
  sha256: createHash('sha256').update(content).digest('hex'),
  content,
  lastUsedAt,
});

t.test('files of any size come back as they were stored, each in one row', async (t) => {
  const db = await openDatabase(t);
  const accountId = randomUUID();
  // Sizes around the limits of one row and one statement, and an empty file.
  const sizes = [0, 1, 57, megabyte - 1, megabyte, megabyte + 1, 2 * megabyte, 4 * megabyte + 1, 3, 5];
  const files = sizes.map((size) => file(randomBytes(size)));
  await storeFiles(db, accountId, files);
  const named = files.map(({ sha256 }) => ({ accountId, sha256 }));
  const carried: number[] = [];
  const query = async (statement: Parameters<Sql['query']>[0]) => {
    const rows = await db.query<{ base64: string }>(statement);
    carried.push(rows.reduce((sum, { base64 }) => sum + Buffer.from(base64, 'base64').length, 0));
    return rows as never;
  };
  const contentOf = await loadFiles({ ...db, query } as Sql, [...named, ...named]);
  t.equal(
    carried.reduce((sum, bytes) => sum + bytes),
    sizes.reduce((sum, size) => sum + size),
    'each octet is read once',
  );
  t.ok(Math.max(...carried) <= 5 * megabyte, `a few megabytes by each statement: ${carried}`);
  for (const { sha256, content } of files)
    t.ok(contentOf({ accountId, sha256 }).equals(content), `${content.length} bytes`);
  const [rows] = await db.query<{ n: number }>({ text: 'SELECT count(*)::int AS n FROM attachments' });
  t.equal(rows?.n, sizes.length);
});

t.test('repeated bytes are stored once, and kept for the last email that uses them', async (t) => {
  const db = await openDatabase(t);
  const accountId = randomUUID();
  const content = Buffer.from('a file');
  const usedAt = async () =>
    (await db.query<{ at: Date }>({ text: 'SELECT last_used_at AS at FROM attachments' })).map(({ at }) => at);
  await storeFiles(db, accountId, [file(content), file(content, late), file(content)]);
  t.strictSame(await usedAt(), [late]);
  await storeFiles(db, accountId, [file(content)]);
  t.strictSame(await usedAt(), [late], 'an earlier email does not shorten that');
});

t.test('a file belongs to the account that stored it, and a missing one is an error', async (t) => {
  const db = await openDatabase(t);
  const [accountId, other] = [randomUUID(), randomUUID()];
  const stored = file(Buffer.from('a file'));
  await storeFiles(db, accountId, [stored]);
  const theirs = { accountId: other, sha256: stored.sha256 };
  const contentOf = await loadFiles(db, [theirs]);
  t.throws(() => contentOf(theirs), /are not in the database/);
});

t.test('files are stored in one order everywhere, because batches at the same time may share some', async (t) => {
  const stored: string[] = [];
  const query = async ({ values }: { values: unknown[] }) => {
    stored.push(...(values[1] as Buffer[]).map((hash) => hash.toString('hex')));
    return [];
  };
  const files = ['cc', 'aa', 'ee', 'bb', 'dd'].map((byte) => ({
    sha256: byte.repeat(32),
    // Each needs a statement of its own.
    content: Buffer.alloc(3 * megabyte),
    lastUsedAt: early,
  }));
  await storeFiles({ query } as unknown as Sql, randomUUID(), files);
  t.strictSame(
    stored.map((hash) => hash.slice(0, 2)),
    ['aa', 'bb', 'cc', 'dd', 'ee'],
  );
});
