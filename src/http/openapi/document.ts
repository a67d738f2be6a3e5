import { limits } from '../../core/accounts/send-limits.ts';
import { adminGroup } from './admin.ts';
import { destinationGroup } from './destinations.ts';
import { domainGroup } from './domains.ts';
import { emailGroup } from './emails.ts';
import { eventWebhook } from './events.ts';
import { keyGroup } from './keys.ts';
import { type Group, type Operation, openApiPath, toOpenApi } from './operation.ts';
import { privacyGroup } from './privacy.ts';
import { standardResponses } from './refusals.ts';
import { sandboxGroup } from './sandbox.ts';
import type { JsonSchema } from './schema.ts';
import { sendingGroup } from './sending.ts';
import { serviceGroup } from './service.ts';
import { statsGroup } from './stats.ts';
import { suppressionGroup } from './suppressions.ts';
import { templateGroup } from './templates.ts';
import { deliveryGroup, webhookGroup } from './webhooks.ts';

export interface OpenApiDocument {
  openapi: string;
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, JsonSchema>>;
  webhooks: JsonSchema;
  components: Record<
    'schemas' | 'responses' | 'headers' | 'parameters' | 'securitySchemes',
    Record<string, JsonSchema>
  >;
}

const description = `Sends email, and tells you what happened to each one and why.

Bodies are JSON in UTF-8. Unknown fields are ignored, with two exceptions: another service's name for a field, such as \`replyTo\` or
\`send_at\`, is refused with 400 \`invalid request\` if ignoring it would send an email to other people, twice, unencrypted, at another time or without its files or images, would give a key more rights, or would leave a webhook endpoint as it is; and a \`POST\` for which no body is described refuses any field. In fields that accept it, \`null\` means omitted. Ids are UUIDs in order of time, and lists begin with the newest. Times are ISO 8601 in UTC.
A query parameter that the operation does not have, or that is not percent-encoded UTF-8, is refused with 400 \`invalid request\`.

To send and read emails, use an API key in \`X-API-Key\`, or the token of a login in \`Authorization: Bearer\`; to manage
everything else, use the token. Anything that belongs to another account is answered as if it did not exist.

Every response has an \`X-Request-Id\`, which is also in the server's log. A method that a path does not have is refused with 405
\`method not allowed\`; a path and headers of more than 16 KB together with 431 \`headers too large\`.`;

const groups: Group[] = [
  sendingGroup,
  emailGroup,
  statsGroup,
  templateGroup,
  suppressionGroup,
  privacyGroup,
  domainGroup,
  keyGroup,
  webhookGroup,
  deliveryGroup,
  adminGroup,
  destinationGroup,
  sandboxGroup,
  serviceGroup,
];

const groupsOf = (sandbox: boolean) => groups.filter((group) => sandbox || group !== sandboxGroup);

/** What the document of this installation describes. */
export const operationsOf = ({ sandbox }: { sandbox: boolean }): Operation[] =>
  groupsOf(sandbox).flatMap(({ operations }) => operations);

/** The OpenAPI 3.1 document of this installation. Making it takes some 50 ms of a processor. */
export function openApiDocument({ baseUrl, sandbox }: { baseUrl: string; sandbox: boolean }): OpenApiDocument {
  const shown = groupsOf(sandbox);
  const schemas: Record<string, JsonSchema> = {};
  const paths: OpenApiDocument['paths'] = {};
  for (const { name, operations } of shown) {
    for (const operation of operations) {
      const path = openApiPath(operation.path);
      paths[path] = { ...paths[path], [operation.method]: toOpenApi(operation, name, schemas) };
    }
  }
  const webhooks = eventWebhook(schemas);
  const responses = standardResponses(schemas) as Record<string, JsonSchema>;
  return {
    openapi: '3.1.1',
    info: { title: 'Sendwright', version: '1', description },
    servers: [{ url: baseUrl }],
    tags: shown.map(({ name, description }) => ({ name, description })),
    paths,
    webhooks,
    components: { schemas, responses, headers, parameters, securitySchemes },
  };
}

const header = (description: string, example: string | number, required = false) => ({
  description,
  required,
  schema: { type: typeof example === 'number' ? 'integer' : 'string' },
  example,
});

const headers = {
  'X-Request-Id': header(
    'The id of this request, which is also in the log.',
    '01a3c1a0-77aa-7000-8000-000000000000',
    true,
  ),
  RateLimit: header(
    'The requests left for this key (r), and the seconds until all are available again (t).',
    '"key";r=99;t=1',
  ),
  'RateLimit-Policy': header('The limit: requests (q) per window in seconds (w).', '"key";q=100;w=2'),
  'Retry-After': header('Seconds to wait before you try again.', 1),
  'WWW-Authenticate': header('The other credential that is accepted: the token of a login.', 'Bearer', true),
  'X-Error-Detail': header(
    'What is wrong or what to do, for people, as `detail` in other errors.',
    'the API key lacks the scope send: use another key, or create one with this scope',
  ),
  'X-Total-Count': header(
    'How many entries the list had when the answer began. With fewer, the answer is incomplete, or some were removed meanwhile.',
    1,
    true,
  ),
  'Idempotent-Replayed': header('`true` if this repeats the first response.', 'true'),
};

const parameters = {
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description:
      'A key of your choice for this request. Within 24 hours the same request with the same key is accepted once; repetitions get the first response.',
    schema: { type: 'string', minLength: 1, maxLength: limits.idempotencyKey },
  },
};

const securitySchemes = {
  apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'From `POST /api/v1/keys`.' },
  login: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'From `POST /api/v1/auth/login`; valid for 12 hours.',
  },
};
