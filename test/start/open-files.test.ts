import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t from 'tap';
import { createDatabase } from '../support/db.ts';
import { eventually, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { flags, ownEnv } from '../support/process.ts';
import { makeFolder } from '../support/start.ts';

const script = 'ulimit -n 120; exec "$0" "$@" src/main.ts';

for (const workers of ['1', '2']) {
  const what = workers === '1' ? 'a process' : 'a process whose connections go to workers';
  t.test(`${what} that runs out of file descriptors says so, and what to do, until it has some again`, async (t) => {
    const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.test', DNS_SERVERS: '127.0.0.1:9' };
    const mode = workers === '1' ? {} : { ...direct, WORKERS: workers };
    const smtp = [await freePort(), await freePort(), await freePort()];
    const ports = {
      SUBMISSION_PORT: `${smtp[0]}`,
      SUBMISSIONS_PORT: `${smtp[1]}`,
      INBOUND_SMTP_PORT: `${smtp[2]}`,
    };
    const env = testEnv(await createDatabase(), { DATA_DIR: await makeFolder(t), ...ports, ...mode });
    const child = spawn('sh', ['-c', script, process.execPath, ...flags], {
      env: { ...ownEnv(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    const [said, logged] = [child.stderr, child.stdout].map((stream) => {
      let text = '';
      stream.on('data', (chunk) => (text += chunk));
      return () => text;
    });
    await eventually(async () => said?.().includes('Stop with Ctrl-C') ?? false, 120_000);
    const port = Number(/Dashboard +http:\/\/localhost:(\d+)/.exec(said?.() ?? '')?.[1]);
    const lines = (start: string) =>
      (logged?.() ?? '')
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line))
        .filter(({ msg }) => msg.startsWith(start));
    const clients: Socket[] = [];
    t.teardown(() => end(clients));
    // Not all at once: the first process would turn most of them away before any worker is full. No port alone takes so many; together they leave a fifth, which is less than the process needs of so few.
    await eventually(async () => {
      for (let more = 0; more < 20; more += 1)
        for (const to of [port, ...smtp]) clients.push(connect(to, '127.0.0.1').on('error', () => undefined));
      return lines('no more files and connections can be opened: clients').length > 0;
    }, 60_000);
    const [line] = lines('no more files');
    t.match(line, { limit: process.platform === 'linux' ? 120 : undefined, error: /^EMFILE/ });
    t.match(line.msg, /; raise the limit, with ulimit -n, LimitNOFILE= in a systemd unit, or ulimits with Docker$/);
    end(clients);
    await eventually(async () => lines('files and connections can be opened again').length > 0, 60_000);
    // One for each worker, and more.
    for (let one = 0; one < 4; one += 1) t.equal(await statusOf(`http://127.0.0.1:${port}/readyz`), 200);
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    t.strictSame(await ended, [0, null]);
  });
}

const statusOf = async (url: string) =>
  (await fetch(url, { headers: { Connection: 'close' }, signal: AbortSignal.timeout(30_000) })).status;

function end(clients: Socket[]): void {
  for (const client of clients) client.destroy();
}
