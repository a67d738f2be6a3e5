import { createTransport } from 'nodemailer';
import t from 'tap';
import { buildSender } from '../support/build.ts';
import { directEnv } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { startSink } from '../support/mx.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { startZone } from '../support/zone.ts';

const encryptionKey = testKey(7);

t.test(
  'SSRF-11: mail between two servers that point at each other, or at themselves, stops within two hops',
  async (t) => {
    const mxPort = await freePort();
    const zone = await startZone({
      'mail.one.test': { A: ['127.0.0.2'] },
      'mail.two.test': { A: ['127.0.0.3'] },
      'one.test': { MX: [[10, 'mail.one.test']] },
      'two.test': { MX: [[10, 'mail.two.test']] },
      'reader.test': { A: ['127.0.0.4'] },
      'other-name.test': { MX: [[10, 'alias.one.test']] },
      'alias.one.test': { A: ['127.0.0.2'] },
      'own-address.test': { A: ['127.0.0.5'] },
    });
    t.teardown(() => zone.close());

    const start = async (name: string, listensOn: string, sendsFrom: string) => {
      const node = await startTestNode(t, {
        ...directEnv(zone, mxPort),
        ENCRYPTION_KEY: encryptionKey.toString('hex'),
        MAIL_HOSTNAME: `mail.${name}.test`,
        SMTP_HOST: listensOn,
        INBOUND_SMTP_PORT: String(mxPort),
        SENDING_IPS: sendsFrom,
        // An allowed network does not include ourselves.
        ALLOW_PRIVATE_NETWORKS: '127.0.0.0/24',
      });
      const sender = await buildSender(node.db, encryptionKey);
      /** The only recipient at the end, with the phase and the code of its outcome. */
      const send = async (to: string) => {
        const body = { from: sender.from, to, subject: 's', text: 't' };
        const { id } = (await node.call('POST', '/api/v1/emails', { key: sender.key, body })).body.email;
        const email = await eventually(async () => {
          const answer = await node.call('GET', `/api/v1/emails/${id}`, { key: sender.key });
          return answer.body.email.status !== 'queued' && answer.body.email;
        });
        const { attempts } = (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: sender.key })).body;
        const { phase, enhanced_code: code } = attempts.at(-1);
        return [email.status, attempts.length, phase, code];
      };
      return { node, send };
    };
    const one = await start('one', '127.0.0.2', '127.0.0.5');
    const two = await start('two', '127.0.0.3', '127.0.0.3');

    // Sends everything it gets back to where it came from, like a mailbox that forwards to a wrong address.
    const reader = await startSink({
      host: '127.0.0.4',
      port: mxPort,
      onMessage: async ({ from, raw }) => {
        const host = from.endsWith('@mail.one.test') ? '127.0.0.2' : '127.0.0.3';
        const transport = createTransport({ host, port: mxPort, tls: { rejectUnauthorized: false } });
        for (const sender of ['', 'reader@reader.test'])
          await transport.sendMail({ envelope: { from: sender, to: from }, raw });
        return null;
      },
    });
    t.teardown(() => reader.close());

    t.strictSame(await one.send('a@one.test'), ['failed', 1, 'dns', '5.4.6'], 'its own name is not looked up');
    t.strictSame(await one.send('a@mail.one.test'), ['failed', 1, 'dns', '5.4.6']);
    t.strictSame(await one.send('a@own-address.test'), ['failed', 1, 'dns', '5.4.6'], 'its own address is not dialled');
    t.strictSame(await one.send('a@other-name.test'), ['failed', 1, 'greeting', '5.4.6'], 'its own greeting ends it');

    t.strictSame((await one.send('a@reader.test')).slice(0, 3), ['sent', 1, 'dot']);
    t.strictSame((await two.send('a@reader.test')).slice(0, 3), ['sent', 1, 'dot']);
    const [ofOne = '', ofTwo = ''] = reader.messages.map(({ from }) => from);
    t.match([ofOne, ofTwo], [/^bounces\+\S+@mail\.one\.test$/, /^bounces\+\S+@mail\.two\.test$/]);

    t.strictSame(await one.send('a@two.test'), ['failed', 1, 'rcpt', '5.7.1'], 'nothing is relayed');
    t.strictSame(await one.send('postmaster@mail.two.test'), ['failed', 1, 'dot', '5.6.0'], 'nobody reads it there');
    t.strictSame((await one.send(ofTwo)).slice(0, 3), ['sent', 1, 'dot'], 'a return path accepts anything');
    t.strictSame((await two.send(ofOne)).slice(0, 3), ['sent', 1, 'dot'], 'and answers nothing');

    for (const [{ node }, emails] of [
      [one, 8],
      [two, 2],
    ] as const) {
      const [left] = await node.db.query<Record<string, string>>({
        text: `SELECT (SELECT count(*) FROM emails) AS emails, (SELECT count(*) FROM attempts) AS attempts,
                    (SELECT count(*) FROM recipients WHERE next_attempt_at IS NOT NULL) AS waiting,
                    (SELECT count(*) FROM pgboss.job WHERE name = 'deliver' AND state < 'completed') AS jobs`,
      });
      t.strictSame(
        Object.values(left ?? {}).map(Number),
        [emails, emails, 0, 0],
        'one attempt for each, and nothing follows',
      );
    }
    t.equal(reader.messages.length, 2);
  },
);
