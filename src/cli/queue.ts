import * as orders from '../core/destinations/destination-orders.ts';
import * as destinations from '../core/destinations/destinations.ts';
import * as hold from '../core/operations/hold.ts';
import * as present from '../http/present.ts';
import { destinationQuery } from '../http/routes/destinations.ts';
import type { Command } from './command.ts';
import { withDatabase } from './database.ts';
import { read, textOf } from './given.ts';
import { counted, notShown, table } from './table.ts';

const heads = ['SITE', 'QUEUED', 'DEFERRED', 'IN FLIGHT', 'CONNECTIONS', 'STATE'];

function row(standing: destinations.Standing): (string | number)[] {
  const { site, queued, deferred, running, connections, mostConnections, state, reason, waitingFor } = standing;
  const words = state === 'paused' ? state : (reason ?? waitingFor ?? 'open');
  return [site, queued, deferred, running, `${connections}/${mostConnections}`, words];
}

function textOfList(found: destinations.Standing[], count: number, offset: number): string {
  const nothing = offset > 0 ? `No destinations on this page; ${count} in total.` : 'None was requested.';
  const shown = table(heads, found.map(row), count > 0 ? nothing : 'There are no destinations.');
  const left = notShown(found.length, count, 'destination', 'destinations', '--limit, --offset, --q and --state');
  return left === null ? shown : `${shown}\n${left}`;
}

export const listQueue: Command = {
  help: [
    'Usage: sendwright queue list [--limit <n>] [--offset <n>] [--q <part of a name>]',
    '                             [--state paused|backing_off|slowed|open]',
    '',
    'Lists the sites that have mail waiting, were sent to within the last hour, or are paused; those with the most mail waiting come',
    'first. At most 100 are listed at a time: --offset says how many to skip.',
  ].join('\n'),
  options: { limit: { type: 'string' }, offset: { type: 'string' }, q: { type: 'string' }, state: { type: 'string' } },
  async run(env, say, given) {
    const {
      q: part,
      limit,
      offset,
      state,
    } = read(destinationQuery, {
      limit: textOf(given, 'limit') ?? '100',
      offset: textOf(given, 'offset'),
      q: textOf(given, 'q'),
      state: textOf(given, 'state'),
    });
    return withDatabase(env, say, async ({ db }) => {
      const [{ destinations: found, count }, onHoldSince] = await Promise.all([
        destinations.list(db, { part, limit, offset, state }),
        hold.find(db),
      ]);
      const held = onHoldSince
        ? `The service has been on hold since ${onHoldSince.toISOString()}: nothing is sent until sendwright release --waiting send|fail.\n`
        : '';
      return {
        json: { on_hold_since: onHoldSince, count, destinations: found.map(present.destination) },
        text: held + textOfList(found, count, offset),
      };
    });
  },
};

/** The command only records an order; nodes carry it out. */
export const nodesReact = (time: string) => `Nodes react within ${time}, and finish the work in progress.`;

const orderCommand = (name: orders.OrderName, about: string): Command => ({
  help: [
    `Usage: sendwright queue ${name} <destination>`,
    '',
    about,
    'The destination is a domain, or the name of a site as shown by sendwright queue list.',
  ].join('\n'),
  operands: ['destination'],
  async run(env, say, { operands: [given = ''] }) {
    return withDatabase(env, say, async ({ db }) => {
      const { standing, woken } = await orders.give(db, given, name);
      const notes: string[] = [];
      if (woken && name === 'flush')
        notes.push(`${counted(woken.recipients, 'more recipient is', 'more recipients are')} due now.`);
      if (woken?.rest) notes.push('There are too many to handle at once: running nodes continue with the rest.');
      if (name === 'pause') notes.push(nodesReact('a second'));
      // A pause in advance is fine; a misspelled name would look like one.
      if (name === 'pause' && !(await destinations.hasMail(db, given)))
        say(
          `No mail waits for ${standing.site}, and no node reports any within the last hour: check the name. Mail that comes later waits.`,
        );
      return {
        json: present.orderGiven(name, { standing, woken }),
        text: [...notes, table(heads, [row(standing)], '')].join('\n'),
      };
    });
  },
});

export const pauseDestination = orderCommand('pause', nodesReact('a second'));
export const resumeDestination = orderCommand(
  'resume',
  'Waiting mail continues at once, in the order that it became due. If there is a lot, running nodes continue with the rest.',
);
export const flushDestination = orderCommand(
  'flush',
  'Forgets what was learned about the destination. Mail that is scheduled for later, or paused, is left alone.',
);
