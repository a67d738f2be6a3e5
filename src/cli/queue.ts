import * as orders from '../core/destination-orders.ts';
import * as destinations from '../core/destinations.ts';
import * as hold from '../core/hold.ts';
import * as present from '../http/present.ts';
import { destinationQuery } from '../http/routes/destinations.ts';
import type { Command } from './command.ts';
import { withDatabase } from './database.ts';
import { read, textOf } from './given.ts';
import { counted, table } from './table.ts';

const heads = ['SITE', 'QUEUED', 'DEFERRED', 'IN FLIGHT', 'CONNECTIONS', 'STATE'];

function row(standing: destinations.Standing): (string | number)[] {
  const { site, queued, deferred, running, connections, mostConnections, state, reason, waitingFor } = standing;
  const words = state === 'paused' ? state : (reason ?? waitingFor ?? 'open');
  return [site, queued, deferred, running, `${connections}/${mostConnections}`, words];
}

function text(found: destinations.Standing[], count: number): string {
  const more = count - found.length;
  const rest = `\n${counted(more, 'more is', 'more are')} there: see --limit, --q and --state.`;
  return (
    table(heads, found.map(row), more > 0 ? 'None was asked for.' : 'There is none.') +
    (found.length > 0 && more > 0 ? rest : '')
  );
}

export const listQueue: Command = {
  summary: 'where mail goes, and what waits for it',
  help: [
    'Usage: sendwright queue list [--limit <n>] [--q <part of a name>] [--state paused|backing_off|slowed|open]',
    '',
    'Every site that mail waits for, that was sent to within the hour or that is paused; those with most waiting first.',
    'Without --limit the first hundred.',
  ].join('\n'),
  options: { limit: { type: 'string' }, q: { type: 'string' }, state: { type: 'string' } },
  async run(env, say, given) {
    const { q: part, ...wanted } = read(destinationQuery, {
      limit: textOf(given, 'limit') ?? '100',
      q: textOf(given, 'q'),
      state: textOf(given, 'state'),
    });
    return withDatabase(env, say, async ({ db }) => {
      const [{ destinations: found, count }, onHoldSince] = await Promise.all([
        destinations.list(db, { part, ...wanted }),
        hold.find(db),
      ]);
      const held = onHoldSince
        ? `The service is on hold since ${onHoldSince.toISOString()}: nothing is sent until sendwright release --waiting send|fail.\n`
        : '';
      return {
        json: { on_hold_since: onHoldSince, count, destinations: found.map(present.destination) },
        text: held + text(found, count),
      };
    });
  },
};

/** An order is written down here, and done by nodes. */
export const hears = (time: string) => `Nodes hear of it within ${time}; what is under way ends by itself.`;

const order = (name: orders.OrderName, summary: string, about: string): Command => ({
  summary,
  help: [
    `Usage: sendwright queue ${name} <destination>`,
    '',
    about,
    'The destination is a domain, or the name of a site as sendwright queue list shows it.',
  ].join('\n'),
  operands: ['destination'],
  async run(env, say, { operands: [given = ''] }) {
    return withDatabase(env, say, async ({ db }) => {
      const { standing, woken } = await orders.give(db, given, name);
      const due =
        woken && name === 'flush'
          ? `${counted(woken.recipients, 'recipient is due now that was', 'recipients are due now that were')} not.\n`
          : '';
      const rest = woken?.rest
        ? 'There are more than can be seen to at once: nodes that run go on with the rest.\n'
        : '';
      return {
        json: present.orderGiven(name, { standing, woken }),
        text: `${due}${rest}${name === 'pause' ? `${hears('a second')}\n` : ''}${table(heads, [row(standing)], '')}`,
      };
    });
  },
});

export const pauseDestination = order(
  'pause',
  'tries nothing more at a destination until it is resumed',
  hears('a second'),
);
export const resumeDestination = order(
  'resume',
  'lets what waits for a paused destination go on',
  'What waits for it goes on at once, in the order that it became due; of very much, some by the nodes that run.',
);
export const flushDestination = order(
  'flush',
  'tries everything that waits for a destination now',
  'Whatever was seen of it is forgotten. What is scheduled for later, or paused, is left.',
);
