import { isIP } from 'node:net';
import { canonicalAddress, type PrivateNetworks, parseNetwork } from '../ip.ts';
import { AddressError, isAscii, normalizeDomain, parseMailbox } from '../mail/address/address.ts';

/** Parsers for the values of variables. Each throws an Error that says what the value must be, to follow "must be". */

export function oneOf<const T extends readonly string[]>(values: T): (text: string) => T[number] {
  return (text) => {
    if (!values.includes(text)) throw new Error(`one of ${values.join(', ')}`);
    return text;
  };
}

export function listOf<T>(parse: (text: string) => T): (text: string) => T[] {
  return (text) => {
    const items = text.split(',').map((item) => item.trim());
    try {
      return items.map(parse);
    } catch (error) {
      throw new Error(`a comma separated list, each ${(error as Error).message}`);
    }
  };
}

export const portFrom = (least: 0 | 1) => (text: string) => {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < least || port > 65_535) {
    throw new Error(`a port number from ${least} to 65535`);
  }
  return port;
};

export function proxyCount(text: string): number {
  if (!/^\d$/.test(text)) throw new Error('the number of proxies in front, 0 to 9');
  return Number(text);
}

const mostWorkers = 64;

export function workerCount(text: string): number {
  const count = Number(text);
  if (!/^\d{1,2}$/.test(text) || count < 1 || count > mostWorkers)
    throw new Error(`a number of processes, 1 to ${mostWorkers}`);
  return count;
}

export function hostToListenOn(text: string): string {
  if (text !== 'localhost' && isIP(text) === 0) throw new Error('an IP address or localhost');
  return text;
}

export function ipAddress(text: string): string {
  const address = canonicalAddress(text);
  if (address === null) throw new Error('an IP address');
  return address;
}

export function dnsServer(text: string): string {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(?::(\d{1,5}))?$/.exec(text);
  const address = match?.[1] ?? match?.[2] ?? text;
  const port = Number(match?.[3] ?? 53);
  // The resolver would drop the zone of an address that has one, and reach nobody.
  const isAddress = isIP(address) !== 0 && !address.includes('%');
  if (!isAddress || port < 1 || port > 65_535) throw new Error('a resolver as ip, ip:port or [ipv6]:port');
  return text;
}

/** Refuses the content of a file in place of its path: an error that names the file would show a key in the log. */
export function filePath(text: string): string {
  if (/\p{Cc}|-----BEGIN /u.test(text)) throw new Error('the path of a file or folder');
  // It would be a folder of this name, in the project's.
  if (/^~(?:\/|$)/.test(text)) throw new Error('a path without ~, which only a shell replaces');
  return text;
}

export function trueOrFalse(text: string): boolean {
  if (text !== 'true' && text !== 'false') throw new Error('true or false');
  return text === 'true';
}

/** What the value must be, and the part of it that is wrong: the value itself need not follow. */
export class ShownValueError extends Error {
  override readonly name = 'ShownValueError';
}

/** `true` for all, `false` for none, or networks separated by commas. */
export function privateNetworks(text: string): PrivateNetworks {
  if (text === 'true' || text === 'false') return text === 'true';
  return text.split(',').map((item) => {
    try {
      return parseNetwork(item.trim());
    } catch (error) {
      const wrong = `${JSON.stringify(item.trim().slice(0, 60))} ${(error as Error).message}`;
      throw new ShownValueError(`true, false or networks such as 10.1.0.0/16,fd00::/8: ${wrong}`);
    }
  });
}

/** The modes of TLS that are `verify-full` to the driver, which warns at each start that this may change. */
const strictModes = /(?<=[?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/;

/** The rest of a password with one of these characters would be taken for the path, and the user for the host. */
const cutPassword = /#|^[^/]*\/\/[^/?@]*[/?][^=@]*@/;

export function postgresUrl(text: string): string {
  if (/^postgres(?:ql)?:\/\/(?:[^@/]*@)?[^@/]*,/.test(text)) {
    throw new Error(
      'an address with one host: for several servers, use the address of a proxy that finds the primary (see docs/scaling.md)',
    );
  }
  if (cutPassword.test(text))
    throw new Error('an address in which #, / and ? of a password are written as %23, %2F and %3F');
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) {
    throw new Error('a PostgreSQL address such as postgres://user:password@host:5432/name');
  }
  return /[?&]uselibpqcompat=/.test(text) ? text : text.replace(strictModes, 'verify-full');
}

export function httpUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  // Links are made by appending a path. An empty query or fragment is none to URL, but still in the text.
  if (!url || !/^https?:$/.test(url.protocol) || /[?#]/.test(text) || url.username || url.password) {
    throw new Error('an http or https address such as https://send.example.com');
  }
  // The dashboard, its cookie and the reference are at the root of their host, behind any proxy.
  if (!/^\/{1,100}$/.test(url.pathname)) {
    throw new Error(
      'an address without a path: the dashboard needs a host name of its own, such as https://send.example.com',
    );
  }
  return url.origin;
}

export function hostname(text: string): string {
  try {
    return normalizeDomain(text);
  } catch (error) {
    if (error instanceof AddressError) throw new Error('a host name such as mail.example.com');
    throw error;
  }
}

export function emailAddress(text: string): string {
  // A login name, not a mailbox: the default, admin@localhost, must pass.
  if (text.length > 254 || !/^[^\s@\p{C}]+@[^\s@\p{C}]+$/u.test(text)) throw new Error('an email address');
  return text.toLowerCase();
}

/** Zones of DNS blocklists; `none` for none. */
export function blocklistZones(text: string): string[] {
  return text === 'none' ? [] : listOf(hostname)(text);
}

/** An address that mail can be written to, without a display name. */
export function mailAddress(text: string): string {
  try {
    const { name, address } = parseMailbox(text);
    if (name === null && isAscii(address)) return address;
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
  }
  throw new Error('an email address such as tls-reports@example.com');
}

export function rateLimit(text: string): { perSecond: number; burst: number } {
  const match = /^(\d{1,6})\/(\d{1,6})$/.exec(text);
  const [perSecond, burst] = [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0)];
  if (perSecond < 1 || burst < 1) throw new Error('requests per second and burst, such as 50/100');
  return { perSecond, burst };
}

const unitMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function duration(text: string): number {
  const match = /^(\d{1,6})([smhd])$/.exec(text);
  const ms = match ? Number(match[1]) * unitMs[match[2] as keyof typeof unitMs] : 0;
  if (ms === 0) throw new Error('a time such as 30s, 5m, 2h or 3d');
  return ms;
}

/** What is left of the 30 seconds of a stop has to do for what is under way. */
const longestStopDelayMs = 10_000;

export function stopDelay(text: string): number {
  const ms = /^\d{1,2}s$/.test(text) ? Number.parseInt(text, 10) * 1_000 : Number.POSITIVE_INFINITY;
  if (ms > longestStopDelayMs) throw new Error('a time from 0s to 10s');
  return ms;
}
