import { z } from 'zod';
import * as hold from '../core/operations/hold.ts';
import type { Database } from '../db/client.ts';
import { timestamp } from '../http/input/validation.ts';
import { type Command, type Given, Misuse, type Output } from './command.ts';
import { withDatabase, withQueue } from './database.ts';
import { read, textOf } from './given.ts';
import { nodesReact } from './queue.ts';
import { counted } from './table.ts';

const times = z.object({ 'due-by': timestamp.optional() });

export const beginHold: Command = {
  help: [
    'Usage: sendwright hold',
    '',
    'Within five seconds all nodes stop beginning deliveries and webhook calls. They still accept mail, and finish the work in',
    'progress. START_ON_HOLD=true starts the service on hold, as you need after a restore: see docs/backup.md.',
  ].join('\n'),
  run: async (env, say) =>
    withDatabase(env, say, async ({ db }) => {
      const since = await hold.begin(db);
      const waiting = await hold.countWaiting(db);
      return {
        json: { on_hold_since: since.toISOString(), waiting },
        text: `On hold since ${since.toISOString()}; ${counted(waiting, 'recipient was due then and is waiting', 'recipients were due then and are waiting')}. ${nodesReact('five seconds')}`,
      };
    }),
};

export const endHold: Command = {
  help: [
    'Usage: sendwright release --waiting send|fail [--due-by TIME]',
    '',
    'You decide what happens to the mail that was due when the hold began:',
    '',
    '  --waiting send   sends it, as you want if this database was not restored from a backup',
    '  --waiting fail   fails it, and reports this by webhook: it is never sent',
    '  --due-by TIME    with --waiting fail: fails the mail that was due by TIME instead. You need it if mail became due during the',
    '                   hold and Sendwright was started after that: it may have been the first start on the backup',
    '',
    'Mail that became due later (scheduled emails and retries) is sent at its time in either case.',
    '',
    'If this database was restored from a backup, the original may have sent mail since the backup was made that is due here:',
    'with send such mail arrives twice, and with fail whatever the original has not sent is lost.',
  ].join('\n'),
  options: { waiting: { type: 'string' }, 'due-by': { type: 'string' } },
  async run(env, say, given) {
    const choice = hold.choices.find((one) => one === textOf(given, 'waiting'));
    if (!choice) throw new Misuse('--waiting must be send or fail');
    const dueBy = read(times, { 'due-by': textOf(given, 'due-by') })['due-by'];
    if (dueBy && choice !== 'fail') throw new Misuse('--due-by needs --waiting fail');
    return withDatabase(env, say, async ({ db, url }) => {
      const beginnings = await hold.beginnings(db);
      if (beginnings === null) return { json: { released: false, failed: 0 }, text: 'The service is not on hold.' };
      const { first, last } = beginnings;
      if (dueBy && (dueBy < first.at || dueBy.getTime() > Math.max(Date.now(), last.at.getTime())))
        throw new Misuse(`--due-by must be between ${first.at.toISOString()}, when the hold began, and now`);
      if (choice === 'fail' && !dueBy && first.waiting < last.waiting) return undecided(beginnings);
      const waiting = dueBy ? await hold.countDueBy(db, dueBy) : first.waiting;
      const failed = await release(db, url, { choice, dueBy, waiting }, given);
      // Also what was accepted or became due during the hold, which is more than was to be decided on.
      const due = await hold.countDue(db);
      const fails = choice === 'fail' ? [counted(failed, 'recipient failed', 'recipients failed')] : [];
      const released = [...fails, counted(due, 'recipient is due now', 'recipients are due now')].join(', ');
      return {
        json: { released: true, failed, due },
        text: `Released: ${released}. Nodes start sending within five seconds.`,
      };
    });
  },
};

/** @returns how many recipients failed */
async function release(
  db: Database,
  url: string,
  { choice, dueBy, waiting }: { choice: hold.Choice; dueBy: Date | undefined; waiting: number },
  { progress }: Given,
): Promise<number> {
  const onProgress = (done: number) => progress(`${done} of ${waiting} recipients failed`);
  const { failed } = await withQueue(url, (queue) => hold.end(db, queue, choice, onProgress, dueBy));
  return failed;
}

/** Only the person who restored this database knows whether mail that was accepted before a start is new, or was sent elsewhere. */
function undecided({ first, last, starts }: hold.Beginnings): Output {
  const option = ({ at, waiting }: hold.Beginning) =>
    `--due-by ${at.toISOString()}   ${counted(waiting, 'recipient fails', 'recipients fail')}`;
  return {
    failed: true,
    json: {
      released: false,
      failed: 0,
      undecided: { on_hold_since: first.at, waiting: first.waiting, starts, waiting_at_last_start: last.waiting },
    },
    text: [
      `Not released: of ${counted(last.waiting, 'recipient', 'recipients')}, ${last.waiting - first.waiting} became due during the hold, before a start of Sendwright.`,
      'Was that a start on a backup that was made during the hold? Then the original may have sent to them since. If the same',
      'installation was started again, nobody has sent to them. Choose one, and run the command again with it:',
      '',
      `  ${option(first)}: nothing was restored since the hold began`,
      `  ${option(last)}: a backup was restored before this start`,
      '',
      `If a backup was restored before another start, give the time of the first start on it. Starts: ${starts.map((at) => at.toISOString()).join(', ')}.`,
    ].join('\n'),
  };
}
