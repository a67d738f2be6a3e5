import fc from 'fast-check';
import { goodBodies, pathsOf, toJson, withValue, wrongValues } from '../http/fields.ts';
import { type DescribedOperation, type Fields, watchTables } from '../http/scene.ts';
import { mismatch, operations } from '../support/contract.ts';
import { isJson } from '../support/is-json.ts';
import type { Answer } from '../support/node.ts';
import type { Target } from './target.ts';
import { equal, hold } from './texts.ts';

/** Password hashing is slow and guesses are counted, which test/http/passwords.test.ts covers. */
const leftOut = ['logIn', 'createSession', 'changePassword', 'createAccount'];

/** Replaces one value, with a count over all places. */
const change = fc.record({
  at: fc.nat(),
  value: fc.oneof(
    fc.nat().map((which) => ({ which })),
    fc.jsonValue({ maxDepth: 2 }).map((json) => ({ json })),
    fc.string({ unit: 'binary', maxLength: 40 }).map((json) => ({ json })),
  ),
});

type Change = typeof change extends fc.Arbitrary<infer One> ? One : never;

function changed(body: Fields, changes: Change[]): Fields {
  return changes.reduce((now, { at, value }) => {
    const paths = pathsOf(now);
    const path = paths[at % paths.length];
    if (!path) return now;
    if ('json' in value) return withValue(now, path, value.json);
    const here = path.reduce<unknown>((inner, part) => (inner as Fields)[part], now);
    const wrong = wrongValues(here);
    return withValue(now, path, wrong[value.which % wrong.length]?.[1]);
  }, body);
}

/** With an empty array for an object as one, which is taken for it: so does PHP write it. */
const withObjects = (body: string): unknown =>
  JSON.parse(body, (name, value) =>
    ['headers', 'variables'].includes(name) && Array.isArray(value) && value.length === 0 ? {} : value,
  );

/** How an accepted body differs from the reference; null: it does not. */
const differs = (schema: Fields, body: string): string | null =>
  mismatch(schema, JSON.parse(body), 'requests') && mismatch(schema, withObjects(body), 'requests');

/** Characters that are inserted into JSON, or removed from it. */
const torn = fc.array(
  fc.tuple(
    fc.nat(),
    fc.nat(3),
    fc.constantFrom(
      '',
      '"',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '\\',
      '0',
      'e',
      '-',
      'null',
      '\\u0000',
      '\\ud800',
      ' ',
      '\n',
    ),
  ),
  {
    maxLength: 4,
  },
);

export const bodies: Target = {
  name: 'bodies',
  quick: 40,
  async open(place) {
    const { node, call, from, nouns, token } = await place.caller();
    const template = `/api/v1/templates/${nouns.templates}`;
    await node.call('PATCH', template, { token, body: { alias: 'fuzzed' } });
    await node.call('POST', `${template}/publish`, { token });
    const good = goodBodies(from, { id: nouns.templates ?? '', alias: 'fuzzed' }, nouns.keys ?? '');
    const written = await watchTables(node);
    const all = operations.flatMap((operation) =>
      leftOut.includes(operation.operation.operationId)
        ? []
        : (good[operation.operation.operationId] ?? []).map((make) => ({ operation, make })),
    );
    const any = fc.nat(all.length - 1).map((at) => all[at] as (typeof all)[number]);
    const shown = fc.nat(all.length - 1).map((at) => {
      const { operation, make } = all[at] as (typeof all)[number];
      return { name: `${operation.operation.operationId} ${at}`, operation, make };
    });

    /** Calls, and checks what is true of every answer; `call` has compared it with the reference. */
    async function ask(operation: DescribedOperation, body: string): Promise<Answer> {
      await written();
      const answer = await call(operation, { body });
      const what = `${operation.operation.operationId} answered ${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`;
      hold(answer.status < 500, what);
      if (answer.status === 400) {
        hold(/^[ -~]{1,300}$/.test(String(answer.body.detail)), `${what}, but cannot be read`);
        equal(await written(), []);
      }
      return answer;
    }

    /** Undoes what was accepted, such as the suspension of our own account. */
    async function restore(operation: DescribedOperation): Promise<void> {
      if (operation.operation.operationId === 'addDomain')
        await node.db.prisma.domain.deleteMany({ where: { status: 'pending' } });
      if (operation.operation.operationId === 'changeAccount')
        await call(operation, { body: { plan: 'unlimited', suspended: false } });
    }

    return {
      'every answer is documented, no input causes a 500, and what is refused is not stored': fc.asyncProperty(
        shown.map(({ name, ...rest }) => Object.assign(() => rest, { toString: () => name })),
        fc.array(change, { maxLength: 3 }),
        async (chosen, changes) => {
          const { operation, make } = chosen();
          const body = toJson(changed(make(), changes));
          const answer = await ask(operation, body);
          const schema = operation.operation.requestBody?.content['application/json']?.schema;
          if (answer.status < 300 && schema) equal(differs(schema, body), null);
          await restore(operation);
        },
      ),
      'invalid JSON is refused': fc.asyncProperty(
        any.map((one) => Object.assign(() => one, { toString: () => one.operation.operation.operationId })),
        torn,
        async (chosen, tears) => {
          const { operation, make } = chosen();
          const text = tears.reduce((now, [at, taken, piece]) => {
            const place = at % (now.length + 1);
            return now.slice(0, place) + piece + now.slice(place + taken);
          }, toJson(make()));
          const { status } = await ask(operation, text);
          if (!isJson(text)) equal(status, 400);
          await restore(operation);
        },
      ),
    };
  },
};
