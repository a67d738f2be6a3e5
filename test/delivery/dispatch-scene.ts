import type { Test } from 'tap';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import type { Claim } from '../../src/core/recipients/recipients.ts';
import type { Database } from '../../src/db/client.ts';
import { Dispatcher } from '../../src/delivery/dispatch.ts';
import type { Recorder } from '../../src/delivery/outcome/record.ts';
import type { Standing } from '../../src/delivery/outcome/standing.ts';
import type { SourceAddresses } from '../../src/delivery/pools/source-addresses.ts';
import { defaultLimits, type Limits } from '../../src/delivery/sites/limits.ts';
import type { Throttle } from '../../src/delivery/sites/throttle.ts';
import { silentLog } from '../../src/log.ts';
import type { Queue } from '../../src/queue.ts';
import type { Failure } from '../../src/smtp/replies/result.ts';

const nothing = async () => undefined;

/** A dispatcher over a database that does only what it is told; every site has all that it may have. */
export function startDispatcher(
  t: Test,
  db: Partial<Record<'transaction' | 'query', (...told: never[]) => unknown>>,
  {
    readOrders = nothing,
    report = nothing,
    exchange = nothing,
    noteDeliveries = nothing,
    giveBack = nothing,
    onWake = () => undefined,
    throttle = {},
    standing = {},
    tools = {},
    recorder = {},
    areOne = true,
    limits = defaultLimits,
  }: Partial<
    Record<'readOrders' | 'report' | 'exchange' | 'noteDeliveries' | 'giveBack', () => Promise<void>> & {
      onWake: Queue['onWake'];
      throttle: Partial<Throttle>;
      standing: Partial<Standing>;
      tools: { messages?: object };
      recorder: Partial<Recorder>;
      areOne: boolean;
      limits: Limits;
    }
  > = {},
) {
  const lease = { nodeId: 'n', onHold: false, valid: () => true };
  const patience: number[] = [];
  const dispatcher = new Dispatcher(
    { query: async () => [], ...db } as unknown as Database,
    { onWake } as unknown as Queue,
    {
      tools: {
        log: silentLog,
        clock: { now: () => new Date() },
        policy: { scheduleMs: [], forMs: 0 },
        lease,
        fresh: new FreshBodies(),
        journal: { recorded: () => undefined },
        metrics: { attempted: () => undefined },
        ...tools,
      } as unknown as ConstructorParameters<typeof Dispatcher>[2]['tools'],
      standing: {
        readOrders,
        report,
        noteDeliveries,
        siteOf: async (name: string) => ({ name, connections: 1, perMinute: null, perConnection: null }),
        throttle: {
          turn: () => ({ when: 'after another' }),
          waitFor: () => 0,
          record: () => ({ proven: true, running: 1 }),
          describe: () => '',
          connections: () => 2,
          begin: () => ({}),
          end: () => undefined,
          cancel: () => undefined,
          ...throttle,
        },
        ...standing,
      } as unknown as Standing,
      sources: {
        exchange,
        giveBack,
        areOne,
        choose: async (wants: unknown[]) => wants.map(() => ({ source: null })),
      } as unknown as SourceAddresses,
      recorder: {
        giveUpAfter: (ms: number) => patience.push(ms),
        add: async () => true,
        ...recorder,
      } as unknown as Recorder,
    },
    limits,
  );
  dispatcher.start();
  let stopping: Promise<void> | undefined;
  const stop = (withinMs?: number) => {
    stopping ??= dispatcher.stop(withinMs);
    return stopping;
  };
  t.teardown(() => stop());
  return { dispatcher, lease, patience, stop };
}

/** What a database answers that holds these claims' jobs, and their emails, which were due long ago and may be sent. */
export function databaseWith(claims: Claim[], bytes = 1) {
  const batches = [claims];
  const rowOf = (id: string) => ({
    ...{ id, account_id: 'account', type: 'transactional', from: 'a@sender.test', to: [], cc: [], reply_to: [] },
    ...{ subject: '', message_id: '', on_uncertain: 'retry', tls: 'opportunistic', domain_tls: null, pool: null },
    ...{ html: null, text: '', fresh: false, body_bytes: bytes, file_bytes: 0, headers: [], attachments: [] },
    ...{ due_at: new Date(0), domain_id: 'domain', domain: 'sender.test', dkim_selector: 's' },
    ...{ dkim_private_key: Buffer.alloc(1), second_selector: null, second_key: null },
    ...{ revoked: false, suspended: false, suppressed: [] },
  });
  return {
    transaction: async () => {
      const claims = batches.shift() ?? [];
      return { taken: claims.length, claims };
    },
    query: async ({ text, values }: { text: string; values: [string[]] }) =>
      text.includes('due_at') ? values[0].map(rowOf) : [],
  };
}

export const unreached: Failure = {
  phase: 'connect',
  reply: null,
  reason: 'it did not answer',
  enhanced: null,
  class: 'network',
  permanent: false,
};
