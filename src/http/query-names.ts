import type { Middleware } from 'koa';
import type { ApiError } from '../errors.ts';
import { noteQueryFault, refuseQuery } from './input/query-fault.ts';
import { badEncoding, givenTwice, unknownParameter } from './input/validation.ts';
import { type Operation, queryNames } from './openapi/operation.ts';

/** The query parameters of an operation, and whether it takes calls without a credential. */
interface Known {
  names: Set<string>;
  forAnyone: boolean;
}

/**
 * Refuses query parameters that the operation does not have, because a misspelled filter would return everything; parameters
 * that are given twice, because only one could count; and those that are not percent-encoded UTF-8, because Koa would decode
 * them to something else. Use it inside a router, where the route is known. If the operation takes a credential,
 * the refusal waits for `refuseQuery`.
 */
export function refuseUnknownParameters(operations: Operation[]): Middleware {
  const described = new Map(operations.map((one) => [`${one.method.toUpperCase()} ${one.path}`, one]));
  const known = new Map<Operation, Known>();
  const knownOf = (operation: Operation) => {
    const found = known.get(operation) ?? parametersOf(operation);
    known.set(operation, found);
    return found;
  };
  return async function knownParameters(ctx, next) {
    if (ctx.querystring === '') return next();
    const method = ctx.method === 'HEAD' ? 'GET' : ctx.method;
    const matched = (ctx.matched ?? []) as { path: unknown; methods: string[] }[];
    const route = matched.find(({ methods }) => methods.includes(method));
    const operation = described.get(`${method} ${String(route?.path ?? '')}`);
    if (!operation) return next();
    const called = knownOf(operation);
    noteQueryFault(ctx, faultIn(ctx.querystring, called));
    if (called.forAnyone) refuseQuery(ctx);
    return next();
  };
}

function faultIn(query: string, { names }: Known): ApiError | null {
  const given = new Set<string>();
  for (const pair of query.split('&')) {
    if (pair === '') continue;
    const [encoded = '', ...value] = pair.split('=');
    const name = decode(encoded);
    if (name === null) return badEncoding('the query');
    if (decode(value.join('=')) === null) return badEncoding(name);
    if (!names.has(name)) return unknownParameter(name);
    if (given.has(name)) return givenTwice(name);
    given.add(name);
  }
  return null;
}

/** Null if it cannot be decoded. */
function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

/** From the description, not from the whole document: making that would hold up the first such call of each process. */
const parametersOf = (operation: Operation): Known => ({
  names: new Set(queryNames(operation)),
  forAnyone: operation.access === 'anyone',
});
