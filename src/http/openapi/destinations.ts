import { z } from 'zod';
import { states } from '../../core/destinations.ts';
import { destinationQuery } from '../routes/destinations.ts';
import type { Group, Operation } from './operation.ts';
import { samples } from './samples.ts';
import { flag, integer, list, time, words } from './schema.ts';

const destination = z
  .object({
    site: words(
      'Whose servers these are: a provider such as `Google`, the domain of the MX host, or the destination itself. Its destinations are limited together.',
    ),
    destinations: list(z.string(), 'Domains whose mail it takes: up to fifty that were sent to lately.'),
    state: z
      .enum(states)
      .describe(
        'How mail goes just now: `paused` by an operator; `backing_off`: nothing is tried until `backoff_until`; `slowed`: with fewer connections than it may have, for `reason`; else `open`.',
      ),
    queued: integer('Recipients that are due or being delivered.'),
    deferred: integer('Recipients that wait for another attempt, or for the site.'),
    next_attempt_at: time('When the first of those is tried.').nullable(),
    in_flight: integer('Attempts under way.'),
    connections: integer('Connections that it may have now, on all nodes; it follows what the site bears.'),
    most_connections: integer('And at the most.'),
    per_minute: integer('Messages a minute; null: no limit.').nullable(),
    reason: words('Why it may have fewer connections, or none.').nullable(),
    backoff_until: time('Until when nothing is tried; null: it is.').nullable(),
    last_reply: words('What it said last.').nullable(),
    last_success_at: time('When it last took or judged a message.').nullable(),
    waiting_for: words('What most of the mail waits for that has not used up an attempt; null: none does.').nullable(),
    paused_at: time('Since when an operator has paused it; null: it is not.').nullable(),
  })
  .meta({ id: 'Destination', description: 'How the server stands with whoever takes the mail of some domains.' });

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
  waiting_for: null,
  paused_at: null,
};

const sendingAddress = z
  .object({
    ip: words('The address.'),
    pool: words('The pool that it belongs to.'),
    warm_up: z
      .object({
        day: integer('The first is 1; 0: it has not begun.'),
        cap: integer('Messages that may leave from it today (UTC), on all nodes.'),
        sent_today: integer('Those that have left, or are leaving.'),
        begins_at: time('When its first day begins.'),
        ends_at: time('From when it has no cap.'),
      })
      .nullable()
      .describe('Where it stands in its plan; null: it is not new, or its plan is over.'),
  })
  .meta({ id: 'SendingAddress', description: 'An address that mail leaves from.' });

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
    description: 'As it is now.',
    schema: z.object({
      destination,
      ...(name === 'flush' && { flushed: integer('How many recipients are due now that were not.') }),
      ...(name !== 'pause' && {
        rest_follows: flag(
          'There were more than a call of seconds can see to; nodes that deliver go on with the rest.',
        ),
      }),
    }),
    example: {
      destination: example,
      ...(name === 'flush' && { flushed: 3 }),
      ...(name !== 'pause' && { rest_follows: false }),
    },
  },
});

export const destinationGroup: Group = {
  name: 'Destinations',
  description:
    'For the operators of the server: where mail goes, how much each gets at a time and why, and stopping it.',
  operations: [
    {
      id: 'listDestinations',
      method: 'get',
      path: '/api/v1/admin/destinations',
      summary: 'List destinations',
      description:
        'Every site that mail waits for, that was sent to within the hour, or that is paused; those with most waiting first. And what mail leaves from: the `SENDING_IPS` of all nodes that deliver.',
      access: 'admin',
      query: destinationQuery,
      answer: {
        description: 'One page.',
        schema: z.object({
          destinations: list(destination, 'The sites.'),
          count: integer('How many there are in all, of those that were asked for.'),
          sending_ips: list(sendingAddress, 'By pool; empty where the system chooses the address.'),
        }),
        example: { destinations: [example], count: 1, sending_ips: [sendingExample] },
      },
    },
    order(
      'pause',
      'Pause a destination',
      'Nothing more is tried there until it is resumed. What is under way ends by itself; nodes hear of it within a second.',
    ),
    order(
      'resume',
      'Resume a destination',
      'What waits for it goes on at once. Where more than a few hundred thousand wait, the call answers before all are due, and the rest follows, unless it is paused again.',
    ),
    order(
      'flush',
      'Flush a destination',
      'Tries everything that waits for it now, whatever was seen of it. What is scheduled for later, or paused, is left. Where more than a few hundred thousand wait, the call answers before all are due, and the rest follows.',
    ),
  ],
};
