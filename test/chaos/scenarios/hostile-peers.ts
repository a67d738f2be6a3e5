import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { startHook } from '../../support/hook.ts';
import { eventually } from '../../support/node.ts';
import { type Alone, at, change, healthy, memoryOf, withNodeAlone } from '../alone.ts';
import type { Scenario } from '../run.ts';

/** The accounts of the crowd: each has as many endpoints as an account may, and mail for as many sites. */
const accounts = 15;
const endpointsOfEach = 20;
const sitesOfEach = 20;
const mailsForSite = 2;
const samples = 600;
/** All calls to the crowd fail at once when it is gone, and its mail is retried. */
const settleMs = 30_000;
/** On an otherwise idle machine. */
const mostSlower = 1.2;
const crowdAddress = '127.0.0.2';
/** The number of connections to hold before measuring. */
const enough = { servers: 300, calls: 40 };

/** DOS-08 and WH-06 from the other side: how much peers that keep us waiting slow down the others. */
export const hostilePeers: Scenario = {
  name: 'hostile-peers',
  what: 'hundreds of receiving servers and endpoints that are slow, endless or lie, and how long healthy mail and calls take meanwhile',
  quick: 1,
  long: true,
  run: (run) =>
    withNodeAlone(run, { RETRY_SCHEDULE: '20s' }, async (alone) => {
      const closings: (() => Promise<void>)[] = [];
      const called = new Map<string, number>();
      const hook = await startHook({ teardown: (work) => void closings.push(work) }, ({ json }) => {
        called.set(json.data.email_id, performance.now());
        return 200;
      });
      const { node, token, figures, findings } = alone;
      await node.call('POST', '/api/v1/webhooks', { token, body: { url: hook.url, events: ['email.queued'] } });
      await measure(alone, called, 'warm', 50);
      const before = await measure(alone, called, 'before', samples);
      run.say('gathering the crowd');
      const crowd = await gather(alone);
      await eventually(async () => crowd.now.servers >= enough.servers && crowd.now.calls >= enough.calls, 60_000);
      run.say(`measuring with ${crowd.now.servers} servers and ${crowd.now.calls} calls`);
      const during = await measure(alone, called, 'during', samples);
      figures['connections to servers and endpoints of the crowd at the end'] =
        `${crowd.now.servers} and ${crowd.now.calls}`;
      figures['memory of the process, MB'] = await memoryOf(node.pid);
      crowd.disperse();
      run.say('waiting for their leftovers to pass');
      await sleep(settleMs);
      const after = await measure(alone, called, 'after', samples);
      for (const kind of ['mail', 'calls'] as const) {
        const alike = [...before[kind], ...after[kind]];
        const [control, beside] = [at(alike, 0.5), at(during[kind], 0.5)];
        figures[`${kind}, ms from the 200, median (p95): alone`] =
          `${control.toFixed(1)} (${at(alike, 0.95).toFixed(1)}); before ${at(before[kind], 0.5).toFixed(1)}, after ${at(after[kind], 0.5).toFixed(1)}`;
        figures[`${kind}, ms from the 200, median (p95): with the crowd`] =
          `${beside.toFixed(1)} (${at(during[kind], 0.95).toFixed(1)}), ${change(control, beside)}`;
        if (beside > control * mostSlower)
          findings.push({
            rule: 'A10',
            what: `${kind} took ${change(control, beside)} with the crowd; was the machine idle?`,
          });
      }
      for (const close of closings) await close();
    }),
};

/** One email after another: the time from its 200 to the receiving server, and to the endpoint, in ms. */
async function measure({ node, key, arrivals }: Alone, called: Map<string, number>, name: string, count: number) {
  const took = { mail: [] as number[], calls: [] as number[] };
  for (let n = 0; n < count; n += 1) {
    const subject = `${name}${n}`;
    const answer = await node.call('POST', '/api/v1/emails', { key, body: healthy(subject) });
    const answered = performance.now();
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    const { id } = answer.body.email;
    await eventually(async () => arrivals.has(subject) && called.has(id), 30_000);
    took.mail.push(Math.max(0, (arrivals.get(subject)?.[0] ?? 0) - answered));
    took.calls.push(Math.max(0, (called.get(id) ?? 0) - answered));
  }
  return took;
}

/** Accounts with endpoints of the crowd, and mail for its servers. */
async function gather({ node, zone, token, mxPort }: Alone) {
  const child = fork(new URL('../crowd.ts', import.meta.url), [crowdAddress, String(mxPort)], {
    execArgv: ['--no-warnings'],
  });
  const now = { servers: 0, calls: 0 };
  const [{ endpoints }] = (await once(child, 'message')) as [{ endpoints: number }];
  child.on('message', (held: typeof now) => Object.assign(now, held));
  for (let n = 0; n < accounts; n += 1) {
    const domain = `crowd${n}.test`;
    const mine = await join(node, zone, token, domain);
    for (let at = 0; at < endpointsOfEach; at += 1) {
      const url = `http://${crowdAddress}:${endpoints}/${at}`;
      await mine.post('/api/v1/webhooks', { url, events: ['email.queued'] });
    }
    const emails = Array.from({ length: sitesOfEach * mailsForSite }, (_, at) => {
      const site = `site${n}-${at % sitesOfEach}.test`;
      zone.set(site, { A: [crowdAddress] });
      return { from: `a@${domain}`, to: `b@${site}`, subject: `crowd${n}-${at}`, text: 'x' };
    });
    await mine.post('/api/v1/emails/batch', { emails });
  }
  return { now, disperse: () => void child.disconnect() };
}

/** A new account, created by the operator, with a verified domain. */
async function join(node: Alone['node'], zone: Alone['zone'], token: string, domain: string) {
  const login = { email: `a@${domain}`, password: 'a password that is long' };
  await call(node, token, '/api/v1/admin/accounts', { name: domain, ...login, plan: 'unlimited' });
  const own = (await call(node, undefined, '/api/v1/auth/login', login)).token;
  const added = await call(node, own, '/api/v1/domains', { domain });
  for (const { name, value } of Object.values(added.dns_records) as { name: string; value: string }[])
    zone.set(name, { TXT: [value] });
  await call(node, own, `/api/v1/domains/${added.domain.id}/verify`, undefined);
  const { key } = await call(node, own, '/api/v1/keys', { name: 'crowd' });
  return { post: (path: string, body: unknown) => call(node, own, path, body, key) };
}

async function call(node: Alone['node'], token: string | undefined, path: string, body: unknown, key?: string) {
  const credentials = path.includes('/emails') ? { key } : { token };
  const answer = await node.call('POST', path, { ...credentials, body });
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}
