import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createDatabase } from '../support/db.ts';
import { directEnv, mailHostname, prepareSender } from '../support/direct.ts';
import { eventually, testEnv } from '../support/node.ts';
import { type SendwrightProcess, startTogether } from '../support/process.ts';
import { startSink } from '../support/sink.ts';
import { startZone } from '../support/zone.ts';

/** Repeated until all processes have sent some of them. */
const atOnce = 200;
const mostRounds = 80;
const destinations = 10;

/** Slow servers, so that one process cannot do all the work before another gets any. */
async function startInternet(t: Test) {
  const sink = await startSink({
    onMessage: () => new Promise((resolve) => setTimeout(() => resolve(null), 100)),
  });
  t.teardown(() => sink.close());
  const names = Array.from({ length: destinations }, (_, index) => [`to${index}.test`, { A: ['127.0.0.1'] }] as const);
  const zone = await startZone({
    [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    ...Object.fromEntries(names),
  });
  t.teardown(() => zone.close());
  return { sink, zone };
}

async function folder(t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'sendwright-nodes-'));
  t.teardown(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Sends them one by one through this node: the other one has to find the work in the database. */
async function sendSome(app: SendwrightProcess, key: string, from: number): Promise<void> {
  const waiting = Array.from({ length: atOnce }, (_, index) => from + index);
  const send = async () => {
    for (let index = waiting.pop(); index !== undefined; index = waiting.pop()) {
      const to = `b${index}@to${index % destinations}.test`;
      const body = { from: 'a@many.test', to, subject: `${index}`, text: 't' };
      const { status } = await app.call('POST', '/api/v1/emails', { key, body });
      if (status !== 200) throw new Error(`${status}`);
    }
  };
  await Promise.all(Array.from({ length: 16 }, send));
}

const subjectsOf = (messages: { raw: Buffer }[]) =>
  messages.map(({ raw }) => Number(/^Subject: (\d+)\r$/m.exec(raw.toString('latin1'))?.[1])).sort((a, b) => a - b);

/** The processes that have written a final dot, from the files of their journals. */
async function writersOf(dataDir: string): Promise<number> {
  const names = await readdir(join(dataDir, 'journal')).catch(() => []);
  return new Set(names.map((name) => name.split('-')[0])).size;
}

t.test(
  'two nodes on one database, one with two workers: each email is delivered once, and all three processes deliver',
  async (t) => {
    const { sink, zone } = await startInternet(t);
    const env = testEnv(await createDatabase(), directEnv(zone, sink.port));
    const folders = [await folder(t), await folder(t)];
    const [app, other] = (await startTogether(
      t,
      folders.map((dataDir, index) => ({ ...env, DATA_DIR: dataDir, WORKERS: index === 0 ? '2' : '1' })),
    )) as [SendwrightProcess, SendwrightProcess];
    const key = await prepareSender(app, zone, 'many.test');
    const writers = () => Promise.all(folders.map(writersOf));
    let count = 0;
    for (let round = 0; round < mostRounds && String(await writers()) !== '2,1'; round += 1) {
      await sendSome(app, key, count);
      count += atOnce;
    }
    t.same(await writers(), [2, 1], 'each has written a final dot');
    await eventually(async () => sink.messages.length >= count);
    const sent = async () => (await other.call('GET', '/api/v1/emails?status=sent&limit=1', { key })).body.count;
    await eventually(async () => (await sent()) === count);
    t.same(await Promise.all([app.end('SIGTERM'), other.end('SIGTERM')]), [0, 0]);
    t.same(subjectsOf(sink.messages), [...Array(count).keys()]);
    for (const dataDir of folders) t.same(await readdir(join(dataDir, 'journal')), [], 'it has ended cleanly');
    for (const line of app.stdout().trim().split('\n')) JSON.parse(line);
  },
);
