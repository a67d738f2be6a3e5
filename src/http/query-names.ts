import type { Middleware } from 'koa';
import type { ApiError } from '../errors.ts';
import { noteQueryFault, refuseQuery } from './input/query-fault.ts';
import { badEncoding, givenTwice, unknownParameter } from './input/validation.ts';
import type { OpenApiDocument } from './openapi/document.ts';
import { openApiPath } from './openapi/operation.ts';

type Parameter = { in?: string; name?: string };

/** The query parameters of an operation, and whether it takes calls without a credential. */
interface Known {
  names: Set<string | undefined>;
  forAnyone: boolean;
}

/**
 * Refuses query parameters that the operation does not have, because a misspelt filter would return everything; parameters
 * that are given twice, because only one could count; and those that are not percent-encoded UTF-8, because Koa would decode
 * them to something else. Use it inside a router, where the route is known. If the operation takes a credential,
 * the refusal waits for `refuseQuery`.
 */
export function refuseUnknownParameters(documentOf: () => OpenApiDocument): Middleware {
  let known: Map<string, Known> | undefined;
  return async function knownParameters(ctx, next) {
    if (ctx.querystring === '') return next();
    known ??= parametersOf(documentOf());
    const method = ctx.method === 'HEAD' ? 'GET' : ctx.method;
    const matched = (ctx.matched ?? []) as { path: unknown; methods: string[] }[];
    const route = matched.find(({ methods }) => methods.includes(method));
    const called = known.get(`${method} ${openApiPath(String(route?.path ?? ''))}`);
    if (!called) return next();
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

function parametersOf({ paths }: OpenApiDocument): Map<string, Known> {
  const known = new Map<string, Known>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const { parameters = [], security } = operation as { parameters?: Parameter[]; security: unknown[] };
      const query = parameters.filter((one) => one.in === 'query').map(({ name }) => name);
      known.set(`${method.toUpperCase()} ${path}`, { names: new Set(query), forAnyone: security.length === 0 });
    }
  }
  return known;
}
