import { z } from 'zod';
import * as hold from '../core/hold.ts';
import { timestamp } from '../http/validation.ts';
import { silentLog } from '../log.ts';
import { createQueue } from '../queue.ts';
import { type Command, Misuse, type Told } from './command.ts';
import { withDatabase } from './database.ts';
import { read, textOf } from './given.ts';
import { hears } from './queue.ts';
import { counted } from './table.ts';

const times = z.object({ 'due-by': timestamp.optional() });

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
    'Usage: sendwright release --waiting send|fail [--due-by TIME]',
    '',
    'What was due when the hold began may have been sent by what this database is a copy of, since that copy was made.',
    '',
    '  --waiting send   sends it: what was sent meanwhile arrives twice',
    '  --waiting fail   does not: it fails, its senders are told by webhook, and what was not sent meanwhile is not sent',
    '  --due-by TIME    with fail: what was due by then, and not by when the hold began, as that came with the backup; asked for',
    '                   where something became due on hold before a start, which may have been the first one on the backup',
    '',
    'What became due later, as it was scheduled or to be tried again, is sent at its time in either case.',
  ].join('\n'),
  options: { waiting: { type: 'string' }, 'due-by': { type: 'string' } },
  async run(env, say, given) {
    const choice = hold.choices.find((one) => one === textOf(given, 'waiting'));
    if (!choice) throw new Misuse('--waiting must be send or fail');
    const asked = read(times, { 'due-by': textOf(given, 'due-by') })['due-by'];
    if (asked && choice !== 'fail') throw new Misuse('--due-by goes with --waiting fail alone');
    return withDatabase(env, say, async ({ db, url }) => {
      const beginnings = await hold.beginnings(db);
      if (beginnings === null) return { json: { released: false, failed: 0 }, text: 'Nothing is on hold.' };
      const { first, last } = beginnings;
      if (asked && (asked < first.at || asked.getTime() > Math.max(Date.now(), last.at.getTime())))
        throw new Misuse(`--due-by must lie between ${first.at.toISOString()}, when the hold began, and now`);
      if (choice === 'fail' && !asked && first.waiting < last.waiting) return question(beginnings);
      const waiting = asked ? await hold.countDueBy(db, asked) : first.waiting;
      const queue = createQueue(url, silentLog);
      await queue.start();
      try {
        const { failed } = await hold.end(
          db,
          queue,
          choice,
          (done) => given.progress(`${done} of ${waiting} recipients failed`),
          asked,
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

/** Nobody but whoever restored this database knows whether what was accepted before a start is new, or was sent elsewhere. */
function question({ first, last, starts }: hold.Beginnings): Told {
  const said = ({ at, waiting }: hold.Beginning) =>
    `--due-by ${at.toISOString()}   ${counted(waiting, 'recipient fails', 'recipients fail')}`;
  return {
    failed: true,
    json: {
      released: false,
      failed: 0,
      undecided: { on_hold_since: first.at, waiting: first.waiting, starts, waiting_at_last_start: last.waiting },
    },
    text: [
      `Not released: of ${counted(last.waiting, 'recipient', 'recipients')}, ${last.waiting - first.waiting} became due when it was on hold already, before a start of Sendwright.`,
      'Was that a start on a backup that had been made during the hold? Then they may have been sent since, by what this database is',
      'a copy of. If it was the same installation that started again, nobody has sent them. Say which, and run it again with',
      '',
      `  ${said(first)}: nothing was restored since the hold began then`,
      `  ${said(last)}: it was restored before this start`,
      '',
      `Where it was restored before another one, give the time of the first start on it. Starts: ${starts.map((at) => at.toISOString()).join(', ')}.`,
    ].join('\n'),
  };
}
