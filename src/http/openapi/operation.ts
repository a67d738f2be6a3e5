import { z } from 'zod';
import type { Scope } from '../../core/accounts/keys.ts';
import { type Refusal, responseTo, standardRefusals } from './refusals.ts';
import { type JsonSchema, toJsonSchema } from './schema.ts';

/** Who may call: anyone, whoever logged in, operators of the server, or holders of a key with a scope. */
export type Access = 'anyone' | 'login' | 'admin' | { key: Scope; orLogin?: true };

/** One operation, with what does not follow from the rest of it. */
export interface Operation {
  id: string;
  method: 'get' | 'post' | 'patch' | 'delete';
  /** As the router has it. */
  path: `/${string}`;
  summary: string;
  description: string;
  access: Access;
  /** What each parameter of the path is. */
  params?: Record<string, string>;
  query?: z.ZodType;
  /** Takes an `Idempotency-Key`. */
  idempotent?: true;
  /** `optional`: there may be none. */
  body?: { schema: z.ZodType; example: unknown; optional?: true };
  answer: Answer;
  /** Beside those that all operations of this kind share. */
  refusals?: Refusal[];
}

interface Answer {
  status?: 201;
  description: string;
  /** Without one the answer is not JSON but of this media type. */
  schema: z.ZodType | string;
  /** Names of headers in the document's components, beside those that all answers of this kind have. */
  headers?: string[];
  example: unknown;
}

/** Operations on one noun. */
export interface Group {
  name: string;
  description: string;
  operations: Operation[];
}

export const openApiPath = (path: string) => path.replaceAll(/:(\w+)/g, '{$1}');

/** The names of its query parameters, as the document has them. */
export const queryNames = (operation: Operation): string[] => queryParameters(operation, {}).map(({ name }) => name);

/** The operation as OpenAPI has it. */
export function toOpenApi(operation: Operation, tag: string, named: Record<string, JsonSchema>): JsonSchema {
  const { id, summary, description, access, body } = operation;
  const parameters: JsonSchema[] = [...pathParameters(operation), ...queryParameters(operation, named)];
  if (operation.idempotent) parameters.push({ $ref: '#/components/parameters/IdempotencyKey' });
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: `${description}${whoMayCall(access)}`,
    security: securityOf(access),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? {
          requestBody: {
            required: !body.optional,
            content: { 'application/json': { schema: toJsonSchema(body.schema, named), example: body.example } },
          },
        }
      : {}),
    responses: responses(operation, named),
  };
}

/** With the scope that a key needs and the role that a user needs, which OpenAPI 3.1 lets any scheme name. */
function securityOf(access: Access): JsonSchema[] {
  if (access === 'anyone') return [];
  if (typeof access === 'string') return [{ login: access === 'admin' ? ['admin'] : [] }];
  const byKey = { apiKey: [access.key] };
  return access.orLogin ? [byKey, { login: [] }] : [byKey];
}

function whoMayCall(access: Access): string {
  if (access === 'admin') return ' For operators of the server.';
  if (typeof access === 'string') return '';
  return access.key === 'send' ? ' A key needs the scope `send`.' : ' A key needs the scope `read` or `send`.';
}

function pathParameters({ path, params = {} }: Operation): JsonSchema[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: params[name],
    schema: { type: 'string' },
  }));
}

type QueryParameter = JsonSchema & { name: string };

function queryParameters({ query }: Operation, named: Record<string, JsonSchema>): QueryParameter[] {
  if (!query) return [];
  const { properties = {}, required = [] } = toJsonSchema(query, named);
  return Object.entries(properties as Record<string, JsonSchema>).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: (required as string[]).includes(name),
    description,
    schema,
  }));
}

function responses(operation: Operation, named: Record<string, JsonSchema>): JsonSchema {
  const { answer, access } = operation;
  const withKey = typeof access === 'object';
  const success = {
    description: answer.description,
    headers: {
      ...headers('X-Request-Id'),
      ...(withKey ? headers('RateLimit', 'RateLimit-Policy') : {}),
      ...(operation.idempotent ? headers('Idempotent-Replayed') : {}),
      ...headers(...(answer.headers ?? [])),
    },
    content:
      typeof answer.schema === 'string'
        ? { [answer.schema]: { schema: { type: 'string' }, example: answer.example } }
        : { 'application/json': { schema: toJsonSchema(answer.schema, named), example: answer.example } },
  };
  const refusals = Map.groupBy(
    [
      ...standardRefusals({
        // A parameter that it does not have is bad input to any operation that asks who calls.
        input: access !== 'anyone' || Boolean(operation.body || operation.query),
        body: operation.body !== undefined,
        login: access !== 'anyone',
        key: withKey,
        noun: operation.path.includes(':'),
        rows: access !== 'anyone' || operation.body !== undefined || operation.path.includes(':'),
      }),
      ...(operation.refusals ?? []),
    ],
    ({ status }) => status,
  );
  const refused = [...refusals].map(([status, those]) => [status, responseTo(those, named)]);
  return { [answer.status ?? 200]: success, ...Object.fromEntries(refused) };
}

const headers = (...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** The answer of what removes something. */
export const message = z.object({ message: z.string().describe('What was done, in words.') });
