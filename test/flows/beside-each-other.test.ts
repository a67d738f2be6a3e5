import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { first, startHosts } from '../support/hosts.ts';
import { eventually } from '../support/node.ts';

t.test('recipients of one email at one destination', async (t) => {
  const { port, zone, hosts } = await startHosts(t, {
    'puts-off': { MAIL: first('451 4.3.0 later') },
    busy: { MAIL: '451 4.3.0 later' },
    takes: {},
  });
  zone['mx.dead.test'] = { A: ['127.0.0.250'] };
  const behind = (name: string, next: string) => {
    zone[`${name}.test`] = {
      MX: [
        [10, `mx.${name}.test`],
        [20, `mx.${next}.test`],
      ],
    };
  };
  behind('puts-off', 'dead');
  behind('busy', 'takes');
  const node = await startDirectNode(t, { zone, mxPort: port, env: { BASE_URL: 'https://send.test' } });
  const end = async (fields: Record<string, unknown>) => {
    const { id } = await node.send(fields);
    const email = await eventually(async () => {
      const read = await node.read(id);
      return read.status !== 'queued' && read;
    });
    const { attempts } = (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key })).body;
    return { email, attempts };
  };

  await t.test('a copy that was deferred, with no other host, costs the next one no attempt', async (t) => {
    const { email } = await end({ to: ['a@puts-off.test', 'b@puts-off.test', 'c@puts-off.test'], type: 'marketing' });
    t.match(email.recipients, [
      { status: 'delivered', attempts: 2 },
      { status: 'delivered', attempts: 1 },
      { status: 'delivered', attempts: 1 },
    ]);
    t.equal(hosts['puts-off'].copies.length, 3);
  });

  await t.test('MX-08: a blind copy to an address that needs SMTPUTF8 does not affect the others', async (t) => {
    const { email } = await end({ to: 'a@takes.test', cc: 'b@takes.test', bcc: 'jürgen@takes.test' });
    t.match(email.recipients, [
      { address: 'a@takes.test', status: 'delivered' },
      { address: 'b@takes.test', status: 'delivered' },
      { address: 'jürgen@takes.test', status: 'failed', last_response: /SMTPUTF8/ },
    ]);
    t.same(
      hosts.takes.copies.map(({ to }) => to),
      [['a@takes.test', 'b@takes.test']],
    );
  });

  await t.test('MX-09: mail that one host defers goes to the next, and the log shows both', async (t) => {
    const { email, attempts } = await end({ to: ['a@busy.test', 'b@busy.test'] });
    t.match(email.recipients, [
      { status: 'delivered', attempts: 1 },
      { status: 'delivered', attempts: 1 },
    ]);
    const story = attempts.map((one: Record<string, unknown>) => [one.mx_host, one.outcome, one.reply_code].join(' '));
    t.same(story, [...Array(2).fill('mx.busy.test deferred 451'), ...Array(2).fill('mx.takes.test delivered 250')]);
    t.same(hosts.takes.copies.at(-1)?.to, ['a@busy.test', 'b@busy.test']);
  });
});
