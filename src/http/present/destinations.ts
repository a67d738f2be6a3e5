import type { OrderName } from '../../core/destinations/destination-orders.ts';
import type { Standing } from '../../core/destinations/destinations.ts';
import type { GivenUpThere, Waiting } from '../../core/destinations/giving-up.ts';
import type { Woken } from '../../core/destinations/wakings.ts';
import type { Standing as SendingAddressStanding } from '../../core/sources/warm-up.ts';
import { iso } from './times.ts';

export function destination(row: Standing) {
  return {
    site: row.site,
    destinations: row.destinations,
    state: row.state,
    queued: row.queued,
    deferred: row.deferred,
    next_attempt_at: iso(row.nextAttemptAt),
    in_flight: row.running,
    connections: row.connections,
    most_connections: row.mostConnections,
    per_minute: row.perMinute,
    reason: row.reason,
    backoff_until: iso(row.backoffUntil),
    last_reply: row.lastReply,
    last_success_at: iso(row.lastSuccessAt),
    last_delivered_at: iso(row.lastDeliveredAt),
    waiting_for: row.waitingFor,
    paused_at: iso(row.pausedAt),
  };
}

/** The result of an order. */
export function orderGiven(order: OrderName, { standing, woken }: { standing: Standing; woken: Woken | null }) {
  return {
    destination: destination(standing),
    ...(woken && order === 'flush' && { flushed: woken.recipients }),
    ...(woken && { rest_follows: woken.rest }),
  };
}

export const waitingFor = ({ domain, waiting, inHand, held }: Waiting) => ({ domain, waiting, in_hand: inHand, held });

export const givenUp = ({ domain, stopped, inHand, held, rest }: GivenUpThere) => ({
  domain,
  stopped,
  in_hand: inHand,
  held,
  rest_waits: rest,
});

export function sendingAddress({ ip, pool, warmUp }: SendingAddressStanding) {
  return {
    ip,
    pool,
    warm_up: warmUp && {
      day: warmUp.day,
      cap: warmUp.cap,
      sent_today: warmUp.sent,
      begins_at: iso(warmUp.beginsAt),
      ends_at: iso(warmUp.endsAt),
    },
  };
}
