import { once } from 'node:events';
import net, { type Socket } from 'node:net';
import t from 'tap';
import { buildSender } from '../support/build.ts';
import { type Json, operations } from '../support/contract.ts';
import { least } from '../support/linear.ts';
import { eventually } from '../support/node.ts';
import { goodBodies, nameOf, pathsOf, schemaAt, toJson, withValue } from './fields.ts';
import { encryptionKey, type Fields, startCaller } from './scene.ts';

const MB = 1024 * 1024;

/** A value of this size in the form of the good one: characters, entries or members, or the number itself. */
function sized(good: unknown, limit: string, size: number): unknown {
  if (limit === 'maximum') return size;
  if (limit === 'maxLength') return 'x'.repeat(size);
  if (limit === 'maxItems') return Array(size).fill(Array.isArray(good) ? good[0] : good);
  return Object.fromEntries(Array.from({ length: size }, (_, n) => [`X-${n}`.replace('-', '_'), 'v']));
}

/** The limits that a schema sets for one of its values, in any of its choices. */
function limitsOf(schema: Json): [limit: string, size: number][] {
  // Files are measured decoded; the tests of an email cover that.
  if (schema.contentEncoding) return [];
  const own = Object.entries(schema).filter(([name]) => /^max/.test(name)) as [string, number][];
  return [...own, ...((schema.anyOf ?? []) as Json[]).flatMap(limitsOf)];
}

/** Whether the detail is for one more than the limit. A string in place of a list is its first entry. */
const tooMuch = (name: string, size: number) => (detail: unknown) =>
  [`${name}: must `, `${name}[0]: must `].some((words) => String(detail).startsWith(words)) &&
  new RegExp(` (have|be) at most ${size}( characters| entries| addresses)?$`).test(
    String(detail).replaceAll(/(?<=\d),(?=\d{3})/g, ''),
  );

t.test('limits', async (t) => {
  const caller = await startCaller(t);
  const { node, call, from, nouns, token } = caller;
  const template = `/api/v1/templates/${nouns.templates}`;
  await node.call('PATCH', template, { token, body: { alias: 'welcome' } });
  await node.call('POST', `${template}/publish`, { token });
  const bodies = goodBodies(from, { id: nouns.templates ?? '', alias: 'welcome' }, nouns.keys ?? '');

  t.test('of each field of the reference: exactly the limit is accepted, one more is not', async (t) => {
    let tried = 0;
    for (const operation of operations) {
      const { operationId, requestBody, parameters = [] } = operation.operation;
      const schema = requestBody?.content['application/json']?.schema;
      const hold = async (name: string, size: number, send: (size: number) => ReturnType<typeof call>) => {
        const isTooMuch = tooMuch(name, size);
        const [taken, refused] = [await send(size), await send(size + 1)];
        const what = `${operationId} ${name}: ${size}`;
        t.ok(taken.status < 500 && !isTooMuch(taken.body.detail), `${what} ${taken.body.detail ?? ''}`);
        t.ok(refused.status === 400 && isTooMuch(refused.body.detail), `${what} + 1 ${refused.body.detail ?? ''}`);
        tried += 1;
      };
      for (const { name, schema } of parameters.filter((one) => one.in === 'query'))
        for (const [, size] of limitsOf(schema))
          await hold(name, size, (length) => call(operation, { query: `?${name}=${'x'.repeat(length)}` }));
      for (const make of (schema && bodies[operationId]) ?? []) {
        for (const at of pathsOf(make())) {
          for (const [limit, size] of limitsOf(schemaAt(schema ?? {}, at) ?? {})) {
            const good = at.reduce<unknown>((inner, part) => (inner as Fields)[part], make());
            await hold(nameOf(at), size, (length) =>
              call(operation, { body: toJson(withValue(make(), at, sized(good, limit, length))) }),
            );
          }
        }
      }
    }
    t.ok(tried > 60, `${tried} limits`);
  });

  t.test('that no schema can express', async (t) => {
    const by = (id: string) => operations.find(({ operation }) => operation.operationId === id) ?? Promise.reject(id);
    const day = 86_400_000;
    const stats = (ms: number, interval: string) => {
      const to = Date.parse('2026-01-31T00:00:00Z');
      return {
        query: `?from=${new Date(to - ms).toISOString()}&to=${new Date(to).toISOString()}&interval=${interval}`,
      };
    };
    const account = (password: string) => ({ body: { name: 'n', email: `${password}@c.test`, password } });
    const texts = (count: number) => ({ body: { html: '{{A}}'.repeat(count), text: '{{{A}}}'.repeat(count) } });
    // The list itself counts as a value, and so does the body.
    const values = (count: number) => ({ body: `{"unknown":[${'1,'.repeat(count - 2)}1]}` });
    // The email, its members and what is around them are eight.
    const valuesInBatch = (count: number) => ({
      body: `{"emails":[${JSON.stringify({ from, to: 'a@b.test', subject: 's', text: 't' })}],"unknown":[${'1,'.repeat(count - 8)}1]}`,
    });
    type Options = Parameters<typeof call>[1];
    const cases: [operation: string, taken: Options, refused: Options, detail: string][] = [
      [
        'getStats',
        stats(92 * day, 'day'),
        stats(92 * day + 1, 'day'),
        'from: must be at most 92 days before to if interval is day',
      ],
      [
        'getStats',
        stats(7 * day, 'hour'),
        stats(7 * day + 1, 'hour'),
        'from: must be at most 7 days before to if interval is hour',
      ],
      ['getStats', stats(1, 'day'), stats(0, 'day'), 'from: must be before to'],
      ['createAccount', account('xyzxyzxy'), account('xyzxyzx'), 'password: must have at least 8 characters'],
      ['changeTemplate', texts(1_000), texts(1_001), 'html: must have at most 1,000 placeholders'],
      ['changeTemplate', values(10_000), values(10_001), 'the body contains more than 10,000 values'],
      ['sendBatch', valuesInBatch(400_000), valuesInBatch(400_001), 'the body contains more than 400,000 values'],
      [
        'addCredit',
        { body: '{"amount":0.01}' },
        { body: '{"amount":0.0000001}' },
        'amount: must have at most two decimal places',
      ],
    ];
    for (const [id, good, bad, detail] of cases) {
      const operation = await by(id);
      const [taken, refused] = [await call(operation, good), await call(operation, bad)];
      t.ok(taken.status < 300, `${id}: ${taken.status} ${taken.body.detail ?? ''}`);
      t.match([refused.status, refused.body], [400, { error: 'invalid request', detail }], id);
    }
  });

  t.test('of time: 64 kB of anything in any text: DOS-06', async (t) => {
    const units = ['a', '<', '(', '"', '\\', 'a@b,', ' ', '{{{ ', ';x=', '=?', '.'];
    for (const operation of operations) {
      // The other operations take no such body, and a change is parsed like something new.
      if (operation.method === 'PATCH' || !/^send|Template$/.test(operation.operation.operationId)) continue;
      for (const make of bodies[operation.operation.operationId] ?? []) {
        for (const at of pathsOf(make())) {
          const good = at.reduce<unknown>((inner, part) => (inner as Fields)[part], make());
          if (typeof good !== 'string') continue;
          for (const unit of units) {
            const text = unit.repeat((64 * 1024) / unit.length);
            const body = toJson(withValue(make(), at, good + text));
            const took = await least(() => call(operation, { body }), 50);
            if (took > 50) t.fail(`${operation.operation.operationId} ${nameOf(at)} ${unit}: ${Math.round(took)} ms`);
          }
        }
      }
    }
  });

  t.test('of bodies, to the byte', async (t) => {
    const large: Record<string, number> = {
      sendEmail: 40 * MB,
      sendBatch: 64 * MB,
      rescheduleEmail: 40 * MB,
      resendEmail: MB,
      createTemplate: 40 * MB,
      changeTemplate: 40 * MB,
      renderTemplate: 40 * MB,
      importSuppressions: 4 * MB,
    };
    // In place: new memory for each would be most of the work.
    const memory = Buffer.alloc(64 * MB + 1, 'x');
    for (const operation of operations) {
      const { operationId, requestBody } = operation.operation;
      if (!requestBody) continue;
      const send = (bytes: number) => {
        const body = memory.subarray(0, bytes).fill('x');
        body.write('"');
        body.write('"', bytes - 1);
        return call(operation, { body });
      };
      const largest = large[operationId] ?? 64 * 1024;
      const isExact = operationId in large;
      const longer = await send(largest + 1);
      const size = Number(
        /must have at most \d+ [KM]B \(([\d,]+) bytes\)/.exec(longer.body.detail)?.[1]?.replaceAll(',', ''),
      );
      const detail = `the body must have at most ${size < MB ? `${size / 1024} KB` : `${size / MB} MB`} (${size.toLocaleString('en-US')} bytes)`;
      t.ok(isExact ? size === largest : size <= largest, `${operationId}: ${detail}`);
      const taken = await send(size);
      t.match([taken.status, taken.body.detail], [400, 'the body must be a JSON object'], operationId);
      const refused = size === largest ? longer : await send(size + 1);
      t.strictSame([refused.status, refused.body], [413, { error: 'payload too large', detail }], operationId);
    }
  });

  t.test('of all large bodies in progress together, and of those of one account: DOS-03', async (t) => {
    const { hostname, port } = new URL(node.baseUrl);
    const size = 64 * MB;
    /** What the first account leaves of its half of 256 MB. */
    const left = 100_000;
    const most = Buffer.alloc(size, ' ');
    const sockets: Socket[] = [];
    /** Sends bodies that never end, of this many bytes in total. */
    const fill = (key: string, bytes: number) => {
      const head = `POST /api/v1/emails/batch HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`;
      for (let rest = bytes; rest > 0; rest -= size - 1) {
        const socket = net.connect(Number(port), hostname);
        sockets.push(socket.on('error', () => {}));
        socket.write(head);
        socket.write(most.subarray(0, Math.min(rest, size - 1)));
      }
    };
    const json = { 'Content-Type': 'application/json' };
    const post = (key: string, body: string) => node.call('POST', '/api/v1/templates', { key, body, headers: json });
    const blank = (key: string, bytes: number) => post(key, ' '.repeat(bytes));
    const until503 = (key: string, bytes: number) =>
      eventually(async () => {
        const answer = await blank(key, bytes);
        return answer.status === 503 && answer;
      });
    const [first, second, third] = [
      caller.key,
      (await buildSender(node.db, encryptionKey)).key,
      (await buildSender(node.db, encryptionKey)).key,
    ];
    fill(first, 2 * size - left);
    const refused = await until503(first, left + 1);
    t.strictSame([refused.body, refused.headers.get('retry-after')], [{ error: 'unavailable' }, '2']);
    t.equal((await blank(first, left)).status, 400, 'what the account has room for is read');
    t.equal((await blank(second, left + 1)).status, 400, 'and so are bodies of others');
    fill(second, size);
    await until503(second, 70_000);
    t.equal((await blank(first, 70_000)).status, 503, 'now it has less room');
    t.equal((await blank(third, 2 * MB)).status, 400, 'a newcomer still finds room');
    fill(third, size / 2 - left);
    await until503(third, 1.5 * left + 1);
    t.equal((await blank(third, left)).status, 400, 'as much as it leaves to others');
    t.equal((await node.call('GET', '/healthz')).status, 200, 'a call without a body is answered');
    for (const key of [first, second, third])
      t.equal((await blank(key, 64 * 1024)).status, 400, 'and so is a small one, of any account');
    const login = await node.call('POST', '/api/v1/auth/login', {
      body: { email: 'nobody@a.test', password: 'wrong' },
    });
    t.equal(login.status, 401, 'such as a login');
    const whileItWaits = () =>
      node.db.transaction(async (tx) => {
        await tx.query({ text: 'LOCK TABLE templates' });
        let isOver = false;
        const waiting = post(third, JSON.stringify({ name: 'n', text: 'x'.repeat(70_000) })).finally(() => {
          isOver = true;
        });
        await eventually(async () => {
          // A transaction that is idle for long is ended.
          await tx.query({ text: 'SELECT 1' });
          return isOver || (await blank(third, left)).status === 503;
        });
        await tx.query({ text: 'ROLLBACK' });
        return (await waiting).status;
      });
    // On a full machine it may take longer than a call waits for a lock.
    const status = await eventually(async () => {
      const seen = await whileItWaits();
      return seen !== 503 && seen;
    });
    t.equal(status, 201, 'a body that waits for the database counts until it is answered');
    t.equal((await blank(third, left)).status, 400);
    const closed = sockets.map((socket) => once(socket, 'close'));
    for (const socket of sockets) socket.destroy();
    await Promise.all(closed);
    await eventually(async () => (await blank(first, left + 1)).status === 400);
    await eventually(async () => (await blank(third, 2 * MB)).status === 400);
  });
});
