import { createHash, randomUUID } from 'node:crypto';
import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import { eventTypes } from '../../src/core/webhooks/webhooks.ts';
import { createApp } from '../../src/http/app.ts';
import { openApiDocument } from '../../src/http/openapi/document.ts';
import type { Services } from '../../src/http/services.ts';
import { newId } from '../../src/ids.ts';
import { buildSender } from '../support/build.ts';
import {
  document,
  find,
  holdAnswer,
  type Json,
  mismatch,
  type OperationObject,
  operations,
} from '../support/contract.ts';
import { startTestNode } from '../support/node.ts';
import { sharedNode } from '../support/shared-node.ts';
import { buildNouns, encryptionKey, today, watchTables } from './scene.ts';

/** Method and path of every route that the app has. */
function routesOf(services: { sandbox: boolean }): string[] {
  const app = createApp({ jwtSecret: 'x', baseUrl: '', ...services } as Services);
  type Layer = { path: string; methods: string[] };
  const layers = app.middleware.flatMap((one) => (one as { router?: { stack: Layer[] } }).router?.stack ?? []);
  return layers.flatMap(({ path, methods }) =>
    methods.filter((method) => method !== 'HEAD').map((method) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`),
  );
}

const described = ({ paths }: { paths: Record<string, Json> }) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );

t.test('every route is in the document, and vice versa', async (t) => {
  for (const sandbox of [true, false]) {
    const routes = routesOf({ sandbox });
    t.ok(routes.length > 40, `${routes.length} routes`);
    t.strictSame(described(openApiDocument({ baseUrl: 'http://x', sandbox })).sort(), routes.sort());
  }
});

t.test('the document is valid OpenAPI 3.1', async (t) => {
  const { valid, errors } = await new Validator().validate({ ...structuredClone(document) });
  t.ok(valid, 'by the schema of the OpenAPI Initiative', { errors });
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length, 'operation ids are unique');
  const refs = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref = '']) => ref);
  t.ok(refs.length > 100);
  t.strictSame(
    refs.filter((ref) => find(ref) === undefined),
    [],
    'every reference leads somewhere',
  );
  const used = new Set(refs.map((ref) => ref.split('/').at(-1)));
  const { schemas, responses, headers, parameters } = document.components;
  t.strictSame(
    Object.keys({ ...schemas, ...responses, ...headers, ...parameters }).filter((name) => !used.has(name)),
    [],
    'every component is used',
  );
});

/** The places where a schema is empty, or has a member without a description. */
function gaps(schema: Json, path: string): string[] {
  const { properties = {}, items, anyOf = [], $ref, type } = schema as Record<string, Json & Json[]>;
  const empty = !type && !$ref && !('const' in schema) && !('enum' in schema) && anyOf.length === 0;
  return [
    ...(empty ? [`${path} says nothing`] : []),
    ...Object.entries(properties as Record<string, Json>).flatMap(([name, one]) => [
      ...(one.description || one.$ref ? [] : [`${path}.${name} has no description`]),
      ...gaps(one, `${path}.${name}`),
    ]),
    ...(items ? gaps(items, `${path}[]`) : []),
    ...(anyOf as Json[]).flatMap((one) => ('required' in one && !one.type ? [] : gaps(one, path))),
  ];
}

t.test('everything has a description', async (t) => {
  for (const { method, path, operation } of operations) {
    const name = `${method} ${path}`;
    const { summary, description, parameters = [], requestBody, responses } = operation;
    t.match({ summary, description }, { summary: /\w/, description: /\w.*\.$/ }, name);
    // Errors have components, which are checked below.
    const answers = Object.entries(responses).flatMap(([status, one]) => (Number(status) < 300 ? [one] : []));
    const bodies = [requestBody, ...answers].flatMap((one) => Object.values(one?.content ?? {}));
    t.strictSame(
      [
        ...parameters.flatMap((one) => [...(one.description ? [] : [one.name]), ...gaps(one.schema, one.name)]),
        ...bodies.flatMap(({ schema }) => gaps(schema, 'body')),
      ],
      [],
      name,
    );
    const declared = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter);
    t.strictSame(
      parameters.filter((one) => one.in === 'path').map((one) => one.name),
      declared,
      name,
    );
  }
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    t.ok(schema.description, `${name} has a description`);
    t.strictSame(gaps(schema, name), [], name);
  }
});

t.test('every list has pages', async (t) => {
  const lists = operations.filter(({ operation }) => /^list(?!Attempts)/.test(operation.operationId));
  t.ok(lists.length > 10);
  for (const { operation } of lists) {
    const names = operation.parameters?.map(({ name }) => name) ?? [];
    t.ok(names.includes('limit') && names.includes('offset'), operation.operationId);
  }
});

t.test('every example matches its schema', async (t) => {
  for (const { method, path, operation } of operations) {
    const { requestBody, responses } = operation;
    for (const { schema, example } of Object.values(requestBody?.content ?? {}))
      t.equal(mismatch(schema, example, 'requests'), null, `the request of ${method} ${path}`);
    for (const [status, { content }] of Object.entries(responses)) {
      for (const { schema, example, examples } of Object.values(content)) {
        const values = examples ? Object.values(examples).map(({ value }) => value) : [example];
        t.ok(
          values.length > 0 && values.every((value) => value !== undefined),
          `${status} of ${method} ${path} has one`,
        );
        const kind = path.endsWith('openapi.json') ? 'requests' : 'answers';
        for (const value of values) t.equal(mismatch(schema, value, kind), null, `${status} of ${method} ${path}`);
      }
    }
  }
  const { post } = document.webhooks.event as { post: OperationObject };
  const event = post.requestBody?.content['application/json'];
  const examples = Object.entries(event?.examples ?? {});
  t.equal(examples.length, 2);
  for (const [name, { value }] of examples) t.equal(mismatch(event?.schema ?? {}, value, 'answers'), null, name);
});

t.test('an undocumented answer is noticed', async (t) => {
  const json = new Headers({ 'Content-Type': 'application/json; charset=utf-8', 'X-Request-Id': newId() });
  const hold = (method: string, path: string, status: number, body: unknown, headers = json) =>
    holdAnswer(method, path, { status, headers, body });
  hold('GET', '/healthz', 200, { status: 'ok' });
  hold('GET', '/api/v1/keys?x=1', 200, { api_keys: [] });
  hold('PUT', '/api/v1/keys', 405, { error: 'method not allowed' });
  t.throws(() => hold('GET', '/healthz', 200, { status: 'ok', more: 1 }), /must NOT have additional properties/);
  t.throws(() => hold('GET', '/healthz', 200, {}), /must have required property 'status'/);
  t.throws(() => hold('GET', '/healthz', 204, {}), /this status is not declared/);
  t.throws(() => hold('GET', '/nowhere', 200, {}), /there is no such operation/);
  t.throws(() => hold('GET', '/api/v1/keys', 403, { error: 'go away' }), /must be equal to one of/);
  t.throws(() => hold('GET', '/api/v1/keys', 403, { error: 'forbidden', why: 1 }), /additional properties/);
  t.throws(() => hold('GET', '/healthz', 200, { status: 'ok' }, new Headers()), /X-Request-Id is missing/);
  t.throws(() => hold('GET', '/api/v1/keys', 401, { error: 'unauthorized' }), /WWW-Authenticate is missing/);
  t.throws(() => hold('GET', '/docs', 200, {}), /media type application\/json is not declared/);
});

t.test('wrong credentials, and the objects of others', async (t) => {
  // Not the shared one: its writes are watched.
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const { account, key } = await buildSender(node.db, encryptionKey);
  const login = async (email: string, password: string) =>
    (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body.token as string;
  const member = await login(account.email, account.password);
  const admin = await login('admin@example.test', node.adminPassword);
  const other = await buildSender(node.db, encryptionKey);
  const theirs = await buildNouns(node, { ...other, token: await login(other.account.email, other.account.password) });
  const written = await watchTables(node);

  for (const { method, path, operation } of operations) {
    const { security, requestBody } = operation;
    const body = requestBody && today(requestBody.content['application/json']?.example);
    const name = `${method} ${path}`;
    const call = (id: string, credentials: { key?: string; token?: string }) =>
      node.call(method, path.replace(/\{\w+\}/, encodeURIComponent(id)), { ...credentials, body });
    if (security.length === 0) continue;

    for (const credentials of [{}, { key: `${key}x` }, { token: `${member}x` }]) {
      const refused = await call(randomUUID(), credentials);
      t.strictSame([refused.status, refused.body], [401, { error: 'unauthorized' }], `${name} without a credential`);
    }
    const isAdmins = path.startsWith('/api/v1/admin/');
    if (isAdmins) t.match((await call(account.id, { token: member })).body, { error: 'forbidden' }, name);
    if (!path.includes('{')) continue;

    const noun = path.split('/{')[0]?.split('/').at(-1) ?? '';
    const its = theirs[noun];
    if (!isAdmins) t.ok(its, `${name}: buildNouns makes one of another account`);
    for (const scheme of security.flatMap((one) => Object.keys(one))) {
      const credentials = scheme === 'apiKey' ? { key } : { token: isAdmins ? admin : member };
      for (const id of [randomUUID(), 'none', ...(isAdmins ? [] : [its ?? ''])]) {
        const answer = await call(id, credentials);
        t.strictSame([answer.status, answer.body], [404, { error: 'not found' }], `${name} with ${id}`);
      }
    }
  }
  t.strictSame(await written(), [], 'nothing was changed');
});

t.test('the document and its page are served, and the page loads nothing', async (t) => {
  const node = await sharedNode('api');
  const served = await node.call('GET', '/api/v1/openapi.json');
  t.match(served.body, { openapi: /^3\.1/, info: { title: 'Sendwright' } });
  t.strictSame(Object.keys(served.body.paths), Object.keys(document.paths));
  const { status, headers, body: page } = await node.call('GET', '/docs');
  t.equal(status, 200);
  t.match(headers.get('content-type'), 'text/html');
  t.notMatch(headers.get('content-security-policy'), /unsafe|script/);
  t.notMatch(page, /<script|<link|<img|<iframe|src=|\son\w+=|style="/i);
  t.notMatch(page, /undefined|\[object/);
  for (const { operation, path } of operations) {
    t.ok(page.includes(`id="${operation.operationId}"`), `${operation.operationId} has an anchor`);
    t.ok(page.includes(path), `${path} is on the page`);
  }
  for (const [, example] of page.matchAll(/<pre>([^<]*)<\/pre>/g)) t.ok(example, 'no example is empty');
  const welcome = await node.call('GET', '/');
  t.match(welcome.body, 'href="/docs"');
  for (const shown of [page, welcome.body]) {
    const style = /<style>(.*)<\/style>/s.exec(shown)?.[1] ?? '';
    const hash = createHash('sha256').update(style).digest('base64');
    const policy = (shown === page ? headers : welcome.headers).get('content-security-policy');
    t.match(policy, `'sha256-${hash}'`, 'only its own style is allowed');
    t.notMatch(policy, /unsafe/);
  }
});

t.test(
  'the page says of a field what each entry may be, which names may be chosen, and how many there may be',
  async (t) => {
    const node = await sharedNode('api');
    const { body: page } = await node.call('GET', '/docs');
    const fieldOf = (operation: string, name: string) => {
      const section = page.slice(page.indexOf(`<section id="${operation}">`));
      return section.slice(section.indexOf(`<tr><td><code>${name}</code>`)).split('</tr>')[0];
    };
    for (const event of eventTypes) t.match(fieldOf('createWebhook', 'events'), `<code>${event}</code>`);
    t.match(fieldOf('createKey', 'scopes'), 'Each is one of <code>send</code>, <code>read</code>.');
    t.match(fieldOf('sendEmail', 'tags'), 'At most 50 entries. Each has at most 256 characters.');
    t.match(fieldOf('sendEmail', 'headers'), 'At most 50 entries.');
    const either = 'At most 1,000 characters. 1 to 100 entries. Each has at most 1,000 characters.';
    t.match(fieldOf('sendEmail', 'to'), either, 'a string or an array');
    t.match(fieldOf('sendBatch', 'emails'), '1 to 1,000 entries.');
    t.match(fieldOf('addCredit', 'amount'), 'More than 0. At most 1,000,000.');
    t.match(fieldOf('createTemplate', 'alias'), 'Must match <code>^[A-Za-z0-9._-]+$</code>.');
  },
);

t.test('where a schema can express what is refused, it does', async (t) => {
  const node = await sharedNode('api');
  const { account, key, from } = await buildSender(node.db, encryptionKey);
  const { token } = (
    await node.call('POST', '/api/v1/auth/login', { body: { email: account.email, password: account.password } })
  ).body;
  const email = { from, to: ['a@b.test'], subject: 's', text: 't' };
  const long = `${'x'.repeat(990)} <a@b.test>`;
  const variable = { key: '0', type: 'string' };
  const cases: [operation: string, body: Json, detail: RegExp][] = [
    ['changePassword', { current_password: 'x', new_password: 'sevench' }, /^new_password: must have at least 8 char/],
    ['sendEmail', { ...email, to: [] }, /^to: must name at least one/],
    ['sendEmail', { ...email, to: '' }, /^to\[0\]: /],
    ['sendEmail', { ...email, from: '' }, /^from: /],
    ['sendEmail', { ...email, from: long }, /^from: must have at most 1,000 characters/],
    ['sendEmail', { ...email, to: long }, /^to\[0\]: must have at most 1,000 characters/],
    ['sendEmail', { ...email, cc: ['c@b.test', long] }, /^cc\[1\]: must have at most 1,000 characters/],
    ['sendBatch', { emails: [{ ...email, to: [] }] }, /^emails\[0\]\.to: must name at least one/],
    ['createTemplate', { name: 'n', alias: 'a b' }, /^alias: must have only letters/],
    ['createTemplate', { name: 'n', reply_to: '' }, /^reply_to\[0\]: must not be empty/],
    ['createTemplate', { name: 'n', reply_to: [long] }, /^reply_to\[0\]: must have at most 1,000 characters/],
    ['createTemplate', { name: 'n', variables: [variable] }, /^variables\[0\]\.key: must have only letters/],
    ['addSuppression', { address: long }, /^address: must have at most 1,000 characters/],
  ];
  for (const [id, body, detail] of cases) {
    const found = operations.find(({ operation }) => operation.operationId === id);
    const schema = found?.operation.requestBody?.content['application/json']?.schema ?? {};
    const by = found?.operation.security.some((one) => one.apiKey) ? { key } : { token };
    const what = `${id} ${JSON.stringify(body).slice(0, 100)}`;
    const { status, body: answer } = await node.call(found?.method ?? '', found?.path ?? '', { ...by, body });
    t.match([status, answer], [400, { error: 'invalid request', detail }], what);
    t.ok(mismatch(schema, body, 'requests'), what);
  }
  const ids = operations.flatMap(({ operation }) => operation.parameters ?? []).filter(({ name }) => /_id$/.test(name));
  t.strictSame([...new Set(ids.map(({ schema }) => schema.format))], ['uuid']);
});

t.test('the requests in the examples are accepted', async (t) => {
  const node = await sharedNode('api');
  const { account, key } = await buildSender(node.db, encryptionKey);
  const tokenOf = async (body: Json) => (await node.call('POST', '/api/v1/auth/login', { body })).body.token as string;
  const member = await tokenOf({ email: account.email, password: account.password });
  const admin = await tokenOf({ email: 'admin@example.test', password: node.adminPassword });
  for (const { method, path, operation } of operations) {
    if (!operation.requestBody || path.includes('{')) continue;
    const body = today(operation.requestBody.content['application/json']?.example);
    const token = path.includes('/admin/') ? admin : member;
    const answer = await node.call(method, path, {
      ...(operation.security.some((one) => one.apiKey) ? { key } : { token }),
      body,
    });
    t.not(answer.body.error, 'invalid request', `${method} ${path}: ${JSON.stringify(answer.body).slice(0, 200)}`);
  }
});
