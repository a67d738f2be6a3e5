import type { Middleware } from 'koa';
import type { OpenApiDocument } from './openapi/document.ts';
import { openApiPath } from './openapi/operation.ts';
import { sessionToken } from './session-cookie.ts';
import { badEncoding, givenTwice, unknownParameter } from './validation.ts';

type Parameter = { in?: string; name?: string };

/** The query parameters of an operation, and whether it takes calls without a credential. */
interface Known {
  names: Set<string | undefined>;
  forAnyone: boolean;
}

/**
 * Refuses query parameters that the operation does not have, because a misspelt filter would return everything; parameters
 * that are given twice, because only one could count; and those that are not percent-encoded UTF-8, because Koa would decode
 * them to something else. Use it inside a router, where the route is known.
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
    // Without a credential, the 401 comes first.
    const credentials = [ctx.get('X-API-Key'), ctx.get('Authorization'), sessionToken(ctx)];
    const mayCall = called?.forAnyone || credentials.some(Boolean);
    if (!called || !mayCall) return next();
    const given = new Set<string>();
    for (const name of namesOf(ctx.querystring)) {
      if (!called.names.has(name)) throw unknownParameter(name);
      if (given.has(name)) throw givenTwice(name);
      given.add(name);
    }
    return next();
  };
}

function namesOf(query: string): string[] {
  const pairs = query.split('&').filter((pair) => pair !== '');
  return pairs.map((pair) => {
    const [name = '', ...value] = pair.split('=');
    const decoded = decode(name);
    if (decoded === null) throw badEncoding('the query');
    if (decode(value.join('=')) === null) throw badEncoding(decoded);
    return decoded;
  });
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
