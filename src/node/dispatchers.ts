import { startTlsReports } from '../chores/tls-reports.ts';
import type { Config } from '../config.ts';
import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import { Unanswered } from '../core/nodes/unanswered.ts';
import type { TokenKeys } from '../core/secrets/service-secrets.ts';
import { record as recordTlsResults } from '../core/tls/tls-results.ts';
import type { Keyring } from '../crypto/seal.ts';
import type { Database } from '../db/client.ts';
import { Journal } from '../delivery/attempt/journal.ts';
import type { Lease } from '../delivery/claims/lease.ts';
import { Dispatcher } from '../delivery/dispatch.ts';
import { MessageBuilder } from '../delivery/message/message.ts';
import { letPoolGiveWay } from '../delivery/message/thread-pool.ts';
import { createRecorder } from '../delivery/outcome/record.ts';
import { Standing } from '../delivery/outcome/standing.ts';
import { SourceAddresses } from '../delivery/pools/source-addresses.ts';
import type { Provider } from '../delivery/sites/providers.ts';
import { addUpkeep } from '../delivery/upkeep.ts';
import type { Logger } from '../log.ts';
import type { Rounds } from '../pace/rounds.ts';
import type { Metrics } from '../process/metrics.ts';
import type { Lifetime, Stops } from '../process/stops.ts';
import type { Queue } from '../queue.ts';
import { createTransport, type Transport } from '../smtp/deliver.ts';
import { createResolver } from '../smtp/dns/resolver.ts';
import type { TlsPolicies } from '../smtp/policies/tls-policies.ts';
import { TlsResults } from '../smtp/reports/tls-results.ts';
import { WebhookDispatcher } from '../webhooks/dispatch.ts';
import { addUpkeep as addWebhookUpkeep } from '../webhooks/upkeep.ts';
import { type Internet, poolsOf } from './internet.ts';
import { journalFolder, retryPolicy } from './journals.ts';
import { type Siblings, shareWork } from './siblings.ts';

/** What the dispatchers of a node are made of. */
export interface DispatcherParts {
  config: Config;
  foundation: { keyring: Keyring; log: Logger; siblings?: Siblings };
  db: Database;
  queue: Queue;
  metrics: Metrics;
  tokenKeys: TokenKeys;
  returnPath: { key: Buffer; host: string };
  internet: Internet;
  tlsPolicies: TlsPolicies;
  rounds: Rounds;
  providers: readonly Provider[];
  lease: Lease;
  fresh: FreshBodies;
}

/** A process that is killed loses the TLS-RPT numbers of this time. */
const tlsResultsMs = 30_000;

/** Left to what a node ends after its dispatchers, which says goodbye to the database. */
const goodbyeMs = 3_000;

/** Starts what this node's roles ask for: delivering mail, calling webhooks. Both need its lease. */
export async function startDispatchers(parts: DispatcherParts, life: Lifetime): Promise<void> {
  const { config, foundation, queue } = parts;
  const { siblings, log } = foundation;
  if (siblings) {
    shareWork('mail', queue, siblings);
    shareWork('webhooks', queue.webhooks, siblings);
  }
  const dispatchers: { stop(withinMs: number): Promise<void> }[] = [];
  if (config.roles.has('mta')) {
    await letPoolGiveWay(log);
    life.goOn();
    dispatchers.push(startDelivery(parts, life.stops));
  }
  if (config.roles.has('webhooks')) dispatchers.push(startWebhooks(parts));
  // At the same time: each may need most of the time that there is.
  life.stops.push(() => Promise.all(dispatchers.map((dispatcher) => dispatcher.stop(life.leftMs - goodbyeMs))));
}

function startDelivery(parts: DispatcherParts, stops: Stops): Dispatcher {
  const { config, foundation, db, queue, rounds, providers, lease, metrics } = parts;
  const { log } = foundation;
  const transport = openTransport(parts, stops);
  sendTlsReports(parts, transport, stops);
  const journal = new Journal(journalFolder(config), log);
  stops.push(async () => journal.close());
  const dispatcher = new Dispatcher(db, queue, {
    tools: toolsOf(parts, transport, journal),
    standing: new Standing(db, transport, providers, { ...backoff(config), nodes: () => lease.senders }),
    sources: new SourceAddresses(db, poolsOf(config), log, lease.clock),
    recorder: createRecorder(db, queue, log),
  });
  metrics.nameProviders(providers.map(({ name }) => name));
  metrics.watchClaims('mail', () => dispatcher.inHand);
  dispatcher.start();
  addUpkeep(rounds, db, queue, log, () => dispatcher.supplied);
  return dispatcher;
}

function openTransport(parts: DispatcherParts, stops: Stops) {
  const { config, foundation, db, rounds, internet, tlsPolicies, lease } = parts;
  const tlsResults = new TlsResults();
  const recordResults = () => recordTlsResults(db, tlsResults, lease.clock.now());
  stops.push(recordResults);
  rounds.every(tlsResultsMs, 'TLS results', recordResults);
  const transport = createTransport({
    resolver: internet.resolver,
    ehloName: config.mailHostname,
    ehloNames: config.ehloNames,
    mxPort: internet.mxPort,
    allowPrivate: internet.allowPrivate,
    sendingIps: config.deliveryMode === 'direct' ? config.sendingIps : [],
    ownAddresses: internet.knownIps,
    tlsPolicies,
    tlsResults,
    clock: lease.clock,
    log: foundation.log,
  });
  stops.push(() => transport.close());
  return transport;
}

function sendTlsReports({ config, foundation, db, rounds }: DispatcherParts, transport: Transport, stops: Stops): void {
  if (!config.tlsReports) return;
  const { contact } = config.tlsReports;
  const { keyring, log } = foundation;
  const reports = startTlsReports(rounds, db, { transport, contact, keyring, pools: poolsOf(config), log });
  stops.push(() => reports.close());
}

function toolsOf(parts: DispatcherParts, transport: Transport, journal: Journal) {
  const { config, foundation, db, tokenKeys, fresh, lease, returnPath, metrics } = parts;
  return {
    transport,
    messages: new MessageBuilder(foundation.keyring, {
      key: tokenKeys.unsubscribe,
      baseUrl: config.baseUrl,
      host: config.mailHostname,
    }),
    fresh,
    lease,
    clock: lease.clock,
    journal,
    unanswered: new Unanswered(db),
    policy: retryPolicy(config),
    returnPath,
    log: foundation.log,
    metrics,
  };
}

/** A site is asked again no later than mail that waits for it would be retried. */
const backoff = ({ retryScheduleMs }: Config) => ({
  backoffMs: Math.min(30_000, retryScheduleMs[0] ?? 30_000),
  longestMs: Math.min(900_000, retryScheduleMs.at(-1) ?? 900_000),
});

function startWebhooks({ config, foundation, db, queue, rounds, lease, metrics }: DispatcherParts): WebhookDispatcher {
  const { log, keyring } = foundation;
  // The sandbox's DNS knows only mail; endpoints are where they are in either mode.
  const poster = { resolver: createResolver(config.dnsServers), allowPrivate: config.allowPrivateNetworks };
  const dispatcher = new WebhookDispatcher(db, queue, { poster, keyring, lease, clock: lease.clock, log, metrics });
  metrics.watchClaims('webhooks', () => dispatcher.inHand);
  dispatcher.start();
  addWebhookUpkeep(rounds, db, queue, log);
  return dispatcher;
}
