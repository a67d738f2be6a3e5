import { once } from 'node:events';
import net from 'node:net';
import Koa from 'koa';
import { pino } from 'pino';
import t from 'tap';
import { readJson, releaseBody } from '../../src/http/body/body.ts';
import { jsonFault } from '../../src/http/body/json-fault.ts';
import { accessLog, errors, requestId, securityHeaders } from '../../src/http/middleware.ts';
import { listen } from '../../src/http/server.ts';
import { Metrics } from '../../src/process/metrics.ts';
import { buildSender } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { startGate } from '../support/gate.ts';
import { type CallOptions, eventually, startTestNode, type TestNode } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

const MB = 1024 * 1024;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** An account that can send and is logged in, on the shared node unless another is given. */
async function start(own?: TestNode) {
  const node = own ?? (await sharedNode('api'));
  const sender = await buildSender(node.db, encryptionKey);
  const { body } = await node.call('POST', '/api/v1/auth/login', { body: sender.account });
  return { node, ...sender, token: body.token as string };
}

/** Posts bytes unchanged. */
async function post(
  node: TestNode,
  path: string,
  headers: Record<string, string>,
  body: NonNullable<RequestInit['body']>,
) {
  const response = await fetch(`${node.baseUrl}${path}`, { method: 'POST', headers, body });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** Writes bytes to the port and returns all that comes back, until the server closes or `done` returns true. */
async function converse(node: TestNode, bytes: Iterable<string>, done = (_got: string) => false) {
  const socket = net.connect(Number(new URL(node.baseUrl).port), '127.0.0.1');
  let got = '';
  let error: string | null = null;
  socket.on('error', (reason: NodeJS.ErrnoException) => (error = reason.code ?? reason.message));
  const ended = new Promise<void>((resolve) => {
    socket.on('close', () => resolve());
    socket.on('data', (chunk) => {
      got += chunk.toString('latin1');
      if (done(got)) resolve();
    });
  });
  for (const piece of bytes) {
    if (socket.destroyed) break;
    if (!socket.write(piece, 'latin1')) await Promise.race([once(socket, 'drain'), ended]);
  }
  await ended;
  socket.destroy();
  return { got, error };
}

t.test('a body that is not a JSON object in UTF-8 is refused with the reason', async (t) => {
  const { node, token } = await start();
  const nested = (depth: number) => `{"domain":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
  const bytes = (hex: string) =>
    Buffer.concat([Buffer.from('{"domain":"'), Buffer.from(hex, 'hex'), Buffer.from('"}')]);
  const cases: [what: string, body: string | Uint8Array, detail: string][] = [
    ['nothing', '', 'the body is empty: it must be a JSON object'],
    ...['{', '}', '[1', '{"a":1,}', "{'a':1}", 'NaN', 'undefined', '{"a":1}{"b":2}', '{"a":"\n"}', '{"a":"', '\0'].map(
      (body): [string, string, string] => [JSON.stringify(body), body, `the body is not JSON: ${jsonFault(body)}`],
    ),
    ...['[]', '[{"domain":"a.test"}]', '"text"', 'null', '1', 'true'].map((body): [string, string, string] => [
      body,
      body,
      'the body must be a JSON object',
    ]),
    ['a lone byte', bytes('ff'), 'the body is not UTF-8'],
    ['an overlong slash', bytes('c0af'), 'the body is not UTF-8'],
    ['a surrogate in UTF-8', bytes('eda080'), 'the body is not UTF-8'],
    [
      'UTF-16',
      Buffer.from('{"domain":"a.test"}', 'utf16le'),
      'the body is not JSON: line 1, column 2: expected a name in double quotes or }, found ?',
    ],
    ['33 levels', nested(33), 'the body is nested deeper than 32 levels'],
    ['32 levels', nested(32), 'domain: must be a string'],
    [
      'brackets in a string',
      `{"domain":"${'[{'.repeat(40)}\\"${'[{'.repeat(40)}\\\\"}`,
      'domain: contains "[", which is not allowed',
    ],
    ['a name given twice', '{"domain":"good.test","domain":7}', 'domain: must be a string'],
    [
      'a name of Object.prototype',
      '{"__proto__":{"domain":"good.test"},"constructor":{"prototype":{"x":1}}}',
      'domain: is required',
    ],
  ];
  for (const [what, body, detail] of cases) {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const answer = await post(node, '/api/v1/domains', headers, body);
    t.strictSame(answer, { status: 400, body: { error: 'invalid request', detail } }, what);
  }
  t.equal(({} as { x?: number }).x, undefined);
  const marked = Buffer.concat([Buffer.from('efbbbf', 'hex'), Buffer.from('{"domain":7}')]);
  const answer = await post(
    node,
    '/api/v1/domains',
    { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    marked,
  );
  t.equal(answer.body.detail, 'domain: must be a string', 'a byte order mark does not matter');
});

t.test('characters that only an escape can write are found anywhere, in one email and in a batch', async (t) => {
  const { node, token, domain } = await start();
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  const open = `{"from":"a@${domain}","to":"b@c.test","subject":"s","html":"`;
  const wrong = [
    ['\\u0000', 'contains a NUL character'],
    ['\\uDC00', 'contains half of a surrogate pair'],
    ['\\\\\\ud800', 'contains half of a surrogate pair'],
  ];
  for (const at of [open.length, MB - 6, MB - 3, MB - 2, MB - 1, MB, 2 * MB - 1]) {
    for (const [written, why] of wrong) {
      const email = `${open}${'x'.repeat(at - open.length)}${written}"}`;
      const answer = await post(node, '/api/v1/emails', headers, email);
      t.strictSame(answer, { status: 400, body: { error: 'invalid request', detail: `html: ${why}` } }, `at ${at}`);
    }
  }
  const batch = `{"emails":[${open}fine"},${open}${'x'.repeat(MB)}\\ud83d"}]}`;
  t.match(await post(node, '/api/v1/emails/batch', headers, batch), {
    status: 400,
    body: { detail: 'emails[1].html: contains half of a surrogate pair' },
  });
  for (const text of ['\\u00e9 \\uD83D\\uDE00', 'C:\\\\users', 'é 😀', '\\n']) {
    const { status, body } = await post(node, '/api/v1/emails', headers, `${open}${text}"}`);
    t.equal(status, 200, text);
    const { body: shown } = await node.call('GET', `/api/v1/emails/${(body.email as { id: string }).id}/content`, {
      token,
    });
    t.equal(shown.html, JSON.parse(`"${text}"`));
  }
});

t.test('only uncompressed JSON is read: DOS-01', async (t) => {
  const { node } = await start();
  const login = '/api/v1/auth/login';
  for (const type of [
    'text/plain',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'application/json-seq',
    'x',
    '',
  ])
    t.strictSame(
      await post(node, login, { 'Content-Type': type }, '{}'),
      {
        status: 415,
        body: {
          error: 'unsupported media type',
          detail: 'the body must be JSON, with the header Content-Type: application/json',
        },
      },
      type,
    );
  t.strictSame(await post(node, login, { 'Content-Type': 'application/json; charset=latin1' }, '{}'), {
    status: 415,
    body: { error: 'unsupported media type', detail: 'the body must be UTF-8' },
  });
  for (const type of ['application/json', 'Application/JSON; charset=utf-8', 'application/problem+json'])
    t.equal((await post(node, login, { 'Content-Type': type }, '{}')).status, 400, type);
  const plain = { 'Content-Type': 'application/json', 'Content-Encoding': 'Identity' };
  t.equal((await post(node, login, plain, '{}')).status, 400, 'not compressed');
  for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'gzip, identity', 'x'])
    t.strictSame(
      await post(node, login, { 'Content-Type': 'application/json', 'Content-Encoding': encoding }, Buffer.alloc(50)),
      { status: 415, body: { error: 'unsupported media type', detail: 'the body must not be compressed' } },
      encoding,
    );
});

t.test('a call without required fields accepts an empty body', async (t) => {
  const { node, key, token } = await start();
  const made = await node.call('POST', '/api/v1/templates', {
    token,
    body: { name: 'n', subject: 's', text: 'Hello' },
  });
  const added = await node.call('POST', '/api/v1/domains', { token, body: { domain: 'empty.example.com' } });
  const login = { Authorization: `Bearer ${token}` };
  const render = `/api/v1/templates/${made.body.template.id}/render`;
  for (const [path, headers, member] of [
    [render, { 'X-API-Key': key }, 'text'],
    [`/api/v1/domains/${added.body.domain.id}/rotate-dkim`, login, 'dkim_keys'],
  ] as const) {
    const { status, body } = await post(node, path, headers, '');
    t.equal(status, 200, path);
    t.ok(member in body, path);
    // If there is a body, it must be JSON.
    t.equal((await post(node, path, headers, 'a=b')).status, 415, path);
    t.equal((await post(node, path, { ...headers, 'Content-Type': 'application/json' }, ' ')).status, 400, path);
  }
  t.equal((await post(node, '/api/v1/templates', login, '')).status, 415, 'other calls need a body');

  // From a client that says only after the headers that there is none, as with HTTP/2, a proxy announces one of unknown length.
  const chunked = async (path: string, headers: Record<string, string>, body: string) => {
    const lines = Object.entries({ ...headers, Host: 'x', Connection: 'close', 'Transfer-Encoding': 'chunked' });
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    const part = body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`;
    const { got } = await converse(node, [`POST ${path} HTTP/1.1\r\n${head}\r\n`, `${part}0\r\n\r\n`]);
    return Number(got.split(' ')[1]);
  };
  const json = { 'Content-Type': 'application/json' };
  const verify = `/api/v1/domains/${added.body.domain.id}/verify`;
  const verified = await post(node, verify, login, '');
  t.equal(await chunked(verify, login, ''), verified.status);
  t.equal(await chunked(verify, { ...login, ...json }, ''), verified.status);
  t.equal(await chunked(verify, { ...login, ...json }, '{"a": 1}'), 400);
  const byKey = { 'X-API-Key': key };
  t.equal(await chunked(render, byKey, ''), 200);
  t.equal(await chunked(render, { ...byKey, ...json }, ''), 200);
  t.equal(await chunked(render, { ...byKey, ...json }, '{}'), 200);
  t.equal(await chunked(render, byKey, '{}'), 415);
  t.equal(await chunked('/api/v1/templates', { ...login, ...json }, ''), 400, 'other calls need a body');
});

t.test('a body that is too large is refused before it is read, and the client sees the answer: DOS-01', async (t) => {
  const { node } = await start();
  const limit = 16 * 1024;
  const json = { 'Content-Type': 'application/json' };
  const exactly = `{"email":"${'x'.repeat(limit - 12)}"}`;
  t.equal((await post(node, '/api/v1/auth/login', json, exactly)).status, 400, 'exactly the limit');
  const tooLarge = {
    error: 'payload too large',
    detail: `the body must have at most 16 KB (${limit.toLocaleString('en-US')} bytes)`,
  };
  t.strictSame(await post(node, '/api/v1/auth/login', json, `${exactly} `), { status: 413, body: tooLarge });

  const head = 'POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';
  const next = 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
  const megabytes = 32;
  function* declared() {
    yield `${head}Content-Length: ${megabytes * MB}\r\n\r\n`;
    for (let i = 0; i < megabytes; i += 1) yield 'GET / HTTP/1.1\r\n'.repeat(MB / 16);
    yield next;
  }
  function* chunked() {
    yield `${head}Transfer-Encoding: chunked\r\n\r\n`;
    for (let i = 0; i < megabytes; i += 1) yield `100000\r\n${'x'.repeat(MB)}\r\n`;
    yield `0\r\n\r\n${next}`;
  }
  for (const [what, bytes] of Object.entries({ declared, chunked })) {
    const { got, error } = await converse(node, bytes());
    t.equal(error, null, `${what}: the connection is not reset under the client`);
    t.strictSame(
      got.match(/HTTP\/1\.1 \d+/g),
      ['HTTP/1.1 413', 'HTTP/1.1 200'],
      `${what}: what follows is read as the next request`,
    );
    t.ok(got.includes(JSON.stringify(tooLarge)), what);
  }
  function* closing() {
    yield `${head}Connection: close\r\nContent-Length: ${megabytes * MB}\r\n\r\n`;
    for (let i = 0; i < megabytes; i += 1) yield 'x'.repeat(MB);
  }
  const last = await converse(node, closing());
  t.equal(last.error, null, 'nor is it under a client that asks for the connection to be closed');
  t.match(last.got, /^HTTP\/1\.1 413/);
  const begun = performance.now();
  const closed = [`${head}Connection: close\r\nContent-Length: ${megabytes * MB}\r\n\r\n{`];
  const waiting = await converse(node, closed, (got) => got.includes(JSON.stringify(tooLarge)));
  t.match(waiting.got, /^HTTP\/1\.1 413[\s\S]*\r\nConnection: close\r\n/);
  t.ok(performance.now() - begun < 20_000, 'one that waits for the answer has it at once');
  const early = await converse(node, [`${head}Content-Length: ${megabytes * MB}\r\n\r\n{`], (got) =>
    got.includes(tooLarge.error),
  );
  t.match(early.got, /^HTTP\/1\.1 413/, 'a declared length is enough');
});

t.test('every answer has an id and its security headers, and an error contains only its own words', async (t) => {
  const { node, key, token } = await start();
  const reader = (await node.call('POST', '/api/v1/keys', { token, body: { name: 'r', scopes: ['read'] } })).body.key;
  const id = '01890000-0000-7000-8000-000000000000';
  const byToken: [method: string, path: string][] = [
    ['POST', '/api/v1/keys'],
    ['GET', '/api/v1/keys'],
    ['DELETE', `/api/v1/keys/${id}`],
    ['POST', '/api/v1/domains'],
    ['GET', '/api/v1/domains'],
    ['GET', `/api/v1/domains/${id}`],
    ['POST', `/api/v1/domains/${id}/verify`],
    ['DELETE', `/api/v1/domains/${id}`],
    ['GET', '/api/v1/sandbox/messages'],
    ['GET', `/api/v1/sandbox/messages/${id}`],
  ];
  const byKey: [method: string, path: string][] = [
    ['POST', '/api/v1/emails'],
    ['POST', '/api/v1/emails/batch'],
    ['DELETE', `/api/v1/emails/${id}`],
    ['PATCH', `/api/v1/emails/${id}`],
    ['GET', '/api/v1/emails'],
    ['GET', `/api/v1/emails/${id}`],
    ['GET', `/api/v1/emails/${id}/attempts`],
  ];
  const cases: [
    method: string,
    path: string,
    options: CallOptions,
    status: number,
    error: string | null,
    allow?: string,
  ][] = [
    ['GET', '/', {}, 200, null],
    ['GET', '/healthz', {}, 200, null],
    ['GET', '/readyz', {}, 200, null],
    ['GET', '/api/v1/emails', { key }, 200, null],
    ['OPTIONS', '/api/v1/emails', {}, 200, null, 'GET, HEAD, POST'],
    ['POST', '/api/v1/emails', { key: reader, body: {} }, 403, 'forbidden'],
    ['PUT', '/api/v1/emails', { key, body: {} }, 405, 'method not allowed', 'GET, HEAD, POST'],
    ['DELETE', '/healthz', {}, 405, 'method not allowed', 'GET, HEAD'],
    ['PUT', `/api/v1/domains/${id}`, { token }, 405, 'method not allowed', 'DELETE, GET, HEAD, PATCH'],
    ['GET', '/api/v1/auth/login', {}, 405, 'method not allowed', 'POST'],
    ['PROPFIND', '/api/v1/emails', {}, 405, 'method not allowed', 'GET, HEAD, POST'],
    ['PROPFIND', '/nowhere', {}, 404, 'not found'],
    ...[
      '/nowhere',
      '/api',
      '/api/v1',
      '/api/v2/emails',
      '/api/v1/emails/',
      '/API/v1/emails',
      '//api/v1/emails',
      '/api/v1//emails',
      '/api/v1/emails;x',
      '/api/v1/%65mails%2f',
      '/api/v1/emails%00',
      `/api/v1/emails/${id}/nothing`,
      '/%',
      '/%E0%A4%A',
      `/${'x'.repeat(5_000)}`,
    ].map((path): (typeof cases)[number] => ['GET', path, { key, token }, 404, 'not found']),
    ...[...byToken, ...byKey].flatMap(([method, path]): typeof cases => [
      [method, path, {}, 401, 'unauthorized'],
      [method, path, { key: token, token: key }, 401, 'unauthorized'],
      [method, path, { token: `${token}x`, key: `${key}x` }, 401, 'unauthorized'],
      [
        method,
        path,
        { headers: { Authorization: 'Basic eDp5', Cookie: `token=${token}; key=${key}` } },
        401,
        'unauthorized',
      ],
    ]),
    ...byToken.map(([method, path]): (typeof cases)[number] => [method, path, { key }, 401, 'unauthorized']),
  ];
  const ids = new Set<string | null>();
  for (const [method, path, options, status, error, allow] of cases) {
    const what = `${method} ${path.slice(0, 60)} ${Object.keys(options)}`;
    const answer = await node.call(method, path, options);
    t.equal(answer.status, status, what);
    if (error !== null) t.strictSame(answer.body, { error }, what);
    if (allow !== undefined) t.equal(answer.headers.get('allow')?.split(', ').sort().join(', '), allow, what);
    t.match(answer.headers.get('x-request-id'), uuid, what);
    t.match(
      Object.fromEntries(answer.headers),
      {
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
        'content-security-policy': /^default-src 'none'; (style-src 'sha256-\S+'; )?frame-ancestors 'none'/,
      },
      what,
    );
    for (const name of [
      'x-powered-by',
      'server',
      'access-control-allow-origin',
      'set-cookie',
      'strict-transport-security',
    ])
      t.notOk(answer.headers.has(name), what);
    ids.add(answer.headers.get('x-request-id'));
  }
  t.equal(ids.size, cases.length, 'all ids are different');

  const close = 'Host: evil.example\r\nX-Forwarded-Host: evil.example\r\nConnection: close\r\n';
  const noHost = /^HTTP\/1\.1 400 .*\{"error":"invalid request","detail":"Host: must be given exactly once"\}$/s;
  const noUrl = /^HTTP\/1\.1 400 .*\{"error":"invalid request","detail":"the address of the request is not a URL"\}$/s;
  const noHttp =
    /^HTTP\/1\.1 400 .*\r\n\r\n\{"error":"invalid request","detail":"this is not HTTP\/1\.1: (?:Invalid|Expected) [^"]*"\}$/s;
  const answeredFirst = /^HTTP\/1\.1 200 .*\{"status":"ok"\}HTTP\/1\.1 400 .*"this is not HTTP\/1\.1[^"]*"\}$/s;
  const tooLarge =
    /^HTTP\/1\.1 431 Request Header .*\{"error":"headers too large","detail":"[^"]* must have at most 16,384 bytes [^"]*"\}$/s;
  for (const [request, answered] of [
    [`GET / HTTP/1.1\r\n${close}\r\n`, /^HTTP\/1\.1 200 /],
    [`NONSENSE / HTTP/1.1\r\n${close}\r\n`, noHttp],
    ['\x16\x03\x01\0\xa5', noHttp],
    [`GET / HTTP/1.1\r\n${close}X: ${'x'.repeat(20_000)}\r\n\r\n`, tooLarge],
    [`GET /?${'x'.repeat(20_000)} HTTP/1.1\r\n${close}\r\n`, tooLarge],
    [`GET / HTTP/1.1\r\n${close}X y: z\r\n\r\n`, noHttp],
    [
      `POST /api/v1/emails HTTP/1.1\r\n${close}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      /^HTTP\/1\.1 400 /,
    ],
    ['GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', noHost],
    [`GET /healthz HTTP/1.1\r\nHost: other.example\r\n${close}\r\n`, noHost],
    [`GET http://[/healthz HTTP/1.1\r\n${close}\r\n`, noUrl],
    [`GET //a@]# HTTP/1.1\r\n${close}\r\n`, noUrl],
    [`GET http://any.example/healthz HTTP/1.1\r\n${close}\r\n`, /^HTTP\/1\.1 200 .*\{"status":"ok"\}$/s],
    ['GET /healthz HTTP/1.0\r\n\r\n', /^HTTP\/1\.1 200 /],
    // As C programs end a text. Whoever got the refusal for the answer would send the same email again.
    ...['\0', 'zz', 'GET / HTTP/1.1\r\nX y: z\r\n\r\n'].map(
      (rest) => [`GET /healthz HTTP/1.1\r\nHost: any.example\r\n\r\n${rest}`, answeredFirst] as const,
    ),
    [`GET /healthz HTTP/1.1\r\n${close}Expect: something\r\n\r\n`, /^HTTP\/1\.1 200 .*\{"status":"ok"\}$/s],
    [
      `PUT /healthz HTTP/1.1\r\n${close}Expect: something\r\n\r\n`,
      /^HTTP\/1\.1 405 .*\{"error":"method not allowed"\}$/s,
    ],
  ] as const) {
    const { got } = await converse(node, [request]);
    t.match(got, answered, request.slice(0, 20).replaceAll(/[^ -~]/g, '?'));
    t.match(got, /^X-Request-Id: [0-9a-f-]{36}\r$/m);
    t.notMatch(got, /evil\.example/);
  }
});

t.test('a client that hangs up within its body does not look like a database that is away', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const app = new Koa();
  app.silent = true;
  app.use(requestId(log)).use(accessLog(new Metrics())).use(errors(log)).use(releaseBody);
  app.use(async (ctx) => {
    app.emit('begun');
    ctx.body = await readJson(ctx, MB);
  });
  const server = await listen(app, '127.0.0.1', 0);
  t.teardown(() => server.close(0));
  const begun = 'POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';
  for (const rest of [
    'Content-Length: 100\r\n\r\n{',
    'Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n',
    'Transfer-Encoding: chunked\r\n\r\nzz\r\n',
  ]) {
    const before = lines.length;
    const socket = net.connect(server.port, '127.0.0.1');
    socket.on('error', () => {});
    const isThere = once(app, 'begun');
    socket.write(begun + rest);
    await isThere;
    socket.destroy();
    await eventually(async () => lines.length > before);
    t.match(lines.slice(before), [{ status: 400, msg: 'request' }], rest);
  }
  t.equal(lines.length, 3, 'nothing else is logged');
});

t.test('without its database the service answers 503, and recovers by itself', async (t) => {
  const gate = await startGate(await createDatabase());
  // Registered before the node, so that it closes after it: a node says goodbye to its database.
  t.teardown(() => gate.close());
  const own = await startTestNode(t, { ENCRYPTION_KEY: encryptionKey.toString('hex'), DATABASE_URL: gate.url });
  const { node, key, token, account, domainId, from } = await start(own);
  const body = { from, to: 'a@b.test', subject: 's', text: 't' };
  const calls: [method: string, path: string, options: CallOptions][] = [
    ['GET', '/readyz', {}],
    ['POST', '/api/v1/auth/login', { body: account }],
    ['GET', '/api/v1/keys', { token }],
    ['POST', '/api/v1/keys', { token, body: { name: 'k' } }],
    ['GET', '/api/v1/domains', { token }],
    ['GET', `/api/v1/domains/${domainId}`, { token }],
    ['POST', `/api/v1/domains/${domainId}/verify`, { token }],
    ['POST', '/api/v1/emails', { key, body }],
    ['GET', '/api/v1/emails', { key }],
    ['GET', '/api/v1/sandbox/messages', { token }],
  ];
  /** The answer within eight seconds; asked again if the machine stood still meanwhile. */
  const soon = async (...call: (typeof calls)[number]) => {
    for (let again = 0; ; again += 1) {
      const asked = Date.now();
      const answer = await node.call(...call);
      const took = Date.now() - asked;
      if (took < 8_000 || again === 4) return { ...answer, took };
    }
  };
  gate.set('shut');
  for (const [method, path, options] of calls) {
    const { status, headers, body, took } = await soon(method, path, options);
    t.strictSame([status, body], [503, { error: 'unavailable' }], `${method} ${path}`);
    t.match(headers.get('retry-after'), /^[1-9]\d*$/);
    t.match(headers.get('x-request-id'), uuid);
    t.ok(took < 8_000, `${took} ms`);
  }
  t.strictSame((await node.call('GET', '/healthz')).body, { status: 'ok' }, 'the process is well');
  gate.set('open');
  for (const [method, path, options] of calls)
    await eventually(async () => (await node.call(method, path, options)).status === 200);
  t.equal(await node.db.prisma.email.count(), 1, 'what was refused is not stored');

  gate.set('mute');
  const { body: said, took } = await soon('GET', '/readyz', {});
  t.strictSame(said, { error: 'unavailable' });
  t.ok(took < 8_000, `a silent database counts as gone: ${took} ms`);
  gate.set('open');
  await eventually(async () => (await node.call('GET', '/readyz')).status === 200);
});

t.test('AUTH-13: with https, browsers are told to use nothing else', async (t) => {
  for (const [https, header] of [
    [true, 'max-age=31536000'],
    [false, null],
  ] as const) {
    const server = new Koa().use(securityHeaders(https)).listen(0, '127.0.0.1');
    t.teardown(() => server.close());
    await once(server, 'listening');
    const { port } = server.address() as net.AddressInfo;
    const { headers } = await fetch(`http://127.0.0.1:${port}/`);
    t.equal(headers.get('strict-transport-security'), header);
  }
});
