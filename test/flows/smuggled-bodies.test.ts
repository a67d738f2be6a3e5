import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t from 'tap';
import { findWireDefect } from '../../src/mail/encoding/wire.ts';
import { show, smuggling } from '../mail/payloads.ts';
import { startDirectNode } from '../support/direct.ts';
import { eventually } from '../support/node.ts';
import { startSink } from '../support/sink.ts';

t.test(
  'SMG-01: a body that would end the message at a careless server arrives as one message, signed and whole',
  async (t) => {
    const sink = await startSink();
    t.teardown(() => sink.close());
    const node = await startDirectNode(t, { zone: { 'to.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
    const { account, domainId, zone } = node;
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
    const { dkim } = (await node.call('GET', `/api/v1/domains/${domainId}`, { token })).body.dns_records;
    zone.set(dkim.name, { TXT: [dkim.value] });

    const expected = new Map<string, string>();
    for (const [at, text] of smuggling.entries()) {
      const file = { filename: 'a.txt', content_type: 'text/plain', content: Buffer.from(text).toString('base64') };
      const { template } = (
        await node.call('POST', '/api/v1/templates', {
          token,
          body: { name: 'n', subject: 's', text: '{{{BODY}}}', html: '<p>{{{BODY}}}' },
        })
      ).body;
      t.equal((await node.call('POST', `/api/v1/templates/${template.id}/publish`, { token })).status, 200);
      const forms: Record<string, Record<string, unknown>> = {
        text: { text },
        html: { html: text },
        both: { text, html: text, attachments: [file] },
        file: { text: 't', attachments: [file] },
        template: { template: { id: template.id, variables: { BODY: text } }, subject: undefined },
      };
      for (const [form, fields] of Object.entries(forms)) {
        const name = `${at}-${form}`;
        const body = { from: node.from, to: `${name}@to.test`, subject: name, ...fields };
        const { status, body: answer } = await node.call('POST', '/api/v1/emails', { key: node.key, body });
        // PostgreSQL accepts no NUL in a text, so those never reach a server; in a file they do.
        if (text.includes('\0') && form !== 'file')
          t.match([status, answer.detail], [400, String], `${name} ${show(text)}`);
        else {
          t.equal(status, 200, `${name} ${answer.detail ?? ''}`);
          expected.set(`${name}@to.test`, show(text));
        }
      }
    }
    t.ok(expected.size > 45);
    await eventually(async () => sink.messages.length >= expected.size);
    t.strictSame(
      sink.messages.map(({ to }) => to.join()).sort(),
      [...expected.keys()].sort(),
      'each once, and no other',
    );
    t.ok(
      sink.messages.every(({ from }) => from.startsWith('bounces+')),
      'from nobody else',
    );
    const resolver = (name: string, type: string) => zone.resolver.resolve(name, type as 'TXT') as Promise<string[][]>;
    for (const { raw, to } of sink.messages) {
      const what = `${to} ${expected.get(to.join())}`;
      t.equal(findWireDefect(raw, 0), null, what);
      const { results } = await dkimVerify(raw, { resolver });
      t.strictSame(
        results.map(({ status }) => status.result),
        ['pass'],
        what,
      );
    }
  },
);
