import t from 'tap';
import { at } from '../http/scene.ts';
import { eventually } from '../support/node.ts';
import { startSubmitter } from './scene.ts';

const png = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154', 'hex');

/** The same email for the REST API and for nodemailer. */
const emails = (from: string) => {
  const text = 'Grüße\n.\n..dots\n\nFrom the start of a line, and a long one: '.padEnd(1_200, 'x ');
  const html = '<p>Grüße <img src="cid:logo@b.test"></p>\n<p>=3D &amp; so on</p>';
  const csv = 'größe;1\r\n\r\nend';
  return [
    {
      rest: {
        from: `Jörg, "the" One <${from}>`.replace(/^(.*) </, '"Jörg, \\"the\\" One" <'),
        to: 'Ann <ann@b.test>',
        subject: 'Plain',
        text: 'one line',
      },
      smtp: {
        from: { name: 'Jörg, "the" One', address: from },
        to: 'Ann <ann@b.test>',
        subject: 'Plain',
        text: 'one line',
      },
    },
    {
      rest: {
        from,
        to: ['Ann <ann@b.test>', 'b@b.test'],
        cc: ['"C, D" <c@b.test>'],
        bcc: ['hidden@b.test'],
        reply_to: ['Hilfe Größe <r@b.test>'],
        subject: `Grüße ${'sehr lange Wörter '.repeat(10)}end`,
        text,
        html,
        headers: {
          'X-Entity-Ref-ID': '42',
          'List-Unsubscribe': '<https://b.test/u>, <mailto:u@b.test>',
          'X-Wort': 'Größe eins',
        },
        tags: ['a', 'b c'],
        type: 'marketing',
        on_uncertain: 'hold',
        tls: 'opportunistic',
        attachments: [
          {
            filename: 'logo.png',
            content: png.toString('base64'),
            content_type: 'image/png',
            content_id: 'logo@b.test',
          },
          {
            filename: 'Größen (1).csv',
            content: Buffer.from(csv).toString('base64'),
            content_type: 'text/csv; charset=utf-8',
          },
          {
            filename: 'mail.eml',
            content: Buffer.from('Subject: x\r\n\r\nbody').toString('base64'),
            content_type: 'message/rfc822',
          },
        ],
      },
      smtp: {
        from,
        to: ['Ann <ann@b.test>', 'b@b.test'],
        cc: [{ name: 'C, D', address: 'c@b.test' }],
        bcc: 'hidden@b.test',
        replyTo: { name: 'Hilfe Größe', address: 'r@b.test' },
        subject: `Grüße ${'sehr lange Wörter '.repeat(10)}end`,
        text,
        html,
        headers: {
          'X-Entity-Ref-ID': '42',
          'List-Unsubscribe': { prepared: true, value: '<https://b.test/u>, <mailto:u@b.test>' },
          'X-Wort': 'Größe eins',
          'X-Sendwright-Tags': 'a, b c',
          'X-Sendwright-Type': 'marketing',
          'X-Sendwright-On-Uncertain': 'hold',
          'X-Sendwright-TLS': 'opportunistic',
        },
        attachments: [
          { filename: 'logo.png', content: png, contentType: 'image/png', cid: 'logo@b.test' },
          { filename: 'Größen (1).csv', content: csv, contentType: 'text/csv; charset=utf-8' },
          { filename: 'mail.eml', content: 'Subject: x\r\n\r\nbody', contentType: 'message/rfc822' },
        ],
      },
    },
  ];
};

// What differs between two equal emails: their ids and times.
const own = [
  'id',
  'email_id',
  'api_key_id',
  'message_id',
  'created_at',
  'job_id',
  'next_attempt_at',
  'sent_at',
  'updated_at',
  'settled_at',
];

t.test(
  'the same email by the REST API and by SMTP gives the same rows, and the same bytes to its recipients',
  async (t) => {
    const { node, sender } = await startSubmitter(t, { roles: 'api,mta' });
    const { key, from, mail, read, account } = await sender();
    for (const { rest, smtp } of emails(from)) {
      const posted = await node.call('POST', '/api/v1/emails', { key, body: rest });
      t.equal(posted.status, 200, JSON.stringify(posted.body));
      const submitted = await read(await mail(smtp));
      const ids = [posted.body.email.id, submitted.id] as [string, string];
      for (const id of ids)
        await eventually(
          async () => (await node.call('GET', `/api/v1/emails/${id}`, { key })).body.email.status === 'sent',
        );
      for (const table of ['emails', 'email_contents', 'recipients']) {
        const [one, other] = await Promise.all(ids.map((id) => rows(table, id)));
        t.ok(one?.length, table);
        t.strictSame(other, one, table);
      }
      const [one, other] = await Promise.all(ids.map((id) => arrived(id)));
      t.ok(one?.length);
      t.strictSame(other, one, 'on the wire');
    }

    async function rows(table: string, id: string) {
      const column = table === 'emails' ? 'id' : 'email_id';
      const found = await node.db.query<{ row: Record<string, unknown> }>({
        text: `SELECT to_jsonb(r) AS row FROM ${table} r WHERE ${column} = $1 ORDER BY to_jsonb(r)->>'position'`,
        values: [id],
      });
      return found.map(({ row }) => Object.fromEntries(Object.entries(row).filter(([name]) => !own.includes(name))));
    }

    /** The sources as the recipients' servers got them, without what depends on the id, the time and the signature. */
    async function arrived(id: string) {
      const messages = await node.db.prisma.sandboxMessage.findMany({ where: { emailId: id, accountId: account.id } });
      return messages
        .map(({ raw, rcptTo }) => ({
          rcptTo: rcptTo.sort(),
          raw: Buffer.from(raw)
            .toString('utf8')
            .replaceAll(id, '<id>')
            .replace(/^DKIM-Signature: [\s\S]*?\r\n(?=\S)/, '')
            .replace(/^Date: .*$/m, 'Date: <date>')
            .replaceAll(/=_-[0-9a-f]{24}/g, '<boundary>'),
        }))
        .sort((a, b) => (String(a.rcptTo) < String(b.rcptTo) ? -1 : 1));
    }
  },
);

t.test('a scheduled email that came by SMTP can be moved and canceled with the API', async (t) => {
  const { node, sender } = await startSubmitter(t);
  const { mail, read, key } = await sender();
  const { id } = await read(await mail({ headers: { 'X-Sendwright-Scheduled-At': at(3_600_000) } }));
  const later = at(7_200_000);
  t.match(await node.call('PATCH', `/api/v1/emails/${id}`, { key, body: { scheduled_at: later } }), {
    status: 200,
    body: { email: { status: 'queued', scheduled_at: later } },
  });
  t.match(await node.call('DELETE', `/api/v1/emails/${id}`, { key }), {
    status: 200,
    body: { email: { status: 'canceled' } },
  });
});
