import { isIPv6 } from 'node:net';
import { type SendingAddress, type SendingPools, type WarmUp, warmUpOn } from '../../smtp/connections/sending-pools.ts';

/** A pool's addresses of one family, as they stand on a day. */
export interface Family {
  /** Those without a cap. */
  settled: string[];
  warming: Warming[];
}

/** A new address. */
export interface Warming extends WarmUp {
  ip: string;
  firstDay: string;
}

/** The families of each pool on this day. */
export function familiesOn(day: string, { addresses, plan }: SendingPools): Map<string, Family[]> {
  const pools = new Map<string, Family[]>();
  for (const [pool, members] of Map.groupBy(addresses, (address) => address.pool)) {
    const families = Map.groupBy(members, ({ ip }) => isIPv6(ip)).values();
    pools.set(
      pool,
      Array.from(families, (alike) => familyOf(alike, plan, day)),
    );
  }
  return pools;
}

function familyOf(addresses: SendingAddress[], plan: readonly number[], day: string): Family {
  const all = addresses.map((address) => ({ ...address, warmUp: warmUpOn(day, address, plan) }));
  return {
    settled: all.flatMap(({ ip, warmUp }) => (warmUp === null ? [ip] : [])),
    warming: all.flatMap(({ ip, firstDay, warmUp }) => (warmUp && firstDay ? [{ ...warmUp, ip, firstDay }] : [])),
  };
}
