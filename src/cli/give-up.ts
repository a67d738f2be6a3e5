import { giveUp } from '../core/destinations/giving-up.ts';
import type { LeftAlone } from '../core/recipients/giving-up.ts';
import * as present from '../http/present.ts';
import { stopRequest } from '../http/routes/destinations.ts';
import type { Queue } from '../queue.ts';
import type { Command } from './command.ts';
import { withDatabase, withQueue } from './database.ts';
import { read, textOf } from './given.ts';
import { counted } from './table.ts';

export const stopDestination: Command = {
  summary: 'gives up all mail that waits for a domain',
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
    return withDatabase(env, say, async ({ db, url }) => {
      let stopped = 0;
      const onStopped = (some: number) => {
        stopped += some;
        given.progress(`${stopped} recipients`);
      };
      const call = (queue: Queue) => giveUp(db, queue, name, reason, { isTyped: true, onStopped });
      const result = await untilNoneRests(url, call).catch((error: unknown) => {
        if (stopped > 0)
          say(
            `${counted(stopped, 'recipient was', 'recipients were')} given up before the error: repeat this for the rest.`,
          );
        throw error;
      });
      const lines = [
        `${counted(stopped, 'recipient', 'recipients')} at ${result.domain} given up.`,
        ...linesOnLeftAlone(result),
      ];
      return { json: present.givenUp({ ...result, stopped }), text: lines.join('\n') };
    });
  },
};

/** Repeats the call as long as there was more than it had time for. @returns what the last one did */
export const untilNoneRests = <Done extends { rest: boolean }>(
  url: string,
  call: (queue: Queue) => Promise<Done>,
): Promise<Done> =>
  withQueue(url, async (queue) => {
    let done = await call(queue);
    while (done.rest) done = await call(queue);
    return done;
  });

/** What the operator has to know of the recipients that were not given up. */
export const linesOnLeftAlone = ({ inHand, held }: LeftAlone): string[] => [
  ...(inHand > 0 ? [`${counted(inHand, 'is', 'are')} being sent to right now: repeat this later.`] : []),
  ...(held > 0 ? [`${counted(held, 'is', 'are')} held until the owner of the email decides.`] : []),
];
