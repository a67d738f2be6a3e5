import type { Destination } from '../../../client/index.ts';
import { api } from '../../data/api.ts';
import { now } from '../../words/clock.ts';
import { exact, plural } from '../../words/format.ts';
import { causeAt, lacksMail, lastHeardOf, waitingAt } from '../destinations/destination-standing.ts';
import type { Concern } from './concern.ts';

/** If nothing can be reached, every destination would be listed and hide the rest. */
const mostDestinations = 5;
/** A server that takes the mail of one domain, and has got none for longer, gets little: that it refuses one email is not urgent. */
const seldomMs = 86_400_000;

/** Destinations that get no mail or accept none. */
export interface Unreached {
  /** Those that mail waits for, and those that are paused. */
  stopped: Destination[];
  /** Those that refuse all mail at once. */
  refusing: Destination[];
  /** How many more refuse it. */
  otherRefusing: number;
}

/** What the server has to say about those that are paused, backed off from, or refuse our mail. */
export async function unreachedDestinations(): Promise<Unreached> {
  const [paused, backing, busiest, refusing] = await Promise.all([
    api.admin.destinations.list({ state: 'paused' }),
    api.admin.destinations.list({ state: 'backing_off' }),
    api.admin.destinations.list(),
    api.admin.destinations.list({ refusing: 'true' }),
  ]);
  const found = [
    ...paused.destinations,
    // A destination with nothing waiting needs no decision.
    ...[...backing.destinations, ...busiest.destinations].filter(lacksMail),
  ];
  // A destination whose state changed between two of the answers is in both.
  const stopped = new Map(found.map((one) => [one.site, one]));
  // One that is paused is named as such: operators pause what refuses them.
  const unnamed = refusing.destinations.filter(({ site, state }) => state !== 'paused' && !stopped.has(site));
  const named = unnamed.slice(0, mostDestinations);
  return {
    stopped: [...stopped.values()],
    refusing: named,
    otherRefusing: unnamed.length - named.length + refusing.count - refusing.destinations.length,
  };
}

/** Apart from those that are stopped: nothing waits for these, so that they would come after all of them. */
export function ofRefusing({ refusing, otherRefusing: others }: Unreached): Concern[] {
  const named = refusing.map(({ site, destinations, last_delivered_at: delivered, last_reply: reply }): Concern => {
    const since = delivered === null ? '' : `, and has accepted none since ${exact(new Date(delivered))}`;
    const isSeldom = destinations.length < 2 && delivered !== null && now() - Date.parse(delivered) > seldomMs;
    const seen = { href: `/destinations?q=${encodeURIComponent(site)}`, link: 'Show it' };
    return { urgent: !isSeldom, words: `${site} refuses our mail${since}: ${reply}`, ...seen };
  });
  if (others === 0) return named;
  const words = `${plural(others, 'more destination')} ${others === 1 ? 'refuses' : 'refuse'} our mail.`;
  return [...named, { urgent: true, words, href: '/destinations?now=refusing', link: 'Show all that refuse it' }];
}

/** The name whose pause it is that mail for this one waits for: a site's, which a node that has just begun does not know as its own. */
const pauseBefore = ({ state, waiting_for: waiting }: Destination): string | null =>
  (state !== 'paused' && /^paused: (\S+)$/.exec(waiting ?? '')?.[1]) || null;

/** Those with the most waiting mail, and how many others get none. What waits for an operator's own pause is counted with that. */
export function ofStopped({ stopped }: Unreached): Concern[] {
  const behind = new Map<string, number>();
  for (const one of stopped) {
    const pause = pauseBefore(one);
    if (pause) behind.set(pause, (behind.get(pause) ?? 0) + waitingAt(one));
  }
  const allWaitingAt = (one: Destination) =>
    waitingAt(one) + (one.state === 'paused' ? (behind.get(one.site) ?? 0) : 0);
  const named = new Set(stopped.filter(({ state }) => state === 'paused').map(({ site }) => site));
  const destinations = stopped
    // A pause that has just ended is not listed any more.
    .filter((one) => !named.has(pauseBefore(one) ?? ''))
    .sort((a, b) => allWaitingAt(b) - allWaitingAt(a));
  const shown = destinations.slice(0, mostDestinations).map((destination): Concern => {
    const { site, state, last_delivered_at: delivered } = destination;
    const success = delivered ?? lastHeardOf(destination);
    const waiting = `${plural(allWaitingAt(destination), 'recipient')} waiting`;
    const seen = { href: `/destinations?q=${encodeURIComponent(site)}`, link: 'Show it' };
    if (state === 'paused') return { urgent: false, words: `${site} is paused, ${waiting}.`, ...seen };
    const since = success === null ? null : `has accepted nothing since ${exact(new Date(success))}`;
    const what =
      state === 'backing_off'
        ? `gets nothing for now${since ? `, and ${since}` : ''}`
        : (since ?? 'has accepted nothing for a while');
    const cause = causeAt(destination) ?? 'it does not answer';
    return { urgent: true, words: `${site} ${what}, ${waiting}: ${cause}.`, ...seen };
  });
  const others = destinations.length - shown.length;
  if (others === 0) return shown;
  const words = `${plural(others, 'more destination')} ${others === 1 ? 'gets' : 'get'} nothing.`;
  return [...shown, { urgent: true, words, href: '/destinations', link: 'Show all' }];
}
