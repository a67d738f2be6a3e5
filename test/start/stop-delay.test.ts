import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { WindingDown } from '../../src/delivery/outcome/winding-down.ts';
import { StopDelay } from '../../src/process/stop-delay.ts';
import { createDatabase } from '../support/db.ts';
import { startTestNode, testEnv } from '../support/node.ts';
import { runSendwright, type SendwrightProcess } from '../support/process.ts';

const isEnded = Symbol('ended');

async function start(t: Test, env: Record<string, string> = {}): Promise<SendwrightProcess> {
  const app = await runSendwright({ ...testEnv(await createDatabase()), ROLES: 'api', STOP_DELAY: '10s', ...env });
  if (!('pid' in app)) throw new Error(app.stderr);
  t.teardown(() => app.end('SIGKILL'));
  return app;
}

/** What `/readyz` says once it no longer says that the node is ready. */
async function notReady(app: SendwrightProcess): Promise<number | string> {
  for (;;) {
    const answer = await app.call('GET', '/readyz').catch(({ cause, message }) => cause?.code ?? message);
    if (typeof answer === 'string') return answer;
    if (answer.status !== 200) return answer.status;
    await pause(10);
  }
}

t.test('after SIGTERM a node is not ready, and works on until its delay is over or cut', async (t) => {
  const app = await start(t);
  const { token } = (
    await app.call('POST', '/api/v1/auth/login', {
      body: { email: 'admin@example.test', password: 'correct horse battery staple' },
    })
  ).body;
  const begun = performance.now();
  const ended = app.end('SIGTERM');
  t.equal(await notReady(app), 503);
  await pause(1_500);
  t.equal((await app.call('GET', '/healthz')).status, 200, 'it is alive, and is not to be started again');
  const added = await app.call('POST', '/api/v1/suppressions', { token, body: { address: 'late@one.test' } });
  t.equal(added.status, 200, 'what a balancer still sends is answered');
  t.equal(await Promise.race([ended, Promise.resolve(isEnded)]), isEnded, 'one that comes late finds it open');
  process.kill(app.pid, 'SIGTERM');
  t.equal(await ended, 0);
  t.ok(performance.now() - begun < 9_000, 'a second signal does not wait');
  t.notMatch(app.stdout(), /"level":[456]0/, 'nothing is wrong');
  t.match(app.stderr(), /SIGTERM: the ports close in 10 s; then finishing the work in progress\n/);
});

t.test('Ctrl-C ends a node without a delay, and the end of a delay ends it', async (t) => {
  const [pressed, waited] = await Promise.all([start(t), start(t, { STOP_DELAY: '2s' })]);
  let begun = performance.now();
  t.equal(await pressed.end('SIGINT'), 0);
  t.ok(performance.now() - begun < 9_000);
  begun = performance.now();
  t.equal(await waited.end('SIGTERM'), 0);
  t.ok(performance.now() - begun >= 2_000);
});

t.test('the workers of a node wait together, and Ctrl-C of the first one is for all', async (t) => {
  const env = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.test', WORKERS: '2' };
  const [app, pressed] = await Promise.all([start(t, env), start(t, env)]);
  let begun = performance.now();
  t.equal(await pressed.end('SIGINT'), 0);
  t.ok(performance.now() - begun < 9_000, 'without a delay');
  begun = performance.now();
  const ended = app.end('SIGTERM');
  t.equal(await notReady(app), 503);
  for (const _ of [1, 2, 3, 4]) t.equal(await notReady(app), 503, 'each of them says so');
  await pause(1_500);
  process.kill(app.pid, 'SIGTERM');
  t.equal(await ended, 0);
  t.ok(performance.now() - begun < 9_000, 'a second signal is passed on');
});

t.test('what was spent on the delay is taken from what is under way', async (t) => {
  const delay = new StopDelay(300);
  const node = await startTestNode(t, {}, { delay });
  t.match(await node.call('GET', '/readyz'), { status: 200 }, 'before it is to stop');
  const stopped = node.stop();
  t.match(await node.call('GET', '/readyz'), { status: 503 });
  await stopped;
  t.ok(delay.isStopping);
  await t.rejects(node.call('GET', '/healthz'), 'the port is closed');

  const windingDown = new WindingDown({ drainMs: 20_000, answerMs: 10_000 });
  windingDown.begin(11_000);
  t.equal(windingDown.drainMs, 11_000);
  t.equal(windingDown.late, false, 'final dots are sent for 5.5 seconds, and answers awaited for as long');
  windingDown.done();
  const spent = new WindingDown({ drainMs: 20_000, answerMs: 10_000 });
  spent.begin(0);
  await pause(10);
  t.equal(spent.late, true);
  spent.done();
});
