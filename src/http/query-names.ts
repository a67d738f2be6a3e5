import type { Middleware } from 'koa';
import type { OpenApiDocument } from './openapi/document.ts';
import { openApiPath } from './openapi/operation.ts';
import { unknownParameter } from './validation.ts';

type Parameter = { in?: string; name?: string };

/** What an operation may be asked with, and whether it asks who calls. */
interface Known {
  names: Set<string | undefined>;
  forAnyone: boolean;
}

/**
 * Refuses a query parameter that the called operation does not have: a filter that is misspelt would answer with everything.
 * For the middle of a router, where the route is known.
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
    // Who shows no credential hears of that first.
    const mayCall = called?.forAnyone || ctx.get('X-API-Key') !== '' || ctx.get('Authorization') !== '';
    for (const name of called && mayCall ? Object.keys(ctx.query) : []) {
      if (!called?.names.has(name)) throw unknownParameter(name);
    }
    return next();
  };
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
