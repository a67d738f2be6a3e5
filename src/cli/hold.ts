import * as hold from '../core/hold.ts';
import { silentLog } from '../log.ts';
import { createQueue } from '../queue.ts';
import { type Command, Misuse } from './command.ts';
import { withDatabase } from './database.ts';
import { textOf } from './given.ts';
import { hears } from './queue.ts';
import { counted } from './table.ts';

export const beginHold: Command = {
  summary: 'nothing is sent any more, on any node, until sendwright release',
  help: [
    'Usage: sendwright hold',
    '',
    'Within five seconds no node begins a delivery or a webhook call. Mail is accepted, and what is under way ends by itself.',
    'START_ON_HOLD=true does the same before a start, as after a restore: see docs/backup.md.',
  ].join('\n'),
  run: async (env, say) =>
    withDatabase(env, say, async ({ db }) => {
      const since = await hold.begin(db);
      const waiting = await hold.countWaiting(db);
      return {
        json: { on_hold_since: since.toISOString(), waiting },
        text: `On hold since ${since.toISOString()}; ${counted(waiting, 'recipient was due then and waits', 'recipients were due then and wait')}. ${hears('five seconds')}`,
      };
    }),
};

export const endHold: Command = {
  summary: 'sends again after a hold',
  help: [
    'Usage: sendwright release --waiting send|fail',
    '',
    'What was due when the hold began may have been sent by what this database is a copy of, since that copy was made.',
    '',
    '  --waiting send   sends it: what was sent meanwhile arrives twice',
    '  --waiting fail   does not: it fails, its senders are told by webhook, and what was not sent meanwhile is not sent',
    '',
    'What became due later, as it was scheduled or to be tried again, is sent at its time in either case.',
  ].join('\n'),
  options: { waiting: { type: 'string' } },
  async run(env, say, given) {
    const choice = hold.choices.find((one) => one === textOf(given, 'waiting'));
    if (!choice) throw new Misuse('--waiting must be send or fail');
    return withDatabase(env, say, async ({ db, url }) => {
      if ((await hold.find(db)) === null) return { json: { released: false, failed: 0 }, text: 'Nothing is on hold.' };
      const queue = createQueue(url, silentLog);
      await queue.start();
      try {
        const waiting = await hold.countWaiting(db);
        const { failed } = await hold.end(db, queue, choice, (done) =>
          given.progress(`${done} of ${waiting} recipients failed`),
        );
        const told =
          choice === 'fail'
            ? counted(failed, 'recipient failed', 'recipients failed')
            : counted(waiting, 'recipient is sent to now', 'recipients are sent to now');
        return { json: { released: true, failed }, text: `Released: ${told}. Nodes begin within five seconds.` };
      } finally {
        await queue.stop();
      }
    });
  },
};
