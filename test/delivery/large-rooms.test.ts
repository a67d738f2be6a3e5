import t from 'tap';
import { lanesIn } from '../../src/delivery/preparation/preparation.ts';

const megabyte = 1024 ** 2;

t.test(
  'large emails that are sent take no more of a small memory than it has, and no less of a large one',
  async (t) => {
    const roomsIn = (gigabytes: number) => lanesIn(gigabytes * 1024 * megabyte).map(({ room }) => room / megabyte);
    t.strictSame(roomsIn(64), [64, 128]);
    t.strictSame(roomsIn(2), [64, 128]);
    t.strictSame(roomsIn(1), [32, 64], 'with twice as much a node of 1 GB was killed at each start again');
    t.strictSame(roomsIn(0.5), [16, 32]);
  },
);
