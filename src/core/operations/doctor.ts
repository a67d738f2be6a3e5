import type { CertificateFiles } from '../../crypto/certificate.ts';
import type { Database } from '../../db/client.ts';
import { within } from '../../pace/within.ts';
import { type Greeted, greetedBy } from '../../smtp/connections/greeting.ts';
import { type LookUpOptions, resolveDestination } from '../../smtp/dns/mx.ts';
import * as domains from '../domains/domains.ts';
import type { Surroundings } from '../domains/record-checks.ts';
import {
  checkBaseUrl,
  checkCertificate,
  checkClock,
  checkDisk,
  checkDurability,
  checkRights,
} from './doctor-machine.ts';
import {
  checkBlocklists,
  checkDaneResolver,
  checkDomains,
  checkEhloNames,
  checkReturnPath,
  checkReverse,
  seenAddresses,
} from './doctor-names.ts';
import { about, type CheckName, type Finding } from './finding.ts';

/** What the configuration says about this machine. */
export interface Machine {
  dataDir: string;
  /** Whether the database is the one in `dataDir`. */
  embedded: boolean;
  /** The files of the SMTP servers' certificate; null: they have one of our own, or there are none here. */
  smtpCertificate: CertificateFiles | null;
}

/** What the configuration says about this installation. */
export interface Installation extends Machine {
  deliveryMode: 'sandbox' | 'direct';
  baseUrl: string;
  mxPort: number;
  /** Zones of DNS blocklists that the sending addresses are looked up in. */
  blocklists: string[];
  /** The resolver that TLSA records are asked of; null: DANE is not used. */
  daneResolver: string | null;
}

export interface Patient {
  db: Database;
  surroundings: Surroundings;
  lookUp: LookUpOptions;
  installation: Installation;
}

/** The time for all checks. A check that has no answer after it is `unknown`. */
const allMs = 25_000;

/** The same for those of the machine, which answer in milliseconds. */
const machineMs = 5_000;

/** The most sending domains that are searched for an MX host. */
const mostAsked = 5;

/** A check, with the subject of its findings if it fails or has no answer in time. */
interface Check {
  name: CheckName;
  subject: string;
  run: () => Promise<Finding[]> | Finding[];
}

/**
 * Checks everything that has to be right before mail goes out to the internet. It connects only to the database and to one
 * MX host: the given one, or an MX host of one of our domains.
 *
 * @param mxHost whose port 25 is tried; null: the first MX host of a verified domain that is not this server
 * @param onProgress is told how many of how many checks are done
 * @param namedWith how whoever reads the advice names an MX host, if that is not plain to see: `with --mx`
 * @returns the findings of all checks; it does not throw when something outside is wrong
 */
export async function examine(
  patient: Patient,
  mxHost: string | null,
  { withinMs = allMs, onProgress = (_done: number, _all: number) => {}, namedWith = '' } = {},
): Promise<Finding[]> {
  return run(checksOf(patient, { mxHost, naming: namedWith && ` ${namedWith}` }), withinMs, onProgress);
}

/**
 * Checks what can go wrong on this machine while the service runs, and needs no other server than the database: the clock,
 * the disk, the rights in the database and the certificate. It takes a moment, so it can be asked again and again.
 *
 * @returns the findings; it does not throw
 */
export function examineMachine(db: Database, machine: Machine): Promise<Finding[]> {
  const { clock, disk, rights, certificate } = machineChecksOf(db, machine);
  return run([clock, disk, rights, ...certificate], machineMs);
}

async function run(
  checks: Check[],
  withinMs: number,
  onProgress: (done: number, all: number) => void = () => {},
): Promise<Finding[]> {
  let done = 0;
  const found = await Promise.all(
    checks.map(async (check) => {
      const findings = (await within(withinMs, findingsOf(check), null)) ?? [unanswered(check, withinMs)];
      done += 1;
      onProgress(done, checks.length);
      return findings;
    }),
  );
  return found.flat();
}

/** An MX host that was asked for, and how another one is. */
interface Given {
  mxHost: string | null;
  naming: string;
}

function machineChecksOf(db: Database, { dataDir, embedded, smtpCertificate: files }: Machine) {
  const clock: Check = { name: 'clock', subject: 'this machine', run: () => checkClock(db) };
  const disk: Check = { name: 'disk_space', subject: dataDir, run: () => checkDisk(dataDir, embedded) };
  const rights: Check = { name: 'database_rights', subject: 'the database', run: () => checkRights(db) };
  const certificate: Check[] =
    files === null ? [] : [{ name: 'smtp_certificate', subject: files.cert, run: () => checkCertificate(files) }];
  return { clock, disk, rights, certificate };
}

function checksOf(patient: Patient, given: Given): Check[] {
  const { db, surroundings, lookUp, installation } = patient;
  const { mailHostname } = surroundings;
  const { resolver } = lookUp;
  const { deliveryMode, baseUrl, blocklists, daneResolver } = installation;
  const { clock, disk, rights, certificate } = machineChecksOf(db, installation);
  const always: Check[] = [
    clock,
    disk,
    { name: 'database_durability', subject: 'the database', run: () => checkDurability(db) },
    rights,
    { name: 'domain', subject: 'all domains', run: () => checkDomains(db, surroundings) },
  ];
  if (deliveryMode === 'sandbox') {
    const { problem } = about('delivery_mode', deliveryMode);
    const advice =
      'To send mail, set DELIVERY_MODE=direct, MAIL_HOSTNAME and BASE_URL, and run this again before you start the service.';
    const finding = problem('No mail leaves this machine.', advice);
    return [{ name: 'delivery_mode', subject: deliveryMode, run: () => [finding] }, ...always];
  }
  // Looked up once, within the time of the checks that need it.
  const seen = seenAddresses(surroundings, resolver);
  const ofEach = async (check: (ip: string) => Promise<Finding[]>) =>
    (await Promise.all((await seen).map(check))).flat();
  const ips = 'sending addresses';
  const dane: Check[] =
    daneResolver === null
      ? []
      : [{ name: 'dane_resolver', subject: daneResolver, run: () => checkDaneResolver(daneResolver) }];
  return [
    ...always,
    { name: 'outbound_port_25', subject: given.mxHost ?? 'an MX host', run: () => checkPort25(patient, given) },
    { name: 'mail_hostname', subject: mailHostname, run: () => checkEhloNames(surroundings, resolver) },
    { name: 'reverse_dns', subject: ips, run: () => ofEach((ip) => checkReverse(ip, surroundings, resolver)) },
    { name: 'blocklist', subject: ips, run: () => ofEach((ip) => checkBlocklists(ip, blocklists, resolver)) },
    {
      name: 'return_path',
      subject: mailHostname,
      run: async () => checkReturnPath(await seen, surroundings, resolver),
    },
    ...dane,
    { name: 'base_url', subject: baseUrl, run: () => checkBaseUrl(baseUrl) },
    ...certificate,
  ];
}

/** Runs a check. One that fails is `unknown`. */
async function findingsOf({ name, subject, run }: Check): Promise<Finding[]> {
  try {
    return await run();
  } catch (error) {
    const { unknown } = about(name, subject);
    const found = `The check failed (${(error as Error).message.slice(0, 200)}).`;
    return [unknown(found, 'Run this again; the log of the server may say more.')];
  }
}

const unanswered = ({ name, subject }: Check, ms: number): Finding =>
  about(name, subject).unknown(`There was no answer within ${Math.round(ms / 1_000)} s.`, 'Run this again.');

/** True when nothing is in the way of mail: no finding is a `problem` or `unknown`. */
export const isWell = (findings: Finding[]): boolean =>
  findings.every(({ health }) => health === 'ok' || health === 'note');

async function checkPort25(patient: Patient, { mxHost, naming }: Given): Promise<Finding[]> {
  const { surroundings, lookUp, installation } = patient;
  const port = installation.mxPort;
  const host = mxHost ?? (await hostOfOurs(patient));
  if (host === null) {
    const { unknown } = about('outbound_port_25', `port ${port}`);
    return [
      unknown(
        'None of your domains has an MX host elsewhere to try.',
        `Name an MX host to test${naming}, such as that of your own mailbox.`,
      ),
    ];
  }
  const from = surroundings.sendingIps.length > 0 ? surroundings.sendingIps : [null];
  return Promise.all(
    from.map(async (ip): Promise<Finding> => {
      const subject = `${host}:${port}${ip === null ? '' : ` from ${ip}`}`;
      return findingOf(subject, await greetedBy(host, ip, { port, lookUp }), naming);
    }),
  );
}

function findingOf(subject: string, greeted: Greeted, naming: string): Finding {
  const { ok, problem, unknown } = about('outbound_port_25', subject);
  if (greeted.kind === 'greeted') return ok(`${greeted.address} greets with ${greeted.greeting}`);
  if (greeted.kind === 'unresolved') return unknown(greeted.reason, `Name another MX host to test${naming}.`);
  return problem(
    `The host ${greeted.reason}.`,
    'Ask the provider of this machine to open outbound port 25, and check that no firewall of yours blocks it.',
  );
}

/** The first MX host of a domain that can send: our own user's mail server, so no stranger is bothered. */
async function hostOfOurs({ db, lookUp }: Patient): Promise<string | null> {
  for (const { domain } of await domains.listAll(db, { limit: mostAsked, verified: true })) {
    const found = await resolveDestination(domain, lookUp);
    const host = found.kind === 'hosts' ? found.hosts[0] : undefined;
    if (host) return host.name;
  }
  return null;
}
