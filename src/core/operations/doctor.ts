import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../db/client.ts';
import { type Greeted, greetedBy } from '../../smtp/greeting.ts';
import { type LookUpOptions, resolveDestination } from '../../smtp/mx.ts';
import * as domains from '../domains/domains.ts';
import type { Surroundings } from '../domains/record-checks.ts';
import { checkBaseUrl, checkClock, checkDisk, checkDurability } from './doctor-machine.ts';
import {
  checkBlocklists,
  checkDomains,
  checkMailHostname,
  checkReturnPath,
  checkReverse,
  seenAddresses,
} from './doctor-names.ts';
import { about, type CheckName, type Finding } from './finding.ts';

/** What the configuration says about this installation. */
export interface Installation {
  deliveryMode: 'sandbox' | 'direct';
  baseUrl: string;
  dataDir: string;
  /** Whether the database is the one in `dataDir`. */
  embedded: boolean;
  mxPort: number;
  /** Zones of DNS blocklists that the sending addresses are looked up in. */
  blocklists: string[];
}

export interface Patient {
  db: Database;
  surroundings: Surroundings;
  lookUp: LookUpOptions;
  installation: Installation;
}

/** The time for all checks; a check without an answer by then is `unknown`. */
const allMs = 25_000;

/** The most sending domains that are searched for an MX host. */
const mostAsked = 5;

/**
 * Checks everything that has to be right before mail goes out to the internet. It connects only to the database and to one
 * MX host: the given one, or that of one of our domains.
 *
 * @param mxHost whose port 25 is tried; null: the first MX host of a verified domain that is not this server
 * @param onProgress is told how many of how many checks are done
 * @returns findings in the order of `checkNames`; it does not throw when something outside is wrong
 */
export async function examine(
  patient: Patient,
  mxHost: string | null,
  { withinMs = allMs, onProgress = (_done: number, _all: number) => {} } = {},
): Promise<Finding[]> {
  const { db, surroundings, lookUp, installation } = patient;
  const { resolver } = lookUp;
  const { deliveryMode, baseUrl, dataDir, embedded, blocklists } = installation;
  const looks: [check: CheckName, subject: string, look: () => Promise<Finding[]> | Finding[]][] = [
    ['clock', 'this machine', () => checkClock(db)],
    ['disk_space', dataDir, () => checkDisk(dataDir, embedded)],
    ['database_durability', 'the database', () => checkDurability(db)],
    ['domain', 'all domains', () => checkDomains(db, surroundings)],
  ];
  if (deliveryMode === 'sandbox') {
    const { problem } = about('delivery_mode', deliveryMode);
    const advice =
      'To send mail, set DELIVERY_MODE=direct, MAIL_HOSTNAME and BASE_URL, and run this again before you start the service.';
    looks.unshift(['delivery_mode', deliveryMode, () => [problem('No mail leaves this machine.', advice)]]);
  } else {
    // These names are looked up once, within the time of the checks that need them.
    const seen = seenAddresses(surroundings, resolver);
    const ofEach = async (look: (ip: string) => Promise<Finding[]>) =>
      (await Promise.all((await seen).ips.map(look))).flat();
    looks.push(
      ['outbound_port_25', mxHost ?? 'an MX host', () => checkPort25(patient, mxHost)],
      ['mail_hostname', surroundings.mailHostname, () => checkMailHostname(surroundings, resolver)],
      ['reverse_dns', 'sending addresses', () => ofEach((ip) => checkReverse(ip, surroundings, resolver))],
      ['blocklist', 'sending addresses', () => ofEach((ip) => checkBlocklists(ip, blocklists, resolver))],
      ['return_path', surroundings.mailHostname, async () => checkReturnPath((await seen).ips, surroundings, resolver)],
      ['base_url', baseUrl, () => checkBaseUrl(baseUrl)],
    );
  }
  const late = new AbortController();
  let finished = 0;
  const found = await Promise.all(
    looks.map(async ([check, subject, look]) => {
      const { unknown } = about(check, subject);
      const tooLate = sleep(withinMs, null, { signal: late.signal }).then(
        () => [unknown(`There was no answer within ${Math.round(withinMs / 1_000)} s.`, 'Run this again.')],
        () => [],
      );
      const looked = Promise.resolve()
        .then(look)
        .catch((error: Error) => [
          unknown(
            `The check failed (${error.message.slice(0, 200)}).`,
            'Run this again; the log of the server may say more.',
          ),
        ]);
      const findings = await Promise.race([looked, tooLate]);
      finished += 1;
      onProgress(finished, looks.length);
      return findings;
    }),
  );
  late.abort();
  return found.flat();
}

/** True when there is nothing to do: no finding is a `problem` or `unknown`. */
export const isWell = (findings: Finding[]): boolean => findings.every(({ health }) => health === 'ok');

async function checkPort25(patient: Patient, given: string | null): Promise<Finding[]> {
  const { surroundings, lookUp, installation } = patient;
  const port = installation.mxPort;
  const host = given ?? (await hostOfOurs(patient));
  if (host === null) {
    const { unknown } = about('outbound_port_25', `port ${port}`);
    return [
      unknown(
        'None of your domains has an MX host elsewhere to try.',
        'Name an MX host to try with --mx or ?mx=, such as that of your own mailbox.',
      ),
    ];
  }
  const from = surroundings.sendingIps.length > 0 ? surroundings.sendingIps : [null];
  return Promise.all(
    from.map(async (ip): Promise<Finding> => {
      const subject = `${host}:${port}${ip === null ? '' : ` from ${ip}`}`;
      return findingOf(subject, await greetedBy(host, ip, { port, lookUp }));
    }),
  );
}

function findingOf(subject: string, greeted: Greeted): Finding {
  const { ok, problem, unknown } = about('outbound_port_25', subject);
  if (greeted.kind === 'greeted') return ok(`${greeted.address} greets with ${greeted.greeting}`);
  if (greeted.kind === 'unresolved') return unknown(greeted.reason, 'Name another MX host with --mx or ?mx=.');
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
