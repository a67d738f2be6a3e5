import type { Database } from '../../db/client.ts';
import { capitalized } from '../../mail/text/characters.ts';
import { lookUp as lookUpBlocklist, reversed } from '../../smtp/dns/blocklists.ts';
import { type Answer, ask, type Resolver } from '../../smtp/dns/resolver.ts';
import { ValidatingResolver } from '../../smtp/dns/validating-resolver.ts';
import { cleanRemoteText } from '../../smtp/replies/reply.ts';
import { findDmarc } from '../domains/dmarc.ts';
import * as domains from '../domains/domains.ts';
import { type Checks, check as checkDomain, type Surroundings } from '../domains/record-checks.ts';
import { askSpf } from '../domains/spf.ts';
import { about, type Finding } from './finding.ts';

const spfTimeoutMs = 8_000;
const mostDomains = 20;
const mostNames = 10;
const again = 'Run this again. If it fails again, check the name servers (DNS_SERVERS).';

/** A name that others wrote, cleaned and cut for use in a sentence. */
const shown = (text: string) => cleanRemoteText(text, 255);

async function addressesOf(name: string, resolver: Resolver): Promise<Answer<string>> {
  const answers = await Promise.all([ask(() => resolver.resolve4(name)), ask(() => resolver.resolve6(name))]);
  const records = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  if (records.length > 0) return { kind: 'records', records: records.map(canonical) };
  return answers.find((answer) => answer.kind === 'temporary') ?? answers[0];
}

/** A canonical form of an address, for comparisons. */
const canonical = (ip: string) => (ip.includes(':') ? new URL(`http://[${ip}]`).hostname.slice(1, -1) : ip);

/**
 * The addresses that receivers see: our own if they are known, or else those of our name, as behind a NAT nothing else
 * says.
 */
export async function seenAddresses({ mailHostname, sendingIps }: Surroundings, resolver: Resolver): Promise<string[]> {
  if (sendingIps.length > 0) return sendingIps.map(canonical);
  const answer = await addressesOf(mailHostname, resolver);
  return answer.kind === 'records' ? answer.records.slice(0, mostNames) : [];
}

/** Whether the names that we give with EHLO lead to us. */
export async function checkEhloNames(
  { mailHostname, ehloNames, sendingIps }: Surroundings,
  resolver: Resolver,
): Promise<Finding[]> {
  const said = Map.groupBy(sendingIps, (ip) => ehloNames.get(ip) ?? mailHostname);
  // Our own name stands in records even if no address says it.
  const names = new Map<string, string[]>([[mailHostname, []], ...said]);
  const isKnown = sendingIps.length > 0;
  const found = await Promise.all(
    [...names].map(([name, ips]) => checkEhloName(name, isKnown ? ips.map(canonical) : null, resolver)),
  );
  return found.flat();
}

/** @param wanted the addresses that say the name; null: we cannot know them */
async function checkEhloName(name: string, wanted: string[] | null, resolver: Resolver): Promise<Finding[]> {
  const { ok, problem, unknown } = about('mail_hostname', name);
  const answer = await addressesOf(name, resolver);
  if (answer.kind === 'temporary') return [unknown(`The lookup failed temporarily: ${answer.reason}.`, again)];
  if (answer.kind !== 'records') {
    const advice = `Publish an A or AAAA record at ${name} with ${wanted?.join(' and ') || 'the public address of this machine'}.`;
    return [problem('The name has no address.', advice)];
  }
  const found = `It has ${answer.records.join(', ')}.`;
  if (wanted === null)
    return [
      unknown(
        found,
        'Compare this with the public address of this machine, which cannot be determined from behind a NAT.',
      ),
    ];
  const missing = wanted.filter((ip) => !answer.records.includes(ip));
  if (missing.length === 0) return [ok(found)];
  return [problem(found, `Add ${missing.join(' and ')} to the A and AAAA records of ${name}.`)];
}

/**
 * Whether the address has a name that resolves back to it, the first thing that large receivers check; and whether that is the
 * name that it says with EHLO, which some of them compare.
 */
export async function checkReverse(
  ip: string,
  { mailHostname, ehloNames }: Surroundings,
  resolver: Resolver,
): Promise<Finding[]> {
  const { ok, problem, note, unknown } = about('reverse_dns', ip);
  const zone = ip.includes(':') ? 'ip6.arpa' : 'in-addr.arpa';
  // `reverse` would look into the hosts file.
  const answer = await ask(async () => (await resolver.resolve(`${reversed(ip)}.${zone}`, 'PTR')) as string[]);
  if (answer.kind === 'temporary')
    return [unknown(`The lookup of its name failed temporarily: ${answer.reason}.`, again)];
  const said = ehloNames.get(ip) ?? mailHostname;
  const advice = `Ask the provider of the address to set its PTR record to ${said}.`;
  if (answer.kind !== 'records') return [problem('The address has no name (PTR record).', advice)];
  const names = answer.records.slice(0, mostNames);
  const forward = await Promise.all(names.map((name) => addressesOf(name, resolver)));
  const confirmed = names.filter((_, index) => {
    const one = forward[index];
    return one?.kind === 'records' && one.records.includes(ip);
  });
  if (confirmed.length > 0) {
    const back = `Its name is ${confirmed.map(shown).join(', ')}, which resolves back to it`;
    if (confirmed.some((name) => name.toLowerCase() === said)) return [ok(`${back}.`)];
    const other = `Some receivers compare the two. If it is one of SENDING_IPS, put ${ip}=${shown(confirmed[0] ?? '')} into EHLO_NAMES, or ask the provider of the address to set its PTR record to ${said}.`;
    return [note(`${back}, but mail from it says EHLO ${said}.`, other)];
  }
  const found = `Its name is ${names.map(shown).join(', ')}, which does not resolve back to it`;
  if (forward.some((one) => one.kind === 'temporary'))
    return [unknown(`${found}, but not every lookup succeeded.`, again)];
  return [problem(`${found}.`, advice)];
}

/** Whether the address is on these lists. */
export async function checkBlocklists(ip: string, zones: string[], resolver: Resolver): Promise<Finding[]> {
  return Promise.all(
    zones.map(async (zone): Promise<Finding> => {
      const { ok, problem, unknown } = about('blocklist', `${ip} at ${zone}`);
      const listing = await lookUpBlocklist(zone, ip, resolver);
      if (listing.kind === 'clean') return ok('It is not listed.');
      if (listing.kind === 'unknown') {
        const advice =
          'Use a resolver of your own (DNS_SERVERS), because blocklists refuse public ones, or remove the list from DNS_BLOCKLISTS.';
        return unknown(`The list gave no answer: ${listing.reason}.`, advice);
      }
      const why = listing.reason === null ? '' : `: ${listing.reason}`;
      const advice = `Find out what was sent from it, stop that, and ask ${zone} to remove it. Send from another address in the meantime.`;
      return problem(`It is listed (${listing.code})${why}.`, advice);
    }),
  );
}

/** Whether bounces can come back, and whether the envelope sender passes SPF: both depend on our own name. */
export async function checkReturnPath(ips: string[], where: Surroundings, resolver: Resolver): Promise<Finding[]> {
  const { mailHostname } = where;
  const { ok, problem, unknown } = about('return_path', mailHostname);
  const [mx, ...senders] = await Promise.all([
    ask(() => resolver.resolveMx(mailHostname)),
    ...ips.map((ip) => checkSpf(ip, where)),
  ]);
  const findings: Finding[] = [];
  if (mx.kind === 'temporary') findings.push(unknown(`The lookup of its MX failed temporarily: ${mx.reason}.`, again));
  else if (mx.kind === 'records')
    findings.push(
      ok(
        `Bounces come back to ${mx.records
          .slice(0, mostNames)
          .map(({ exchange }) => shown(exchange))
          .join(', ')}.`,
      ),
    );
  else {
    const advice = `Publish the MX record "10 ${mailHostname}" at ${mailHostname}, and forward port 25 to INBOUND_SMTP_PORT.`;
    findings.push(problem('The name has no MX record, so bounces and complaints cannot come back.', advice));
  }
  return [...findings, ...senders];
}

async function checkSpf(ip: string, where: Surroundings): Promise<Finding> {
  const { mailHostname } = where;
  const { ok, problem, unknown } = about('return_path', `${mailHostname} from ${ip}`);
  const { resolve } = where;
  const sender = `bounces@${mailHostname}`;
  const { result, reason } = await askSpf({ sender, ip, mailHostname, resolve, timeoutMs: spfTimeoutMs });
  if (result === 'pass') return ok('SPF passes.');
  const found = `SPF answers ${result} (${reason}).`;
  if (result === 'temperror') return unknown(found, again);
  return problem(
    found,
    `Publish the TXT record "v=spf1 ${domains.spfMechanism(ip)} -all" at ${mailHostname}, listing all your sending addresses.`,
  );
}

/** The three records of each verified domain, and its DMARC policy; then the domains that are not verified yet. */
export async function checkDomains(db: Database, where: Surroundings): Promise<Finding[]> {
  const all = await domains.listAll(db, { limit: mostDomains + 1, verified: true });
  const found = await Promise.all(all.slice(0, mostDomains).map((domain) => checkOne(domain, where)));
  const [next] = all.slice(mostDomains);
  const rest = next ? await olderDomains(db, next.id) : [];
  return [...found.flat(), ...rest, ...(await pendingDomains(db, all.length > 0))];
}

/** The verified domains from this one on: what the service's own daily check found. */
async function olderDomains(db: Database, from: string): Promise<Finding[]> {
  const warned = await domains.listWarned(db, from, mostDomains);
  const found = warned.map(({ domain, dnsWarning }) =>
    about('domain', domain).problem(
      `The last daily check found: ${dnsWarning}.`,
      `Look its records up now with sendwright domains check ${domain}.`,
    ),
  );
  const rest = about('domain', 'the others').note(
    `Only the ${mostDomains} newest domains were checked now. The service checks all of them daily.`,
    'List what it found with sendwright domains list, or look one up now with sendwright domains check <domain>.',
  );
  return [...found, rest];
}

/** The domains that no mail can be sent from yet. If others can send, each is only a note. */
async function pendingDomains(db: Database, othersCanSend: boolean): Promise<Finding[]> {
  const all = await domains.unverifiedNames(db);
  const found = all.slice(0, mostDomains).map((name) => {
    const { note, problem } = about('domain', name);
    return (othersCanSend ? note : problem)(
      'It is not verified yet: no mail can be sent from it.',
      `Publish its DNS records: sendwright domains check ${name} shows which are missing. Or delete the domain.`,
    );
  });
  if (all.length <= mostDomains) return found;
  const more = about('domain', 'the others').note(
    `Only the ${mostDomains} newest domains that are not verified are listed.`,
    'List all with sendwright domains list.',
  );
  return [...found, more];
}

/** Names that do not exist on the internet (RFC 6761), such as that of the domain that the sandbox makes. */
const forTests = /\.(test|example|invalid|localhost)$/;

async function checkOne(domain: Parameters<typeof checkDomain>[0], where: Surroundings): Promise<Finding[]> {
  const checks = await checkDomain(domain, where);
  const nothingIsThere = Object.values(checks).every(({ found, failed }) => found.length === 0 && !failed);
  if (nothingIsThere && forTests.test(domain.domain))
    return [
      about('domain', domain.domain).problem(
        'It is a name for tests, which does not exist on the internet: receivers refuse mail from it.',
        'Delete it on the dashboard (Domains), and add one of your own if you have none.',
      ),
    ];
  return [...checkRecords(domain.domain, checks), await checkDmarc(domain.domain, where)];
}

function checkRecords(domain: string, checks: Checks): Finding[] {
  return Object.entries(checks).map(([name, { ok: good, problem: wrong, failed, name: at, expected }]) => {
    const { ok, problem, unknown } = about('domain', `${name} of ${domain}`);
    if (good) return ok('The record is right.');
    const sentence = `${capitalized(wrong ?? '')}.`;
    if (failed) return unknown(sentence, again);
    return problem(sentence, `Publish at ${at}: ${expected}`);
  });
}

async function checkDmarc(domain: string, where: Surroundings): Promise<Finding> {
  const { ok, problem, unknown } = about('dmarc', domain);
  const policies = await findDmarc(domain, where);
  if (policies.kind === 'temporary')
    return unknown(`The lookup of the policy failed temporarily: ${policies.reason}.`, again);
  if (policies.kind === 'none')
    return problem(
      'There is no policy. Large receivers require one from bulk senders.',
      `Publish the TXT record "${domains.dmarcPolicy}" at _dmarc.${domain}.`,
    );
  const { name, records } = policies;
  const [policy = '', ...others] = records;
  if (others.length > 0)
    return problem(`There is more than one policy at ${name}, so receivers ignore them all.`, 'Remove all but one.');
  if (!/;\s*p\s*=\s*(none|quarantine|reject)\s*(;|$)/i.test(policy))
    return problem(
      `The policy at ${name} has no valid p=.`,
      `Write it as "${domains.dmarcPolicy}", or a stricter one.`,
    );
  return ok(`The policy is ${cleanRemoteText(policy, 200)}`);
}

/** Whether a resolver validates DNSSEC, as it says of the root zone, which is signed. */
export async function checkDaneResolver(server: string): Promise<Finding[]> {
  const { ok, problem } = about('dane_resolver', server);
  const answer = await new ValidatingResolver(server).query('.', 'SOA');
  if (answer.kind === 'temporary')
    return [
      problem(
        `${capitalized(answer.reason)}, so mail waits: nobody can say which domains have DANE records.`,
        'Check that this resolver runs, or set DANE_RESOLVER to another one.',
      ),
    ];
  const isSecure = answer.kind === 'records' && answer.records.some(({ secure }) => secure);
  if (isSecure) return [ok('It validates DNSSEC.')];
  return [
    problem(
      'It does not say of the root zone that it validated it (AD bit), so DANE is not used.',
      'Switch DNSSEC validation on in this resolver, or set DANE_RESOLVER to one that validates.',
    ),
  ];
}
