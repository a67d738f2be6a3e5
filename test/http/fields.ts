import { generateKeyPairSync } from 'node:crypto';
import { show } from '../mail/payloads.ts';
import { builtPassword } from '../support/build.ts';
import { find, type Json } from '../support/contract.ts';
import { at, type Fields } from './scene.ts';

const pem = String(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));

export type Path = (string | number)[];

/** For each operation with a body: bodies in which every field of the reference has a good value. */
export function goodBodies(
  from: string,
  template: { id: string; alias: string },
  keyId: string,
): Record<string, (() => Fields)[]> {
  const names = Array.from({ length: 5_000 }, (_, n) => `n${n}`).values();
  const fresh = () => names.next().value;
  const email = () => ({ from, to: ['a@b.test'], subject: 's', text: 't' });
  const content = () => ({
    name: 'n',
    alias: fresh(),
    from: '{{NAME}} <a@b.test>',
    subject: '{{NAME}}',
    reply_to: ['r@b.test'],
    html: '<p>{{NAME}}',
    text: '{{NAME}}',
    variables: [{ key: 'NAME', type: 'string', fallback_value: 'you' }],
  });
  const webhook = () => ({ url: 'https://hooks.example.com/', events: ['email.sent'] });
  return {
    sendEmail: [
      () => ({
        ...email(),
        cc: ['c@b.test'],
        bcc: ['d@b.test'],
        reply_to: ['r@b.test'],
        html: '<p>',
        headers: { 'X-A': 'v', References: '<a@example.test>' },
        tags: ['t'],
        attachments: [{ filename: 'a.txt', content: 'aGk=', content_type: 'text/plain', content_id: 'i' }],
        scheduled_at: at(3_600_000),
        type: 'marketing',
        tls: 'required',
        on_uncertain: 'hold',
      }),
      () => ({ from, to: ['a@b.test'], subject: 's', template: { id: template.id, variables: { NAME: 'Ann' } } }),
      () => ({ from, to: ['a@b.test'], subject: 's', template: { alias: template.alias } }),
    ],
    sendBatch: [() => ({ emails: [email()] })],
    releaseEmail: [() => ({ as: 'retry' })],
    stopEmails: [
      () => ({
        type: 'marketing',
        tag: 't',
        from,
        to: 'a@b.test',
        domain: 'b.test',
        q: 'news',
        api_key_id: keyId,
        created_after: at(-3_600_000),
        created_before: at(0),
      }),
    ],
    stopDestination: [() => ({ reason: 'the domain is gone' })],
    resendEmail: [() => ({ recipients: ['a@b.test'] })],
    rescheduleEmail: [() => ({ scheduled_at: at(7_200_000) })],
    createTemplate: [content],
    changeTemplate: [content],
    renderTemplate: [() => ({ variables: { NAME: 'Ann' }, version: 'draft' })],
    // The right time depends on what was changed before.
    publishTemplate: [() => ({ updated_at: null })],
    addSuppression: [() => ({ address: 'gone@b.test', reason: 'manual' })],
    importSuppressions: [() => ({ suppressions: [{ address: 'gone@b.test', reason: 'manual' }] })],
    eraseRecipient: [() => ({ address: 'nobody@b.test', suppression: 'remove' })],
    changeDomain: [() => ({ tls: 'required', pool: null })],
    addDomain: [() => ({ domain: `${fresh()}.example.com`, tls: 'required', pool: null })],
    rotateDkim: [() => ({ algorithm: 'ed25519', private_key: pem, selector: fresh() })],
    createKey: [
      () => ({ name: 'n', scopes: ['send'], domains: [from.slice(from.indexOf('@') + 1)], expires_at: at(3_600_000) }),
    ],
    createWebhook: [webhook],
    changeWebhook: [() => ({ ...webhook(), status: 'enabled' })],
    replayWebhook: [() => ({ since: at(-3_600_000), until: at(0) })],
    createAccount: [() => ({ name: 'n', email: `${fresh()}@b.test`, password: 'long enough', plan: 'free' })],
    changeAccount: [() => ({ name: 'n', plan: 'unlimited', suspended: false })],
    addCredit: [() => ({ amount: 0.5 })],
    createSession: [() => ({ email: 'admin@example.test', password: 'correct horse battery staple' })],
    changePassword: [() => ({ current_password: builtPassword, new_password: 'a new password' })],
    logIn: [() => ({ email: 'admin@example.test', password: 'correct horse battery staple' })],
  };
}

/** Whether a body was valid; its object may be in another state than it asks for. */
export const isTaken = (status: number) => status < 300 || status === 409;

/** The place of a field as a detail names it: `attachments[0].filename`. */
export const nameOf = (path: Path) =>
  path.map((part, index) => (typeof part === 'number' ? `[${part}]` : `${index ? '.' : ''}${part}`)).join('');

/** Every place in a body that has a value. */
export function pathsOf(value: unknown, at: Path = []): Path[] {
  const inner = Array.isArray(value)
    ? value.flatMap((one, index) => pathsOf(one, [...at, index]))
    : typeof value === 'object' && value !== null
      ? Object.entries(value).flatMap(([name, one]) => pathsOf(one, [...at, name]))
      : [];
  return at.length > 0 ? [at, ...inner] : inner;
}

/** The same place in the schema; undefined if the schema has no such field. */
export function schemaAt(schema: Json, path: Path): Json | undefined {
  const here = schema.$ref ? (find(String(schema.$ref)) as Json) : schema;
  const [first, ...rest] = path;
  if (first === undefined) return here;
  const { items, properties, additionalProperties, anyOf = [] } = here as Record<string, Json & Json[]>;
  const inner = typeof first === 'number' ? items : (properties?.[first] ?? additionalProperties);
  if (inner) return schemaAt(inner as Json, rest);
  const choice = (anyOf as Json[]).find((one) => one.items ?? one.properties);
  return choice && schemaAt(choice, path);
}

/** The names of all fields of a schema, as `attachments[].filename`. */
export function fieldsOf(schema: Json, at = ''): string[] {
  const { properties = {}, items, anyOf = [], $ref } = schema as Record<string, Json & Json[]>;
  if ($ref) return fieldsOf(find(String($ref)) as Json, at);
  return [
    ...Object.entries(properties as Record<string, Json>).flatMap(([name, one]) => {
      const path = at ? `${at}.${name}` : name;
      return [path, ...fieldsOf(one, path)];
    }),
    ...(items ? fieldsOf(items, `${at}[]`) : []),
    ...(anyOf as Json[]).flatMap((one) => (one.type ? fieldsOf(one, at) : [])),
  ];
}

/** A copy of the body with another value in one place; undefined removes it. */
export function withValue(body: Fields, [first = '', ...rest]: Path, value: unknown): Fields {
  const copy = (Array.isArray(body) ? [...body] : { ...body }) as Fields;
  copy[first] = rest.length > 0 ? withValue(copy[first] as Fields, rest, value) : value;
  return copy;
}

/** PostgreSQL stores none of these in any text. */
export const unstorable = ['\0', '\ud800', '\udc00\ud800'];
/** These start a line or a command where a value ends up in a header, a log or a terminal. */
export const controls = ['\r\nX-Evil: 1', '\n', '\r', '\t', '\x1b[31m', '\x7f', '\u0085', '\u2028'];

const nested = (depth: number): unknown => (depth === 0 ? [] : [nested(depth - 1)]);

/** Times that our clocks or columns cannot hold. */
export const oddTimes = ['0000-01-01T00:00:00Z', '1969-12-31T23:59:59Z', '9999-12-31T23:59:59-23:59'];

/** What a careless or hostile client sends instead of a good value. */
export function wrongValues(good: unknown): [what: string, value: unknown][] {
  const shown = (values: unknown[]) => values.map((value): [string, unknown] => [show(JSON.stringify(value)), value]);
  return [
    ['nothing', undefined],
    ...shown([null, true, 7, 'x', '', [], {}]),
    ['an array of arrays', nested(20)],
    ...(typeof good === 'number' ? shown([0, -1, 0.001, 1e-9, 2 ** 53, 1e308]) : []),
    ...(typeof good === 'number' ? [['1e400', tooLarge] as [string, unknown]] : []),
    ...(typeof good === 'string' ? textsLike(good) : []),
    ...(Array.isArray(good) ? shown([[null], { 0: good[0], length: 1 }, Array(1_500).fill(good[0])]) : []),
    ...(typeof good === 'object' && !Array.isArray(good)
      ? ['__proto__', 'constructor', '\0', '\ud800', 'a\r\nX-Evil', ' ', '', 'x'.repeat(5_000)].map(
          (name): [string, unknown] => [`a name ${show(name)}`, { ...good, [name]: 'x' }],
        )
      : []),
  ];
}

function textsLike(good: string): [what: string, value: unknown][] {
  const isTime = /^\d{4}-/.test(good);
  return [
    ...(isTime ? oddTimes : []).map((time): [string, unknown] => [time, time]),
    ['a long string', 'x'.repeat(12_000)],
    ['__proto__', '__proto__'],
    ...[...unstorable, ...controls, ' ', '<'.repeat(900)].map((text): [string, unknown] => [
      `behind it ${show(text)}`,
      good + text,
    ]),
    ...['\0', '\r\n', ' '].map((text): [string, unknown] => [`before it ${show(text)}`, text + good]),
  ];
}

/** A number that JSON can write and JavaScript cannot hold. */
const tooLarge = 'a number too large 1e400';
export const toJson = (body: unknown) => JSON.stringify(body).replaceAll(`"${tooLarge}"`, '1e400');
