import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Surroundings } from '../core/domains/record-checks.ts';
import type { Installation } from '../core/operations/doctor.ts';
import { KnownPolicies } from '../core/tls/tls-policies.ts';
import type { Keyring } from '../crypto/seal.ts';
import type { Database } from '../db/client.ts';
import type { PrivateNetworks } from '../ip.ts';
import type { Logger } from '../log.ts';
import { StartError } from '../process/start-error.ts';
import type { Stops } from '../process/stops.ts';
import { type Sandbox, startSandbox } from '../sandbox/sandbox.ts';
import { noPools, type SendingPools } from '../smtp/connections/sending-pools.ts';
import { publicSourceAddresses } from '../smtp/connections/source.ts';
import type { LookUpOptions } from '../smtp/dns/mx.ts';
import { isOwnAddress } from '../smtp/dns/own-address.ts';
import { createResolver, type Resolver, resolveWith } from '../smtp/dns/resolver.ts';
import { ValidatingResolver } from '../smtp/dns/validating-resolver.ts';
import { DanePolicies } from '../smtp/policies/dane-policies.ts';
import { fetchStsFile } from '../smtp/policies/sts-fetch.ts';
import { StsPolicies } from '../smtp/policies/sts-policies.ts';
import { TlsPolicies } from '../smtp/policies/tls-policies.ts';
import { machineOf } from './machine.ts';

/** Where names are looked up and mail goes: the sandbox's own internet, or the real one. */
export interface Internet {
  resolver: Resolver;
  mxPort: number;
  allowPrivate: PrivateNetworks;
  /** Public addresses that mail leaves from, as far as they are known. */
  knownIps: string[];
  /** Tells the sandbox where to send bounces and complaints, as it cannot look that up. */
  sendReturnsTo?: Sandbox['sendReturnsTo'];
}

/** @throws StartError if SENDING_IPS names an address of another machine */
export async function findInternet(
  config: Config,
  db: Database,
  log: Logger,
  returnPath: { key: Buffer; host: string },
  stops: Stops,
): Promise<Internet> {
  if (config.deliveryMode === 'direct') {
    if (config.roles.has('mta')) await demandOwn(config.sendingIps);
    return {
      resolver: createResolver(config.dnsServers),
      mxPort: config.mxPort,
      allowPrivate: config.allowPrivateNetworks,
      knownIps: config.sendingIps.length > 0 ? config.sendingIps : await publicSourceAddresses(),
    };
  }
  const sandbox = await startSandbox({ db, log, returnPath, mailHostname: config.mailHostname });
  stops.push(() => sandbox.stop());
  const { resolver, mxPort, sendReturnsTo } = sandbox;
  return { resolver, mxPort, sendReturnsTo, allowPrivate: true, knownIps: [] };
}

/** What the sandbox's own internet publishes is looked up like anything else; it has no DNSSEC. */
export function findTlsPolicies(
  config: Config,
  internet: Internet,
  { db, log, clock }: { db: Database; log: Logger; clock: Clock },
  stops: Stops,
): TlsPolicies {
  const { resolver, allowPrivate, mxPort } = internet;
  const sts = new StsPolicies({
    resolver,
    fetch: (domain, signal) => fetchStsFile({ resolver, allowPrivate }, domain, signal),
    store: new KnownPolicies(db),
    clock,
    log,
  });
  stops.push(async () => sts.close());
  const dane =
    config.daneResolver !== null && config.deliveryMode === 'direct'
      ? new DanePolicies(new ValidatingResolver(config.daneResolver), mxPort)
      : null;
  return new TlsPolicies({ sts, dane });
}

/** The sandbox has none: its mail does not leave this machine. */
export const poolsOf = (config: Config): SendingPools =>
  config.deliveryMode === 'direct' ? config.sendingPools : noPools;

/** How MX hosts are found, in the same way as by the transport. */
export const lookUpOf = (config: Config, { resolver, knownIps, allowPrivate }: Internet): LookUpOptions => ({
  resolver,
  ownHosts: [config.mailHostname, ...config.ehloNames.values()],
  ownAddresses: knownIps,
  allowPrivate,
});

/** What the verification of domains goes by. */
export const surroundingsOf = (config: Config, { resolver, knownIps }: Internet, keyring: Keyring): Surroundings => ({
  resolve: resolveWith(resolver),
  mailHostname: config.mailHostname,
  ehloNames: config.ehloNames,
  sendingIps: knownIps,
  keyring,
});

/** What the doctor examines. */
export const installationOf = (config: Config, { mxPort }: Internet): Installation => ({
  deliveryMode: config.deliveryMode,
  baseUrl: config.baseUrl,
  mxPort,
  blocklists: config.blocklists,
  daneResolver: config.daneResolver,
  ...machineOf(config),
});

/** From an address of another machine each delivery would fail, and the receivers would seem to be to blame. */
async function demandOwn(addresses: string[]): Promise<void> {
  for (const address of addresses) {
    if (await isOwnAddress(address)) continue;
    throw new StartError(
      `SENDING_IPS: ${address} is not an address of this machine: add it to a network interface, or remove it from the list; behind a NAT leave SENDING_IPS unset`,
    );
  }
}
