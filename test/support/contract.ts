import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { type OpenApiDocument, openApiDocument } from '../../src/http/openapi/document.ts';
import { isId } from '../../src/ids.ts';

/** The document that every answer is checked against. */
export const document = openApiDocument({ baseUrl: 'http://localhost:3000', sandbox: true });

export type Json = Record<string, unknown>;

export interface OperationObject {
  operationId: string;
  summary: string;
  description: string;
  security: Json[];
  parameters?: ParameterObject[];
  requestBody?: {
    content: Record<string, { schema: Json; example: unknown; examples?: Record<string, { value: unknown }> }>;
  };
  responses: Record<string, ResponseObject>;
}

export interface ParameterObject {
  name: string;
  in: string;
  description: string;
  schema: Json;
}

export interface ResponseObject {
  description: string;
  headers: Record<string, { required: boolean }>;
  content: Record<string, { schema: Json; example?: unknown; examples?: Record<string, { value: unknown }> }>;
}

const seen = new Map<string, unknown>();

/** Follows references outside of schemas, which a validator does not. */
function followed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(followed);
  if (typeof value !== 'object' || value === null) return value;
  const ref = (value as { $ref?: string }).$ref;
  if (!ref) return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, followed(one)]));
  if (ref.startsWith('#/components/schemas/')) return value;
  // A shared schema stays one object, and is compiled once.
  const known = seen.get(ref) ?? followed(find(ref));
  seen.set(ref, known);
  return known;
}

/** The target of a reference within the document. */
export function find(ref: string): unknown {
  const names = ref.slice('#/'.length).split('/');
  return names.reduce<unknown>((at, name) => (at as Json | undefined)?.[name], document);
}

/** Every operation, with references resolved, and those with fewer parameters in the path first. */
export const operations = Object.entries(document.paths)
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
      operation: followed(operation) as OperationObject,
    })),
  )
  .sort((a, b) => a.path.split('{').length - b.path.split('{').length);

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false, strictTypes: false });
ajv.addFormat('uuid', isId);
ajv.addFormat('date-time', (text: string) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z$/.test(text));
ajv.addFormat('uri', (text: string) => URL.canParse(text));
ajv.addKeyword('components');
// Our answers have no member that the document does not name; what we are sent may.
ajv.addSchema(closed(withRoot(document)) as Json, 'answers');
ajv.addSchema(withRoot(document), 'requests');

/** Only what schemas refer to. */
function withRoot({ components }: OpenApiDocument): Json {
  return { components: { schemas: components.schemas } };
}

function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const inner = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, closed(one)]));
  const isObject = inner.type === 'object' || (Array.isArray(inner.type) && inner.type.includes('object'));
  return isObject && inner.properties && inner.additionalProperties === undefined
    ? { ...inner, additionalProperties: false }
    : inner;
}

function pointed(value: unknown, at: string): unknown {
  if (Array.isArray(value)) return value.map((one) => pointed(one, at));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, name === '$ref' ? `${at}${one}` : pointed(one, at)]),
  );
}

const compiled = new Map<Json, ValidateFunction>();

/** What is wrong with a value by a schema of the document, in words; null if nothing is. */
export function mismatch(schema: Json, value: unknown, kind: 'answers' | 'requests'): string | null {
  const known = compiled.get(schema);
  const prepared = () => pointed(kind === 'answers' ? closed(schema) : schema, kind) as Json;
  const validate = known ?? ajv.compile(prepared());
  compiled.set(schema, validate);
  if (validate(value)) return null;
  return ajv.errorsText(validate.errors, { dataVar: 'body' });
}

/** @throws Error that says how an event posted to an endpoint differs from the document */
export function holdEvent(posted: unknown): void {
  const { post } = document.webhooks.event as { post: OperationObject };
  const wrong = mismatch(post.requestBody?.content['application/json']?.schema ?? {}, posted, 'answers');
  if (wrong !== null)
    throw new Error(`an event is not as in openapi.json: ${wrong}\n${JSON.stringify(posted).slice(0, 2_000)}`);
}

interface Answered {
  status: number;
  headers: Headers;
  body: unknown;
}

/** @throws Error that says how an answer differs from the document */
export function holdAnswer(method: string, path: string, answer: Answered): void {
  // The router answers these itself, for every path and without a body.
  if (method === 'OPTIONS' || method === 'HEAD') return;
  const here = path.replace(/\?.*/s, '');
  const found = operations.find((one) => one.method === method && one.pattern.test(here));
  const wrong = whatIsWrong(found?.operation, answer);
  if (wrong === null) return;
  const name = `${method} ${found?.path ?? here}`;
  const shown = JSON.stringify(answer.body).slice(0, 2_000);
  throw new Error(`${name} answered ${answer.status}, which is not as in openapi.json: ${wrong}\n${shown}`);
}

function whatIsWrong(operation: OperationObject | undefined, { status, headers, body }: Answered): string | null {
  // An unknown path or method has no operation that describes it.
  const stray = !operation && (status === 404 || status === 405) ? undescribed : undefined;
  const response = operation?.responses[status] ?? stray;
  if (!response) return operation ? 'this status is not declared' : 'there is no such operation';
  const missing = Object.entries(response.headers).find(([name, { required }]) => required && !headers.has(name));
  if (missing) return `the header ${missing[0]} is missing`;
  const type = headers.get('content-type')?.split(';')[0] ?? 'none';
  const media = response.content[type];
  return media ? mismatch(media.schema, body, 'answers') : `the media type ${type} is not declared`;
}

const undescribed: ResponseObject = {
  description: '',
  headers: { 'X-Request-Id': { required: true } },
  content: {
    'application/json': {
      schema: {
        type: 'object',
        properties: { error: { enum: ['not found', 'method not allowed'] } },
        required: ['error'],
      },
    },
  },
};
