import t from 'tap';
import { classifyNotice } from '../../src/core/returns/return-class.ts';

const said = (diagnostic: string, phase: 'mail' | 'rcpt') =>
  classifyNotice({
    address: 'jane@example.com',
    aliases: [],
    action: 'failed',
    status: null,
    code: 550,
    diagnostic,
    phase,
  });

t.test('what is said about the sender says nothing about the recipient', async (t) => {
  for (const words of ['Unknown domain relay.test', 'Host unknown', '5.1.7 No such domain relay.test', 'User unknown'])
    t.equal(said(`550 ${words}`, 'mail').classification, 'sender', words);
  t.equal(said('550 Host unknown', 'rcpt').classification, 'bad_domain');
  t.equal(said('550 User unknown', 'rcpt').classification, 'bad_mailbox');
});
