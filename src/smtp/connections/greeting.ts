import { isIPv6 } from 'node:net';
import { cutText } from '../../mail/text/characters.ts';
import { type LookUpOptions, resolveHost } from '../dns/mx.ts';
import { Connection, isLost } from './connection.ts';

/** Whether a host answered, and its greeting; `unresolved`: no address of it could be found. */
export type Greeted =
  | { kind: 'greeted'; address: string; greeting: string }
  | { kind: 'silent'; reason: string }
  | { kind: 'unresolved'; reason: string };

const connectMs = 8_000;
const greetingMs = 5_000;

/**
 * Connects to an MX host, waits for its greeting, and says QUIT: a check that mail can leave from here at all. Uses the
 * addresses that a delivery would use, of the same family as `from` if that is given.
 */
export async function greetedBy(
  host: string,
  from: string | null,
  { port, lookUp }: { port: number; lookUp: LookUpOptions },
): Promise<Greeted> {
  const found = await resolveHost(host, { ...lookUp, onlyIpv6: from !== null && isIPv6(from) });
  if (found.kind !== 'addresses') return { kind: 'unresolved', reason: found.reason };
  const address = found.addresses.find((one) => (from === null ? !isIPv6(one) : isIPv6(one) === isIPv6(from)));
  const chosen = address ?? (from === null ? found.addresses[0] : undefined);
  if (chosen === undefined) return { kind: 'unresolved', reason: `The host ${host} has no address of that family.` };
  const connection = new Connection({ host, address: chosen, port, ...(from === null ? {} : { localAddress: from }) });
  const lost = await connection.open(connectMs);
  if (lost !== null) return { kind: 'silent', reason: lost.reason };
  const greeting = await connection.read(greetingMs);
  void connection.quit();
  if (isLost(greeting)) return { kind: 'silent', reason: greeting.reason };
  return { kind: 'greeted', address: chosen, greeting: cutText(`${greeting.reply.code} ${greeting.reply.text}`, 200) };
}
