import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { abandonedJournals, Journal } from '../../src/delivery/attempt/journal.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { buildClaim } from '../support/claim.ts';
import { eventually } from '../support/node.ts';

const session = {
  startedAt: new Date(),
  host: 'mx.test',
  remoteAddress: '127.0.0.1',
  localAddress: null,
  tls: null,
  verification: 'none',
  reused: false,
} as const;

const claimOf = (...to: string[]) => buildClaim({ to });

function start(t: Test) {
  const parent = mkdtempSync(join(tmpdir(), 'sendwright-journal-'));
  t.teardown(() => rmSync(parent, { recursive: true, force: true }));
  const folder = join(parent, 'journal');
  const lines = () =>
    readdirSync(folder).flatMap((name) => readFileSync(join(folder, name), 'utf8').trim().split('\n').filter(Boolean));
  return { folder, lines, journal: new Journal(folder, silentLog) };
}

t.test('a dot is on disk when it is noted, and names only its own recipients', async (t) => {
  const { journal, lines, folder } = start(t);
  const claim = claimOf('a@a.test', 'b@a.test');
  await journal.dot(claim, ['b@a.test'], session);
  t.match(
    lines().map((line) => JSON.parse(line)),
    [{ n: 0, dot: { claim: { recipients: [{ address: 'b@a.test' }] } } }],
  );
  journal.answer(claim, []);
  await new Promise((resume) => setImmediate(resume));
  t.equal(lines().length, 2);
  const modeOf = (file: string) => statSync(file).mode & 0o777;
  t.equal(modeOf(folder), 0o700, 'nobody else can see the recipients');
  for (const name of readdirSync(folder)) t.equal(modeOf(join(folder, name)), 0o600);
});

t.test('recorded entries are not kept: the file stays small', async (t) => {
  const { folder, journal, lines } = start(t);
  const size = () => readdirSync(folder).reduce((sum, name) => sum + readFileSync(join(folder, name)).length, 0);
  const slow = claimOf('slow@a.test');
  await journal.dot(slow, ['slow@a.test'], session);
  let most = 0;
  for (let left = 5_000; left > 0; left -= 1) {
    const claim = claimOf('a@a.test', 'b@a.test');
    for (const { address } of claim.recipients) {
      await journal.dot(claim, [address], session);
      journal.answer(claim, []);
    }
    journal.recorded(claim);
    if (left % 500 === 0) most = Math.max(most, size());
  }
  t.ok(most < 3_000_000, `${most} bytes`);
  t.equal(readdirSync(folder).length, 2, 'the file with the slow entry, and the current one');
  t.ok(
    lines().some((line) => line.includes('slow@a.test')),
    'which is still there',
  );
  journal.recorded(slow);
  t.equal(readdirSync(folder).length, 1, 'its file goes with it');
  journal.close();
  t.same(readdirSync(folder), []);
});

t.test('entries that were not recorded outlive the process that wrote them', async (t) => {
  const { folder, journal, lines } = start(t);
  await journal.dot(claimOf('a@a.test'), ['a@a.test'], session);
  t.same(abandonedJournals(folder, true), [], 'it is still being written');
  journal.close();
  t.equal(lines().length, 1);
  t.equal(abandonedJournals(folder, false).length, 1);

  const other = spawn('sleep', ['60']);
  t.teardown(() => other.kill());
  writeFileSync(join(folder, `${other.pid}-${newId()}.jsonl`), '');
  writeFileSync(join(folder, 'notes.txt'), '');
  t.equal(abandonedJournals(folder, false).length, 1, 'the process of the other one is alive');
  t.equal(abandonedJournals(folder, true).length, 2, 'unless none can be alive');
  t.same(abandonedJournals(join(folder, 'missing'), true), []);
});

t.test('an answer that comes in the moment in which the process stops is on disk', async (t) => {
  const { journal, lines } = start(t);
  const claim = claimOf('a@a.test');
  await journal.dot(claim, ['a@a.test'], session);
  journal.answer(claim, []);
  journal.close();
  t.strictSame(
    lines().map((line) => Object.keys(JSON.parse(line)).join()),
    ['n,dot', 'n,results'],
    'without it the message would go out twice',
  );
});

t.test(
  'a pid identifies a process in one place only: the journal of a living node elsewhere is left alone',
  async (t) => {
    const { folder, journal } = start(t);
    await journal.dot(claimOf('a@a.test'), ['a@a.test'], session);
    const [, host = '', place = '', started = ''] = readdirSync(folder)[0]?.split('.') ?? [];
    journal.close();
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    const other = spawn('sleep', ['60']);
    t.teardown(() => other.kill());
    const gone = spawn('true');
    await once(gone, 'exit');
    const elsewhere = '0123456789ab';
    const isTaken = (pid: number | undefined, of: [host: string, place: string, started: string], minutesAgo = 0) => {
      const path = join(folder, `${pid}-${newId()}.${of.join('.')}.jsonl`);
      writeFileSync(path, '');
      const touched = Date.now() / 1000 - minutesAgo * 60;
      utimesSync(path, touched, touched);
      const taken = abandonedJournals(folder, false).includes(path);
      t.ok(abandonedJournals(folder, true).includes(path), 'unless no other can be running');
      rmSync(path);
      return taken;
    };
    for (const pid of [process.pid, other.pid, gone.pid]) {
      t.notOk(
        isTaken(pid, [elsewhere, elsewhere, started]),
        'another container with the same folder, whatever its pid',
      );
      t.notOk(isTaken(pid, [elsewhere, elsewhere, started], 50), 'that has nothing to write');
      t.ok(isTaken(pid, [elsewhere, elsewhere, started], 61), 'and no longer exists');
      t.ok(isTaken(pid, [host, elsewhere, started]), 'this container, or machine, before its restart');
    }
    t.ok(isTaken(process.pid, [host, place, '1']), 'whoever had our pid before us');
    t.ok(isTaken(gone.pid, [host, place, started]));
    t.notOk(isTaken(other.pid, [host, place, '0']), 'if nobody knows when it was started');
    const ofAnotherUser = mock.method(process, 'kill', () => {
      throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' });
    });
    t.notOk(isTaken(other.pid, [host, place, '0']), 'and if it belongs to another user');
    ofAnotherUser.mock.restore();
    if (process.platform === 'linux') t.ok(isTaken(other.pid, [host, place, '1']), 'another program has its pid now');
  },
);

t.test('a process that has nothing to write shows that it is alive', async (t) => {
  const { folder } = start(t);
  const journal = new Journal(folder, silentLog, 5);
  await journal.dot(claimOf('a@a.test'), ['a@a.test'], session);
  const path = join(folder, readdirSync(folder)[0] ?? '');
  utimesSync(path, 0, 0);
  await eventually(async () => statSync(path).mtimeMs > 0);
  journal.close();
});

t.test(
  'a disk that was full costs the dots of that time, not those after it',
  // Nothing else can take back a limit that a process has.
  { skip: process.platform === 'linux' ? false : 'needs prlimit' },
  async (t) => {
    const { folder, lines } = start(t);
    const script = `
      import { spawnSync } from 'node:child_process';
      const { Journal } = await import(${JSON.stringify(new URL('../../src/delivery/attempt/journal.ts', import.meta.url).href)});
      const { silentLog } = await import(${JSON.stringify(new URL('../../src/log.ts', import.meta.url).href)});
      const journal = new Journal(${JSON.stringify(folder)}, silentLog);
      const claim = (address) => ({ recipients: [{ position: 0, address, attempts: 0 }] });
      const dot = (address) => journal.dot(claim(address), [address], {});
      await dot('before@a.test');
      await dot('x'.repeat(4_000) + '@a.test');
      await dot('full@a.test');
      const { status } = spawnSync('prlimit', ['--pid', String(process.pid), '--fsize=1000000']);
      await dot('after@a.test');
      await dot('later@a.test');
      process.exit(status);`;
    // Files of this process grow up to the limit, and a write beyond it is cut.
    // What tap would load there takes the signal of such a write for the end.
    const limited = 'unset NODE_OPTIONS; ulimit -S -f 1; exec "$0" --no-warnings --input-type=module -e "$1"';
    const { status, stderr } = spawnSync('/bin/sh', ['-c', limited, process.execPath, script], { encoding: 'utf8' });
    t.equal(status, 0, stderr);
    const read = lines().flatMap((line) => {
      try {
        return [JSON.parse(line).dot.claim.recipients[0].address];
      } catch {
        return [];
      }
    });
    t.strictSame(read, ['before@a.test', 'after@a.test', 'later@a.test']);
  },
);

t.test('an answer is never noted for another dot than its own', async (t) => {
  const { folder, journal } = start(t);
  const [full, claim] = [claimOf(`${'x'.repeat(1_000_000)}@a.test`), claimOf('a@a.test', 'b@a.test')];
  await journal.dot(claim, ['a@a.test'], session);
  await journal.dot(
    full,
    full.recipients.map(({ address }) => address),
    session,
  );
  // The next dot needs a new file, and there is no folder for it.
  const moved = `${folder}-moved`;
  renameSync(folder, moved);
  writeFileSync(folder, '');
  await journal.dot(claim, ['b@a.test'], session);
  journal.answer(claim, []);
  rmSync(folder);
  await journal.dot(claim, ['b@a.test'], session);
  journal.answer(claim, []);
  await new Promise((resume) => setImmediate(resume));
  const linesIn = (place: string) =>
    readdirSync(place).map((name) =>
      readFileSync(join(place, name), 'utf8')
        .trim()
        .split('\n')
        .map((line) => Object.keys(JSON.parse(line)).join()),
    );
  t.strictSame(linesIn(moved), [['n,dot', 'n,dot']], 'the answer to the dot that could not be noted is not here');
  t.strictSame(linesIn(folder), [['n,dot', 'n,results']], 'and the one after it has its own');
  journal.recorded(claim);
});

t.test('an unwritable folder is reported once, and stops nobody', async (t) => {
  const said: string[] = [];
  const journal = new Journal('/dev/null/journal', pino({ base: null }, { write: (line: string) => said.push(line) }));
  for (let left = 3; left > 0; left -= 1) {
    const claim = claimOf('a@a.test');
    await journal.dot(claim, ['a@a.test'], session);
    journal.answer(claim, []);
    journal.recorded(claim);
  }
  journal.close();
  t.equal(said.length, 1);
  t.match(said[0], /may go out twice/);
});
