import { isIPv6 } from 'node:net';
import { dmarcPolicy } from '../core/domains/domains.ts';
import type { Database } from '../db/client.ts';
import { dnsValue } from '../mail/compose/dkim-key.ts';
import type { Answer } from './dns.ts';

/** The name of the sandbox's mail exchanger, and of the one that offers no STARTTLS. */
export const mailboxHost = 'mx.sandbox.test';
export const noTlsHost = 'mx-no-tls.sandbox.test';

export const loopback = '127.0.0.1';
/** In seconds. */
const ttl = 1;

/**
 * The sandbox's internet. Every domain has the built-in mailbox as its mail exchanger, and the records that the service
 * requires or recommends for a domain are published at once. To try other cases, `nxdomain.test` does not exist, `nullmx.test`
 * accepts no mail, and the mail exchanger of `no-tls.test` and of every `no-tls.*` has no STARTTLS.
 *
 * @param hosts the address of each host; read for each query, so that hosts may be added later
 */
export function sandboxZone(
  db: Database,
  hosts: ReadonlyMap<string, string>,
  mailHostname: string,
): (name: string, type: string) => Promise<Answer> {
  return async (name, type) => {
    if (name === 'nxdomain.test' || name.endsWith('.nxdomain.test')) return { rcode: 'NXDOMAIN', records: [] };
    const address = hosts.get(name);
    if (address !== undefined && type === (isIPv6(address) ? 'AAAA' : 'A')) return found(type, [address]);
    if (type === 'TXT') return found(type, await texts(db, name, mailHostname));
    if (type !== 'MX' || address !== undefined) return found(type, []);
    if (name === 'nullmx.test') return found(type, [{ preference: 0, exchange: '.' }]);
    return found(type, [{ preference: 10, exchange: name.startsWith('no-tls.') ? noTlsHost : mailboxHost }]);
  };
}

const found = (type: string, data: unknown[]): Answer => ({
  rcode: 'NOERROR',
  records: data.map((entry) => ({ type, data: entry, ttl })),
});

/** The strings of the TXT records at this name: those that a domain of the service has to publish, or should. */
async function texts(db: Database, name: string, mailHostname: string): Promise<string[]> {
  if (name === mailHostname) return [`v=spf1 ip4:${loopback} -all`];
  const [, owned] = /^_sendwright\.(.+)$/.exec(name) ?? [];
  if (owned !== undefined) return ownershipProofs(db, owned);
  const [, selector, signing] = /^(.+)\._domainkey\.(.+)$/.exec(name) ?? [];
  if (selector !== undefined && signing !== undefined) return dkimRecords(db, signing, selector);
  const [, ofPolicy] = /^_dmarc\.(.+)$/.exec(name) ?? [];
  const domain = ofPolicy ?? name;
  const registered = await db.prisma.domain.findFirst({ where: { domain }, select: { id: true } });
  if (!registered) return [];
  return [ofPolicy === undefined ? `v=spf1 include:${mailHostname} ~all` : dmarcPolicy];
}

/** One for each account that has registered the domain. */
async function ownershipProofs(db: Database, domain: string): Promise<string[]> {
  const rows = await db.prisma.domain.findMany({ where: { domain } });
  return rows.map((row) => row.verificationToken);
}

async function dkimRecords(db: Database, domain: string, selector: string): Promise<string[]> {
  const own = await db.prisma.domain.findMany({ where: { domain, dkimSelector: selector } });
  const others = await db.prisma.dkimKey.findMany({ where: { selector, domain: { domain } } });
  return [
    ...own.map((row) => dnsValue(row.dkimPublicKey)),
    ...others.map((row) => dnsValue(row.publicKey, row.algorithm)),
  ];
}
