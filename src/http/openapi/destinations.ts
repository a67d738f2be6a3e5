import { z } from 'zod';
import { states } from '../../core/destinations/destinations.ts';
import { heldPrefix } from '../../core/recipients/waiting-for.ts';
import { destinationQuery, stopRequest } from '../routes/destinations.ts';
import type { Group, Operation } from './operation.ts';
import { samples } from './samples.ts';
import { flag, integer, list, time, words } from './schema.ts';

const destination = z
  .object({
    site: words(
      'Who runs the servers: a provider such as `Google`, the domain of the MX host, or the destination itself. The limits apply to all of its destinations together.',
    ),
    destinations: list(z.string(), 'Domains that it receives mail for: up to fifty that were sent to recently.'),
    state: z
      .enum(states)
      .describe(
        'The state of delivery: `paused`: by an operator; `backing_off`: nothing is tried until `backoff_until`; `slowed`: fewer connections than the maximum, for `reason`; otherwise `open`.',
      ),
    queued: integer('Recipients that are due or being delivered.'),
    deferred: integer('Recipients that wait for another attempt, or for the site.'),
    next_attempt_at: time('When the next of those is due.').nullable(),
    in_flight: integer('Attempts in progress.'),
    connections: integer('Connections allowed now, on all nodes; adapted to what the site accepts.'),
    most_connections: integer('The maximum number of connections.'),
    per_minute: integer('Messages a minute; null: no limit.').nullable(),
    reason: words('Why fewer connections are allowed, or none.').nullable(),
    backoff_until: time('When the back-off ends; null: there is none.').nullable(),
    last_reply: words('Its last reply.').nullable(),
    last_success_at: time(
      'When it last accepted or judged a message, as the running nodes have seen within the hour; null: not since then.',
    ).nullable(),
    last_delivered_at: time(
      'When it last accepted a message, to within a minute, which is kept for 30 days; null: not within these.',
    ).nullable(),
    waiting_for: words(
      `What most of the waiting mail waits for, other than a retry; null: nothing. It begins with \`${heldPrefix}\` if that mail is held until its owner decides.`,
    ).nullable(),
    paused_at: time('When an operator paused it; null: it is not paused.').nullable(),
  })
  .meta({ id: 'Destination', description: 'The state of delivery to the servers that receive mail for some domains.' });

const example = {
  site: 'Google',
  destinations: ['gmail.com'],
  state: 'slowed',
  queued: 120,
  deferred: 3,
  next_attempt_at: samples.createdAt,
  in_flight: 10,
  connections: 10,
  most_connections: 20,
  per_minute: null,
  reason: 'the server wanted less mail at a time: 10 connections instead of 20',
  backoff_until: null,
  last_reply: '421 4.7.28 Our system has detected an unusual rate of unsolicited mail',
  last_success_at: samples.createdAt,
  last_delivered_at: samples.createdAt,
  waiting_for: null,
  paused_at: null,
};

const sendingAddress = z
  .object({
    ip: words('The address.'),
    pool: words('The pool that it belongs to.'),
    warm_up: z
      .object({
        day: integer('The day of the plan, from 1; 0: it has not begun.'),
        cap: integer('Messages that it may send today (UTC), on all nodes.'),
        sent_today: integer('Messages that it has sent today or is sending now.'),
        begins_at: time('When its first day begins.'),
        ends_at: time('When the cap ends.'),
      })
      .nullable()
      .describe('Its progress in the warm-up plan; null: it is not new, or the plan is over.'),
  })
  .meta({ id: 'SendingAddress', description: 'An IP address that mail is sent from.' });

const sendingExample = {
  ip: '203.0.113.6',
  pool: 'marketing',
  warm_up: {
    day: 3,
    cap: 250,
    sent_today: 120,
    begins_at: '2026-11-19T00:00:00.000Z',
    ends_at: '2026-12-01T00:00:00.000Z',
  },
};

const params = { name: 'A domain, or the name of a site.' };

const order = (name: 'pause' | 'resume' | 'flush', summary: string, description: string): Operation => ({
  id: `${name}Destination`,
  method: 'post',
  path: `/api/v1/admin/destinations/:name/${name}`,
  summary,
  description,
  access: 'admin',
  params,
  answer: {
    description: 'The destination as it is now.',
    schema: z.object({
      destination,
      ...(name === 'flush' && { flushed: integer('How many recipients became due.') }),
      ...(name !== 'pause' && {
        rest_follows: flag('There were too many for one call; the delivering nodes continue with the rest.'),
      }),
    }),
    example: {
      destination: example,
      ...(name === 'flush' && { flushed: 3 }),
      ...(name !== 'pause' && { rest_follows: false }),
    },
  },
});

const domainParams = { name: 'A domain.' };

const left = {
  in_hand: integer('Recipients that a node has in hand: their message is on its way, or waits there for its turn.'),
  held: integer('Recipients that are held until the owner of the email decides.'),
};

const domainField = words('The domain, as it is stored.');

export const destinationGroup: Group = {
  name: 'Destinations',
  description:
    'For the operators of the server: where mail goes, how much each site gets at a time and why, and how to stop it.',
  operations: [
    {
      id: 'listDestinations',
      method: 'get',
      path: '/api/v1/admin/destinations',
      summary: 'List destinations',
      description:
        'Every site that mail waits for, that was sent to within the hour, or that is paused, with the longest queue first (if none of them matches, the one that `q` names in full if mail arrived there within 30 days); and the addresses that mail is sent from: the `SENDING_IPS` of all delivering nodes.',
      access: 'admin',
      query: destinationQuery,
      answer: {
        description: 'One page.',
        schema: z.object({
          destinations: list(destination, 'The sites.'),
          count: integer('How many sites match.'),
          sending_ips: list(sendingAddress, 'The sending addresses, by pool; empty if the system chooses the address.'),
        }),
        example: { destinations: [example], count: 1, sending_ips: [sendingExample] },
      },
    },
    order(
      'pause',
      'Pause a destination',
      'Stops delivery until you resume it. Attempts in progress finish. The call takes a second and a half: then all nodes have heard of it, and what is sent from then on waits.',
    ),
    order(
      'resume',
      'Resume a destination',
      'Waiting mail is sent at once. If more than a few hundred thousand recipients wait, the call returns before all are due, and the rest follows unless you pause it again.',
    ),
    order(
      'flush',
      'Flush a destination',
      'Tries all waiting mail now, whatever the site replied before. Scheduled and paused mail is left alone. If more than a few hundred thousand recipients wait, the call returns before all are due, and the rest follows.',
    ),
    {
      id: 'getWaitingForDomain',
      method: 'get',
      path: '/api/v1/admin/destinations/:name/waiting',
      summary: 'Count what waits for a domain',
      description:
        'How many recipients at this domain, of all accounts, would be given up by `stop`, and how many it would leave alone. Scheduled emails count from their time on.',
      access: 'admin',
      params: domainParams,
      answer: {
        description: 'The numbers.',
        schema: z.object({ domain: domainField, waiting: integer('Recipients that would be given up.'), ...left }),
        example: { domain: 'gmial.com', waiting: 120, in_hand: 0, held: 0 },
      },
    },
    {
      id: 'stopDestination',
      method: 'post',
      path: '/api/v1/admin/destinations/:name/stop',
      summary: 'Give up what waits for a domain',
      description:
        'For a domain that is gone or was mistyped: all recipients there that wait in the queue, for another attempt or for the end of a pause fail for good, whichever account sent to them. Their log says that an operator decided it, and `email.failed` is sent. It cannot be undone, and is for one domain: the name of a site is a 404. What a node has in hand, what is scheduled for later and what is held is left alone, and so is mail that is accepted later. If `rest_waits` is true there was too much for one call: repeat it.',
      access: 'admin',
      params: domainParams,
      body: { schema: stopRequest, example: { reason: 'the domain does not exist' }, optional: true },
      answer: {
        description: 'What was given up, and what is left.',
        schema: z.object({
          domain: domainField,
          stopped: integer('How many recipients were given up.'),
          ...left,
          rest_waits: flag('There were too many for one call; repeat it.'),
        }),
        example: { domain: 'gmial.com', stopped: 120, in_hand: 0, held: 0, rest_waits: false },
      },
    },
  ],
};
