import t from 'tap';
import { retryHintMs } from '../../src/smtp/rules/retry-hint.ts';
import { least } from '../support/linear.ts';
import { replyOf } from './said.ts';

const minute = 60_000;

t.test('a server that names a waiting time gives a hint', async (t) => {
  const hints: [string, number][] = [
    ['451 4.7.1 Greylisting in action, please come back in 00:05:00', 5 * minute],
    [
      '450 4.2.0 Greylisted for 300 seconds (see http://isg.ee.ethz.ch/tools/postgrey/help/example.com.html)',
      5 * minute,
    ],
    ['450 Greylisted for 5 minutes (1)', 5 * minute],
    ['451 Greylisted. Please try again in 5 minutes.', 5 * minute],
    ['451 Greylisted, please try again in 180 seconds', 3 * minute],
    ['451 4.7.1 Temporary greylist, retry in 300s', 5 * minute],
    ['450 4.7.1 You are being greylisted, wait 10 minutes', 10 * minute],
    ['421 Try again later (in 15 mins)', 15 * minute],
    ['450 4.7.1 Deferred, retry after 20 min', 20 * minute],
    ['451 Your IP sent 300 messages in 10 minutes. Please wait 30 minutes before you try again', 30 * minute],
    ['451 Bitte versuchen Sie es in 5 Minuten erneut', 5 * minute],
    ['451 Bitte in 7 Minuten erneut versuchen', 7 * minute],
    ['451 Réessayez dans 4 minutes', 4 * minute],
    ['451 Inténtelo de nuevo en 6 minutos', 6 * minute],
    ['451 Повторите через 8 минут', 8 * minute],
    ['451 Please retry in 1 hour', 60 * minute],
    ['451 Bitte in 1 Stunde erneut versuchen', 60 * minute],
    ['451 Please come back in 00:10:30', 10.5 * minute],
    ['451 Please come back in 01:00:00', 60 * minute],
  ];
  for (const [line, ms] of hints) t.equal(retryHintMs(replyOf(line)), ms, line);
});

t.test('a hint is at least a minute and at most an hour', async (t) => {
  t.equal(retryHintMs(replyOf('451 try again in 5 seconds')), minute);
  t.equal(retryHintMs(replyOf('451 try again in 999999 hours')), 60 * minute);
  t.equal(retryHintMs(replyOf('451 try again in 24 hours')), 60 * minute);
  t.equal(retryHintMs(replyOf('451 come back in 99:59:59')), 60 * minute);
});

t.test('numbers that are not waiting times are no hint', async (t) => {
  const none = [
    '451 4.7.1 Greylisted, please try again later',
    '421 try again later, 500 messages in 10 minutes are too many',
    '450 more than 100 mails in 60 seconds; try again later',
    '421 4.4.2 timeout of 300 seconds exceeded',
    '451 try again at 10:15:30.250 UTC',
    '451 try again, error 4.3.2 in 192.0.2.1 m',
    '451 try again in 0 minutes',
    '451 come back in 00:00:00',
    '451 try again in -5 minutes',
    '451 try again in 5 microns',
    '451 try again in 1234567 seconds',
    '550 5.7.1 try again in 5 minutes',
    '451',
  ];
  for (const line of none) t.equal(retryHintMs(replyOf(line)), null, line);
});

t.test('DOS-06 looking for a hint is fast, whatever the text', async (t) => {
  for (const part of [
    'try again in ',
    '5 minutes ',
    '1',
    '00:00:',
    'in 5 min erneut',
    'again ',
    'for for ',
    'wait - ',
  ]) {
    const text = part.repeat(65_536 / part.length);
    const took = await least(() => retryHintMs({ code: 451, enhanced: null, text }), 50);
    t.ok(took < 50, `${part}: ${took} ms`);
  }
});
