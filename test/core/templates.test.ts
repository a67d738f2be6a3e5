import t from 'tap';
import { resolve, type Sendable } from '../../src/core/emails/template-sending.ts';
import * as templates from '../../src/core/emails/templates.ts';
import type { Sql, Statement } from '../../src/db/client.ts';
import { ApiError } from '../../src/errors.ts';
import { newId } from '../../src/ids.ts';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

const empty = { from: null, subject: null, replyTo: [], html: null, text: null, variables: [] };
const addressed = { ...empty, from: 'a@b.test', subject: 's' };

const request = (ref: templates.TemplateRef, variables: Record<string, unknown> = {}): Sendable => ({
  from: null,
  subject: null,
  to: [parseMailbox('a@b.test')],
  cc: [],
  bcc: [],
  replyTo: [],
  headers: [],
  attachments: [],
  tags: [],
  type: 'transactional',
  tls: 'opportunistic',
  onUncertain: 'retry',
  scheduledAt: null,
  template: { ref, variables },
});

t.test('templates for sending', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const published = async (content: object, alias: string | null = null) => {
    const { id } = await templates.create(db, accountId, { name: 'n', alias, content: { ...addressed, ...content } });
    await templates.publish(db, accountId, id);
    return id;
  };

  t.test('are found in the order asked for, as far as there is room', async (t) => {
    const [one, other] = [{ html: 'é'.repeat(60), text: 'x'.repeat(40) }, { text: 'x'.repeat(100) }];
    const first = await published(one);
    const second = await published(other, 'second');
    const draft = await templates.create(db, accountId, { name: 'n', alias: 'draft', content: addressed });
    const refs = [
      { alias: 'second' },
      { id: first },
      { id: newId() },
      { id: draft.id },
      { alias: 'draft' },
      { id: second },
    ];
    const find = (most: number) => templates.findPublished(db, accountId, refs, most);
    const all = await find(200);
    t.match(all, [other, one, null, 'draft', 'draft', other]);
    t.equal(all[0], all[5], 'the same object');
    t.match(await find(199), ['too large', one, null, 'draft', 'draft', 'too large']);
    t.match(await find(99), ['too large', 'too large', null, 'draft', 'draft', 'too large']);
  });

  t.test('take one statement, however many emails name however many templates', async (t) => {
    const statements: string[] = [];
    const counting: Sql = {
      query<Row>(statement: Statement) {
        statements.push(statement.text);
        return db.query<Row>(statement);
      },
    };
    const ids = [await published({ text: 'one {{N}}' }), await published({ text: 'two {{N}}' }, 'two')];
    const requests = Array.from({ length: 1_000 }, (_, N) =>
      request(N % 2 ? { alias: 'two' } : { id: ids[0] ?? '' }, { N }),
    );
    const resolved = await resolve(counting, accountId, requests);
    t.equal(statements.length, 1);
    t.same(
      resolved.map((each) => (each instanceof ApiError ? each : each.text)),
      requests.map((_, index) => `${index % 2 ? 'two' : 'one'} ${index}`),
    );
    const plain = resolved.slice(0, 3);
    t.strictSame(await resolve(counting, accountId, plain as Sendable[]), plain);
    t.equal(statements.length, 1, 'and none if no template is named');
  });

  t.test('require only the values that are used', async (t) => {
    const id = await published({ from: '{{A}} <a@b.test>', subject: '{{B}}', replyTo: ['{{C}}'], text: 'text' });
    const bare = request({ id });
    t.match(await resolve(db, accountId, [bare]), [{ detail: 'template.variables.A: is required' }]);
    const given = { from: parseMailbox('c@d.test'), subject: 'own', replyTo: [parseMailbox('r@d.test')] };
    t.match(await resolve(db, accountId, [{ ...bare, ...given } as Sendable]), [
      { ...given, text: 'text', html: null },
    ]);
    const blank = await published({ html: '{{A}}', text: null });
    t.match(await resolve(db, accountId, [request({ id: blank }, { A: '' })]), [
      { detail: 'template: html and text are both empty when rendered' },
    ]);
  });
});
