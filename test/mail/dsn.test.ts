import t from 'tap';
import { judge } from '../../src/core/return-class.ts';
import { readNotice } from '../../src/mail/dsn.ts';
import { bounces } from './bounces/index.ts';

t.test('MAIL-05: what servers write is understood', async (t) => {
  t.ok(bounces.length >= 60, `${bounces.length} messages`);
  for (const { name, message, kind, says } of bounces) {
    const notice = readNotice(message);
    const read = notice.recipients.map((one) => {
      const { classification, permanent } = judge(one);
      return [one.address, classification, permanent];
    });
    t.strictSame({ kind: notice.kind, says: read }, { kind, says }, name);
  }
});
