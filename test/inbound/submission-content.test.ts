import { Readable } from 'node:stream';
import type { SMTPServerDataStream } from 'smtp-server';
import t from 'tap';
import { ContentRoom } from '../../src/inbound/submission-content.ts';

const large = Buffer.from(`${'x'.repeat(998)}\r\n`.repeat(38 * 1024));

/** A message of 38 MB that is received, and stays until `leave`. */
function arriving(room: ContentRoom, accountId: string) {
  let leave = () => {};
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const refused = new Promise<string>((resolve, reject) => {
    const stream = Readable.from([large]) as unknown as SMTPServerDataStream;
    room
      .read(accountId, stream, async () => {
        resolve('');
        await left;
      })
      .catch((error: Error) => (error.name === 'Refusal' ? resolve(error.message) : reject(error)));
  });
  return { leave, refused };
}

t.test(
  'incoming messages share limited room, an account gets as much as it leaves to others, and what is finished gives it back',
  async (t) => {
    const room = new ContentRoom();
    const enter = async (accountId: string) => {
      const message = arriving(room, accountId);
      return { ...message, refused: await message.refused };
    };
    const ofOne = [await enter('one'), await enter('one'), await enter('one')];
    t.strictSame(
      ofOne.map(({ refused }) => refused),
      ['', '', ''],
    );
    const full = /^4\.3\.0 too many large messages/;
    t.match((await enter('one')).refused, full);
    t.equal((await enter('two')).refused, '', 'another account finds room');
    t.match((await enter('two')).refused, full, 'but only for one, as it has to leave as much');
    t.equal((await enter('three')).refused, '', 'which the next account finds');
    t.match((await enter('four')).refused, full, 'until less than a whole message is left');
    ofOne[0]?.leave();
    await ofOne[0]?.refused;
    t.equal((await enter('four')).refused, '');
  },
);
