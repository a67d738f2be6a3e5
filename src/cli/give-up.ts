import { constants } from 'node:os';
import { giveUp } from '../core/destinations/giving-up.ts';
import type { LeftAlone } from '../core/recipients/giving-up.ts';
import * as present from '../http/present.ts';
import { stopRequest } from '../http/routes/destinations.ts';
import type { Queue } from '../queue.ts';
import type { Command, Say } from './command.ts';
import { withDatabase, withQueue } from './database.ts';
import { read, textOf } from './given.ts';
import { counted } from './table.ts';

export const stopDestination: Command = {
  help: [
    'Usage: sendwright queue stop <domain> [--reason <words>]',
    '',
    'For a domain that is gone or was mistyped: what waits for it, from all accounts, fails for good. This cannot be undone. The',
    'owners of the mail see in their log that an operator decided it on the command line, and the reason. Mail that is being sent, is scheduled for',
    'later or is held is left alone, and so is mail that is accepted later.',
  ].join('\n'),
  operands: ['domain'],
  options: { reason: { type: 'string' } },
  async run(env, say, given) {
    const [name = ''] = given.operands;
    const { reason = null } = read(stopRequest, { reason: textOf(given, 'reason') });
    return withDatabase(env, say, async ({ db, url, joined }) => {
      let stopped = 0;
      const onStopped = (some: number) => {
        stopped += some;
        given.progress(`${stopped} recipients`);
      };
      const call = (queue: Queue) => giveUp(db, queue, name, reason, { isTyped: true, onStopped });
      const soFar = () => (stopped > 0 ? `${counted(stopped, 'recipient was', 'recipients were')} given up` : null);
      given.progress('reading what waits');
      const result = await untilNoneRests({ url, joined, say, soFar }, call);
      const lines = [
        `${counted(stopped, 'recipient', 'recipients')} at ${result.domain} given up.`,
        ...linesOnLeftAlone(result),
      ];
      return { json: present.givenUp({ ...result, stopped }), text: lines.join('\n') };
    });
  },
};

interface Stopping {
  /** Of the database, and whether its server is another process's. */
  url: string;
  joined: boolean;
  say: Say;
  /** What was given up until now, which cannot be undone; null if nothing. */
  soFar(): string | null;
}

/**
 * Repeats the call as long as there was more than it had time for. If an error or a signal ends it, the operator is told what was
 * done by then.
 *
 * @returns what the last one did
 */
export async function untilNoneRests<Done extends { rest: boolean }>(
  { url, joined, say, soFar }: Stopping,
  call: (queue: Queue) => Promise<Done>,
): Promise<Done> {
  let isOver = false;
  const sayBefore = (end: string) => {
    const done = isOver ? null : soFar();
    isOver = true;
    if (done !== null) say(`${done} before ${end}: repeat this for the rest.`);
  };
  const interrupt = (signal: NodeJS.Signals) => {
    sayBefore(signal);
    // Otherwise the database is stopped at first.
    if (joined) process.exit(128 + constants.signals[signal]);
  };
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  try {
    return await withQueue(url, async (queue) => {
      let done = await call(queue);
      while (done.rest) done = await call(queue);
      return done;
    });
  } catch (error) {
    sayBefore('the error');
    throw error;
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  }
}

/** What the operator has to know of the recipients that were not given up. */
export const linesOnLeftAlone = ({ inHand, held }: LeftAlone): string[] => [
  ...(inHand > 0 ? [`${counted(inHand, 'is', 'are')} being sent to, or about to be: repeat this later.`] : []),
  ...(held > 0 ? [`${counted(held, 'is', 'are')} held until the owner of the email decides.`] : []),
];
