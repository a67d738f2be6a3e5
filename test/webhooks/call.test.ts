import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { systemClock } from '../../src/clock.ts';
import type { Call, Claim } from '../../src/core/webhooks/webhook-calls.ts';
import { sealContext } from '../../src/core/webhooks/webhooks.ts';
import { type EncryptionKey, Keyring, seal } from '../../src/crypto/seal.ts';
import { newId } from '../../src/ids.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import { Metrics } from '../../src/process/metrics.ts';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import { type CallTools, makeCall } from '../../src/webhooks/call.ts';
import { isSigned, startHook } from '../support/hook.ts';
import { eventually } from '../support/node.ts';

const never = new AbortController().signal;

/** A call to this URL that a node holds, and what it needs to make it. */
function prepare(url: string) {
  const claim: Claim = {
    ...{ nodeId: newId(), jobId: newId(), deliveryId: newId(), webhookId: newId(), accountId: newId() },
    failing: false,
  };
  const keyring = new Keyring(Buffer.alloc(32));
  const [key] = keyring.all as [EncryptionKey];
  const secret = `whsec_${randomBytes(24).toString('base64')}`;
  const call: Call = {
    ...{ event: 'email.sent', payload: '{}', attemptCount: 0, url, timesEnabled: 0 },
    sealedSecret: seal(key, Buffer.from(secret), sealContext(claim.webhookId)),
    sealedPreviousSecret: null,
  };
  const tools: CallTools = {
    poster: { resolver: createResolver(['127.0.0.1:9']), allowPrivate: true, timeoutMs: 600_000 },
    lease: { nodeId: claim.nodeId, onHold: false, valid: () => true },
    ...{ keyring, clock: systemClock, log: silentLog, metrics: new Metrics() },
  };
  return { claim, call, tools, secret };
}

t.test('a node makes no call that another may make, and none on hold', async (t) => {
  const hook = await startHook(t);
  const { claim, call, tools, secret } = prepare(hook.url);
  for (const [what, lease] of [
    ['without a lease', { ...tools.lease, valid: () => false }],
    ['claimed under a name that this node had before it was taken for dead', { ...tools.lease, nodeId: newId() }],
    ['a hold that began after the claim', { ...tools.lease, onHold: true }],
  ] as const) {
    const outcome = await makeCall({ ...tools, lease }, claim, call, never, null);
    t.match(outcome, { claim, made: null, status: 'pending', nextAttemptAt: Date }, what);
  }
  t.equal(hook.calls.length, 0);
  const outcome = await makeCall(tools, claim, call, never, null);
  t.match(outcome, { status: 'succeeded', made: { attemptCount: 1, endpoint: 'works' } });
  t.strictSame(
    hook.calls.map((made) => isSigned(made, secret)),
    [true],
  );
});

t.test('a call that a stop cuts short counts as not made, unless its answer has begun', async (t) => {
  const hook = await startHook(t, (call, _number, response) => {
    if (call.path === '/begun') response.writeHead(200, { 'Content-Length': 100 }).write('thanks');
    return undefined;
  });
  for (const [path, expected] of [
    ['/silent', { made: null, status: 'pending', nextAttemptAt: Date }],
    ['/begun', { status: 'succeeded', made: { attempt: { responseStatus: 200, responseBody: 'thanks' } } }],
  ] as const) {
    const { claim, call, tools } = prepare(`${hook.url}${path}`);
    const end = new AbortController();
    const outcome = makeCall(tools, claim, call, end.signal, null);
    await eventually(async () => hook.calls.some((made) => made.path === path));
    // Until what was written has been read.
    await sleep(500);
    end.abort();
    t.match(await outcome, expected, path);
  }
});

t.test('a call that cannot be signed is explained in the log, and says nothing about its endpoint', async (t) => {
  const hook = await startHook(t);
  const { claim, call, tools } = prepare(hook.url);
  const said: unknown[][] = [];
  const log = { error: (...all: unknown[]) => said.push(all) } as unknown as Logger;
  const sealedPreviousSecret = prepare(hook.url).call.sealedSecret;
  const outcome = await makeCall({ ...tools, log }, claim, { ...call, sealedPreviousSecret }, never, null);
  const made = {
    endpoint: 'unknown',
    attempt: { responseStatus: null, error: 'the call could not be made; the log of the server says why' },
  };
  t.match(outcome, { status: 'pending', made });
  t.match(said, [[{ deliveryId: claim.deliveryId, error: /Error/ }, 'a webhook call could not be made']]);
  t.equal(hook.calls.length, 0);
});
