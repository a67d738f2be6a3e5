import type { Database } from '../db/client.ts';
import { dnsValue } from '../mail/dkim.ts';
import type { Answer } from './dns.ts';

/** The name of the one mail exchanger of the sandbox's internet. */
export const mailboxHost = 'mx.sandbox.test';

const loopback = '127.0.0.1';
const ttl = 1;

/**
 * The sandbox's internet. Every domain has the built-in mailbox as its mail exchanger, and whatever records the service
 * asked its users to publish are published at once. `nxdomain.test` does not exist and `nullmx.test` takes no mail, so
 * that these can be tried too.
 */
export function sandboxZone(db: Database, mailHostname: string): (name: string, type: string) => Promise<Answer> {
  return async (name, type) => {
    if (name === 'nxdomain.test' || name.endsWith('.nxdomain.test')) return { rcode: 'NXDOMAIN', records: [] };
    if (type === 'A' && (name === mailboxHost || name === mailHostname)) return found(type, [loopback]);
    if (type === 'TXT') return found(type, await texts(db, name, mailHostname));
    if (type !== 'MX' || name === mailboxHost || name === mailHostname) return found(type, []);
    const nullMx = name === 'nullmx.test';
    return found(type, [{ preference: nullMx ? 0 : 10, exchange: nullMx ? '.' : mailboxHost }]);
  };
}

const found = (type: string, data: unknown[]): Answer => ({
  rcode: 'NOERROR',
  records: data.map((entry) => ({ type, data: entry, ttl })),
});

async function texts(db: Database, name: string, mailHostname: string): Promise<string[]> {
  if (name === mailHostname) return [`v=spf1 ip4:${loopback} -all`];
  const ownership = /^_sendwright\.(.+)$/.exec(name);
  if (ownership) {
    const rows = await db.prisma.domain.findMany({ where: { domain: ownership[1] ?? '' } });
    return rows.map((row) => row.verificationToken);
  }
  const key = /^(.+)\._domainkey\.(.+)$/.exec(name);
  if (key) {
    const rows = await db.prisma.domain.findMany({ where: { domain: key[2] ?? '', dkimSelector: key[1] ?? '' } });
    const others = await db.prisma.dkimKey.findMany({
      where: { selector: key[1] ?? '', domain: { domain: key[2] ?? '' } },
    });
    return [
      ...rows.map((row) => dnsValue(row.dkimPublicKey)),
      ...others.map((row) => dnsValue(row.publicKey, row.algorithm)),
    ];
  }
  const registered = await db.prisma.domain.findFirst({ where: { domain: name }, select: { id: true } });
  return registered ? [`v=spf1 include:${mailHostname} ~all`] : [];
}
