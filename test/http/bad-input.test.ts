import t from 'tap';
import { newId } from '../../src/ids.ts';
import { show } from '../mail/payloads.ts';
import { mismatch, operations } from '../support/contract.ts';
import type { Answer } from '../support/node.ts';
import {
  controls,
  fieldsOf,
  goodBodies,
  isTaken,
  nameOf,
  oddTimes,
  pathsOf,
  toJson,
  unstorable,
  withValue,
  wrongValues,
} from './fields.ts';
import { type DescribedOperation, type Fields, startCaller, watchTables } from './scene.ts';

const related = (a: string, b: string) => a === b || (a.startsWith(b) && /^[.[]/.test(a.slice(b.length)));

/** Fields that depend on each other: the detail may name any of them. */
const together = [
  ['html', 'text', 'template'],
  ['since', 'until'],
  ['from', 'to'],
  ['algorithm', 'private_key'],
  ['template.id', 'template.alias'],
];

/** Whether the detail names the field, its parent or one of its members. */
function names(detail: string, field: string): boolean {
  const named = detail.split(': ')[0] ?? '';
  const inBatch = field.replace(/^emails\[0\]\./, '');
  const others = together.flatMap((group) => (group.includes(inBatch) ? group : []));
  // Only rendering shows what a value makes of a template.
  if (field.includes('variables.') && detail.endsWith('when rendered')) return true;
  const candidates = [field, ...others.map((other) => field.replace(inBatch, other))];
  return candidates.some((one) => related(named, one) || related(one, named));
}

/** Phrases of the validation library itself. */
const foreign = /invalid (input|option|string|key|element)|expected|received|too (big|small)|unrecognized|not valid/i;

/** Texts of several lines, which may contain what a header may not. */
const isText = (field: string) =>
  /^(emails\[0\]\.)?(html|text|password|private_key|(template\.)?variables\.\w+|variables\[0\]\.fallback_value)$/.test(
    field,
  );

/** An object that may be written as an empty array, as PHP does. */
const isEmptied = (field: string, value: unknown) =>
  /^(emails\[0\]\.)?(headers|(template\.)?variables)$/.test(field) && Array.isArray(value) && value.length === 0;

const holds = (value: unknown, parts: string[]) =>
  typeof value === 'string' && parts.some((part) => value.includes(part));

/**
 * What is wrong with the answer to a request with this value in this field; null if nothing is.
 *
 * @param invalid why the reference rejects the value
 */
function judge({ status, body }: Answer, field: string, value: unknown, invalid: string | null): string | null {
  const answered = `${status} ${show(JSON.stringify(body))}`;
  if (status >= 500) return answered;
  if (status < 300) {
    if (invalid && !isEmptied(field, value)) return `is taken, although the reference says: ${invalid}`;
    if (holds(value, unstorable)) return 'is taken, and cannot be stored';
    return holds(value, controls) && !isText(field) ? 'is taken, with control characters' : null;
  }
  if (status !== 400) return null;
  if (typeof body.detail !== 'string' || !names(body.detail, field)) return `is not named: ${answered}`;
  if (foreign.test(body.detail)) return `is not said in our words: ${answered}`;
  return /^\P{C}{1,300}$/u.test(body.detail) ? null : `cannot be read: ${answered}`;
}

t.test('bad input', async (t) => {
  const caller = await startCaller(t);
  const { node, call, from, nouns, token } = caller;
  const template = `/api/v1/templates/${nouns.templates}`;
  await node.call('PATCH', template, { token, body: { alias: 'welcome' } });
  await node.call('POST', `${template}/publish`, { token });
  const bodies = goodBodies(from, { id: nouns.templates ?? '', alias: 'welcome' }, nouns.keys ?? '');
  const written = await watchTables(node);
  const tally = new Map<number, number>();

  let refused = 0;

  /** Checks that the calls refused as bad input since the last check have left nothing behind. */
  async function holdUnwritten(): Promise<void> {
    const rows = await written();
    if (refused > 0 && rows.length > 0) t.fail(`${rows} by one of ${refused} refused calls`);
    refused = 0;
  }

  /** Calls the operation and judges its answer. */
  async function hold(
    operation: DescribedOperation,
    options: Parameters<typeof call>[1],
    [field, what, value]: [field: string, what: string, value: unknown],
    invalid: string | null,
  ): Promise<Answer> {
    // This call may succeed.
    if (invalid === null) await holdUnwritten();
    const answer = await call(operation, options);
    if (answer.status === 400) refused += 1;
    else await written();
    const problem = judge(answer, field, value, invalid);
    if (problem) t.fail(`${operation.operation.operationId} ${field}, ${what}: ${problem}`);
    tally.set(answer.status, (tally.get(answer.status) ?? 0) + 1);
    return answer;
  }

  t.test('in any field of any body', async (t) => {
    for (const operation of operations) {
      const { operationId, requestBody } = operation.operation;
      const schema = requestBody?.content['application/json']?.schema;
      if (!schema) continue;
      const good = bodies[operationId] ?? [];
      const given = new Set(
        good.flatMap((make) => pathsOf(make()).map((at) => nameOf(at).replaceAll(/\[\d+\]/g, '[]'))),
      );
      // The emails of a batch are tried as single ones.
      const lacking = fieldsOf(schema).filter((field) => !given.has(field) && !field.startsWith('emails[].'));
      t.strictSame(lacking, [], `the good body of ${operationId} has every field`);
      for (const make of good) {
        const { status, body } = await call(operation, { body: toJson(make()) });
        t.ok(isTaken(status), `${operationId} takes its good body: ${status} ${body.detail ?? ''}`);
        await written();
        for (const at of pathsOf(make())) {
          const value = at.reduce<unknown>((inner, part) => (inner as Fields)[part], make());
          for (const [what, wrong] of wrongValues(value)) {
            const body = toJson(withValue(make(), at, wrong));
            const invalid = mismatch(schema, JSON.parse(body), 'requests');
            await hold(operation, { body }, [nameOf(at), what, wrong], invalid);
          }
        }
        await holdUnwritten();
        await node.db.prisma.loginFailure.deleteMany();
        // Whatever was accepted, such as the suspension of our own account, is undone.
        t.ok(isTaken((await call(operation, { body: toJson(make()) })).status), `${operationId} takes it again`);
        await written();
      }
    }
    t.equal(({} as { polluted?: number }).polluted, undefined);
  });

  t.test('in any parameter of any query', async (t) => {
    const texts = ['', ' ', 'x', '-1', '1.5', '9'.repeat(20), '__proto__', "' OR 1=1--", 'x'.repeat(4_000)];
    // Half a surrogate pair, bytes that are not UTF-8, and invalid escapes.
    const malformed = ['%ED%A0%80', '%FF', '%E2%82', '%', 'a%2', '%zz', '%u0041', '%C0%AF'];
    const values = [
      ...[...texts, ...oddTimes, ...['\0', ...controls].map((text) => `x${text}`)].map(encodeURIComponent),
      ...malformed,
    ];
    const isNone = 'is not percent-encoded UTF-8 (write % as %25)';
    for (const operation of operations) {
      for (const { name, in: place, schema } of operation.operation.parameters ?? []) {
        if (place !== 'query') continue;
        const body = operation.operation.requestBody && toJson(bodies[operation.operation.operationId]?.[0]?.());
        for (const value of values) {
          const read = new URLSearchParams(`x=${value}`).get('x') ?? '';
          const meant = schema.type === 'integer' && /^\d+$/.test(read) ? Number(read) : read;
          const query = `?${name}=${value}`;
          const field: [string, string, string] = [name, value.slice(0, 60), read];
          const answer = await hold(operation, { query, body }, field, mismatch(schema, meant, 'requests'));
          if (malformed.includes(value))
            t.match([answer.status, answer.body.detail], [400, `${name}: ${isNone}`], `${name}=${value}`);
        }
        const twice = await hold(operation, { query: `?${name}=1&${name}=1`, body }, [name, 'twice', ''], null);
        const once = `${name}: may be given only once`;
        t.strictSame([twice.status, twice.body.detail], [400, once], `${operation.operation.operationId} ${once}`);
        const odd = await call(operation, {
          query: `?${name}[]=1&__proto__=1&constructor[prototype][x]=1&%00=%00`,
          body,
        });
        t.match(odd, { status: 400, body: { detail: /is not a parameter of this call$/ } });
        const unnamed = await call(operation, { query: `?${name}%zz=1`, body });
        t.match(unnamed, { status: 400, body: { detail: `the query: ${isNone}` } });
        await holdUnwritten();
      }
    }
  });

  t.test('in the name of a parameter', async (t) => {
    for (const operation of operations) {
      if (!operation.path.startsWith('/api/') || operation.path.endsWith('openapi.json')) continue;
      const body = operation.operation.requestBody && '{}';
      const answer = await call(operation, { query: '?dryrun=true', body });
      t.match(answer, { status: 400, body: { detail: 'dryrun: is not a parameter of this call' } }, operation.path);
    }
    t.strictSame(await written(), [], 'nothing was changed');
  });

  t.test('in the name of a parameter, after the credential is found right', async (t) => {
    const reader = (await node.call('POST', '/api/v1/keys', { token, body: { name: 'r', scopes: ['read'] } })).body.key;
    for (const [method, path, credential, status] of [
      ['GET', '/api/v1/emails', {}, 401],
      ['GET', '/api/v1/emails', { key: 'sk_live_none' }, 401],
      ['GET', '/api/v1/emails', { token: 'none' }, 401],
      ['GET', '/api/v1/domains', { token: 'none' }, 401],
      ['POST', '/api/v1/emails', { key: reader, body: {} }, 403],
      ['GET', '/api/v1/emails', { key: reader }, 400],
    ] as const)
      t.equal((await node.call(method, `${path}?dryrun=true`, credential)).status, status, `${method} ${path}`);
    const untidy = await node.call('GET', '/api/v1/emails?&limit=1&&offset=0&', { key: reader });
    t.equal(untidy.status, 200, 'a superfluous & names nothing');
    // That of the key.
    await written();
  });

  t.test('in any id', async (t) => {
    const id = newId();
    const none = [
      ...['\0', `${id}\0`, `${id}\n`, ` ${id}`, `{${id}}`, `urn:uuid:${id}`, `${id}x`, id.slice(1), "' OR 1=1--"],
      ...['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '__proto__', '../keys', '1'],
      ...['\u{1f600}', '\u2028', 'x'.repeat(4_000)],
    ];
    for (const operation of operations) {
      if (!operation.path.includes('{')) continue;
      const body = operation.operation.requestBody && toJson(bodies[operation.operation.operationId]?.[0]?.());
      for (const wrong of [...none.map(encodeURIComponent), '%', '%ED%A0%80', '%E0%A4%A']) {
        const path = operation.path.replace(/\{\w+\}/, wrong);
        const answer = await node.call(operation.method, path, { ...caller.credentialsFor(operation), body });
        // The error for a name that is not an id may also say what is wrong with it.
        const parameter = /\{(\w+)\}/.exec(operation.path)?.[1] ?? '';
        const isNamed = answer.status === 400 && parameter !== 'id' && names(String(answer.body.detail), parameter);
        const isUnknown = answer.status === 404 && JSON.stringify(answer.body) === '{"error":"not found"}';
        t.ok(isNamed || isUnknown, `${operation.method} ${path.slice(0, 80)}: ${answer.status}`);
      }
    }
    t.strictSame(await written(), [], 'nothing was changed');
  });

  t.test('in any documented header', async (t) => {
    for (const operation of operations) {
      const { parameters = [], operationId } = operation.operation;
      for (const { name, schema } of parameters.filter((one) => one.in === 'header')) {
        const good = bodies[operationId]?.[0];
        const body = good && toJson(good());
        const longest = operationId.padEnd(256, 'k');
        const odd = ['a\tb', '\x80\xff', '\xed\xa0\x80', '__proto__', '"'].map((text) => text + operationId);
        for (const value of [longest, '', `${longest}k`, ...odd]) {
          const invalid = mismatch(schema, value, 'requests');
          const { status } = await hold(
            operation,
            { body, headers: { [name]: value } },
            [name, show(value), ''],
            invalid,
          );
          t.equal(status, invalid ? 400 : 200, `${operationId} ${name} ${show(value.slice(0, 30))}`);
        }
      }
    }
  });

  t.test('in thousands of requests', async (t) => {
    t.comment(JSON.stringify([...tally]));
    t.ok((tally.get(400) ?? 0) > 2_000 && (tally.get(200) ?? 0) > 300, 'bad and good ones');
    t.notOk(tally.has(500));
  });
});
