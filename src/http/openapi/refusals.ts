import { z } from 'zod';
import { mostExports } from '../exports.ts';
import { type JsonSchema, toJsonSchema } from './schema.ts';

/** One error that an operation can answer with. */
export interface Refusal {
  status: number;
  error: string;
  /** When it comes. */
  when: string;
  detail?: string;
  /** It is a page for whoever prefers one. */
  orPage?: true;
  /** Where the body has more than `error` and `detail`. */
  body?: { schema: z.ZodType; example: object };
}

const errorSchema = z
  .object({
    error: z.string().describe('The error, for programs: one of a fixed set.'),
    detail: z.string().optional().describe('The field and the reason, or what to do, for people.'),
  })
  .meta({ id: 'Error', description: 'Every error has this shape.' });

const standard = {
  invalid: {
    status: 400,
    error: 'invalid request',
    when: 'The input is not as described; `detail` names the field and the reason.',
    detail: 'limit: must be a whole number, 0 or more',
  },
  unauthorized: {
    status: 401,
    error: 'unauthorized',
    when: 'The credential is missing, invalid or expired, or of the wrong kind: an API key where a login token is required, or the reverse. The header `X-Error-Detail` says which.',
  },
  forbidden: {
    status: 403,
    error: 'forbidden',
    when: 'The account is suspended, the key lacks the scope or is restricted to other domains, the plan allows no more, or the user is not an operator of the server. The header `X-Error-Detail` says which.',
  },
  notFound: { status: 404, error: 'not found', when: 'It does not exist, or belongs to another account.' },
  tooLarge: {
    status: 413,
    error: 'payload too large',
    when: 'The body is larger than this operation allows.',
    detail: 'the body must have at most 40 MB (41,943,040 bytes)',
  },
  mediaType: {
    status: 415,
    error: 'unsupported media type',
    when: 'The body is not `application/json`, or it is compressed.',
    detail: 'the body must be JSON, with the header Content-Type: application/json',
  },
  rateLimited: {
    status: 429,
    error: 'rate limited',
    when: 'The key made too many requests; `Retry-After` says when to try again.',
    detail:
      'an API key may make 50 requests per second, in bursts of up to 100: wait and retry; Retry-After says how long',
  },
  internal: {
    status: 500,
    error: 'internal error',
    when: 'An error in the server; its log has the details under the request id.',
  },
  unavailable: { status: 503, error: 'unavailable', when: 'The database is unavailable, or the server is overloaded.' },
} satisfies Record<string, Refusal>;

/** Of the operations that take an `Idempotency-Key`. */
export const keyUsed: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'The `Idempotency-Key` was used with another request.',
  detail: 'the idempotency key was used with another request',
};

/** Of the operations whose answer is read from the database while it is taken. */
export const tooManyExports: Refusal = {
  status: 429,
  error: 'rate limited',
  when: `The account already has ${mostExports} exports running on this node; \`Retry-After\` says when to try again.`,
  detail: `an account may have ${mostExports} exports running at a time`,
};

/** What follows from the kind of an operation; `rows`: it needs the database. */
export function standardRefusals(has: {
  input: boolean;
  body: boolean;
  login: boolean;
  key: boolean;
  noun: boolean;
  rows: boolean;
}) {
  return [
    ...(has.input ? [standard.invalid] : []),
    ...(has.login ? [standard.unauthorized, standard.forbidden] : []),
    ...(has.noun ? [standard.notFound] : []),
    ...(has.body ? [standard.tooLarge, standard.mediaType] : []),
    ...(has.key ? [standard.rateLimited] : []),
    ...(has.rows ? [standard.internal, standard.unavailable] : []),
  ];
}

/** The response of a status with whatever errors it can be; a reference where it is as everywhere. */
export function responseTo(refusals: Refusal[], named: Record<string, JsonSchema>): JsonSchema {
  const [first, ...others] = refusals;
  const name = Object.entries(standard).find(([, one]) => one === first)?.[0];
  return name && others.length === 0 ? { $ref: `#/components/responses/${name}` } : inline(refusals, named);
}

/** The responses that `responseTo` refers to, for `components/responses`. @param named receives the schemas that they refer to */
export function standardResponses(named: Record<string, JsonSchema>): JsonSchema {
  return Object.fromEntries(Object.entries(standard).map(([name, one]) => [name, inline([one], named)]));
}

function inline(refusals: Refusal[], named: Record<string, JsonSchema>): JsonSchema {
  const { status = 0 } = refusals[0] ?? {};
  const errors = refusals.map(({ error }) => error);
  const plain = { allOf: [toJsonSchema(errorSchema, named)], properties: { error: { enum: [...new Set(errors)] } } };
  const others = refusals.flatMap(({ body }) => (body ? [toJsonSchema(body.schema, named)] : []));
  const isCounted = status !== 401 && status !== 503;
  return {
    description: refusals.map(({ when }) => when).join(' '),
    headers: {
      ...ref('X-Request-Id'),
      ...(isCounted ? { ...ref('RateLimit'), ...ref('RateLimit-Policy') } : {}),
      ...(status === 401 ? ref('WWW-Authenticate') : {}),
      ...(status === 401 || status === 403 ? ref('X-Error-Detail') : {}),
      ...(status === 429 || status === 503 ? ref('Retry-After') : {}),
    },
    content: {
      'application/json': {
        schema: others.length > 0 ? { anyOf: [plain, ...others] } : plain,
        examples: Object.fromEntries(refusals.map((one, index) => [exampleName(one, index), example(one)])),
      },
      ...(refusals.some(({ orPage }) => orPage)
        ? { 'text/html': { schema: { type: 'string' }, example: '<!doctype html>…' } }
        : {}),
    },
  };
}

const ref = (name: string) => ({ [name]: { $ref: `#/components/headers/${name}` } });

const exampleName = ({ error }: Refusal, index: number) => `${index + 1}-${error.replaceAll(' ', '-')}`;

const example = ({ error, detail, when, body }: Refusal) => ({
  summary: when,
  value: { error, ...(detail === undefined ? {} : { detail }), ...body?.example },
});
