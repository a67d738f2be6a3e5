import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openApiDocument } from '../src/http/openapi/document.ts';

type Schema = Record<string, unknown>;

interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required: boolean;
  description?: string;
  schema: Schema;
}

interface OperationObject {
  operationId: string;
  summary: string;
  parameters?: Parameter[];
  requestBody?: { content: { 'application/json': { schema: Schema } } };
  responses: Record<string, { content: Record<string, { schema: Schema }> }>;
}

const root = fileURLToPath(new URL('../', import.meta.url));
const document = openApiDocument({ baseUrl: 'http://localhost:3000', sandbox: true });
const schemas = document.components.schemas;
const described = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    ...(operation as unknown as OperationObject),
    method: method.toUpperCase(),
    path,
  })),
);
// What does not end is not called: browsers have EventSource for it.
const operations = described.filter((operation) => answerOf(operation).type !== 'text/event-stream');

/** Names that a program has another meaning for, or that say more. */
const renamed: Record<string, string> = {
  Error: 'ErrorBody',
  Event: 'EmailEvent',
  ListDomainsQuery: 'PartQuery',
};
const nameOf = (name: string) => renamed[name] ?? name;
const eventTypes = propertiesOf(schemas.Event ?? {}).type?.enum as string[];

/** What narrows a value without changing its type, or only explains it. */
const silent = /^(description|default|format|contentEncoding|pattern|propertyNames|(min|max|exclusiveMin)[A-Z]?\w+)$/;
const spoken = ['$ref', 'const', 'enum', 'anyOf', 'type', 'properties', 'required', 'additionalProperties', 'items'];

/** A schema as a type. What would have to be left out is an error, so that no type says less than the document. */
function typeOf(schema: Schema): string {
  const unknown = Object.keys(schema).find((name) => !silent.test(name) && !spoken.includes(name));
  if (unknown) throw new Error(`a schema has ${unknown}, which is not known here: ${JSON.stringify(schema)}`);
  const { $ref, anyOf, type, enum: values } = schema as { $ref?: string; anyOf?: Schema[]; enum?: unknown[] } & Schema;
  if ($ref) return nameOf($ref.split('/').at(-1) ?? '');
  if ('const' in schema) return JSON.stringify(schema.const);
  if (values) return enumOf(values);
  if (anyOf && type === undefined) return anyOf.map(typeOf).join(' | ');
  if (Array.isArray(type)) return type.map((one) => typeOf({ ...schema, type: one })).join(' | ');
  if (type === 'array') return `(${typeOf(schema.items as Schema)})[]`;
  if (type === 'object') return objectOf(schema);
  if (type === undefined) return 'unknown';
  return type === 'integer' ? 'number' : String(type);
}

function enumOf(values: unknown[]): string {
  const named = eventTypes.every((type) => values.includes(type));
  const others = named ? values.filter((value) => !eventTypes.includes(String(value))) : values;
  return [...(named ? ['EventType'] : []), ...others.map((value) => JSON.stringify(value))].join(' | ');
}

function objectOf(schema: Schema): string {
  const { properties, additionalProperties: others, anyOf } = schema as Record<string, Schema | undefined>;
  const record = others ? `Record<string, ${typeOf(others)}>` : 'Record<string, unknown>';
  if (!properties) return record;
  const all = membersOf(schema, Object.keys(properties));
  // On one line biome would put the comments where they do not belong.
  const members = all.length > 1 ? `{\n${all.join('\n')}\n}` : `{ ${all} }`;
  const whole = others ? `${members} & ${record}` : members;
  if (!anyOf) return whole;
  // Sets of members of which one must be given.
  const sets = (anyOf as unknown as { required: string[] }[]).map(({ required }) => required);
  return `${whole} & (${sets.map((names) => `Given<${enumOf(names)}>`).join(' | ')})`;
}

function membersOf(schema: Schema, names: string[]): string[] {
  return names.map((name) => {
    const member = propertiesOf(schema)[name] ?? {};
    const line = `${name}${requiredOf(schema).includes(name) ? '' : '?'}: ${typeOf(member)};`;
    const comment = commentOf(member.description);
    // What fits into a line stays in one.
    return comment.length + line.length < 110 && !line.includes('\n') ? `${comment} ${line}` : `${comment}\n${line}`;
  });
}

function propertiesOf(schema: Schema): Record<string, Schema> {
  return (schema.properties ?? {}) as Record<string, Schema>;
}

const requiredOf = ({ required = [] }: Schema) => required as string[];
const sizeOf = (schema: Schema) => Object.keys(propertiesOf(schema)).length;
const commentOf = (text: unknown) => (typeof text === 'string' ? `/** ${text.replaceAll('*/', '* /')} */` : '');

/** What is printed as a type of its own, by its name. */
type Named = Record<string, Schema>;

/** The largest type that all members of this one are found in, be it that here they may be omitted. */
function baseOf(schema: Schema, named: Named): { type: string; members: string[] } | null {
  const own = propertiesOf(schema);
  const found = Object.entries(named).flatMap(([name, other]) => {
    const members = Object.entries(propertiesOf(other));
    if (other === schema || members.length < 2 || members.length > sizeOf(schema)) return [];
    if (!members.every(([member, one]) => JSON.stringify(own[member]) === JSON.stringify(one))) return [];
    const required = requiredOf(schema).filter((member) => member in propertiesOf(other));
    const same = JSON.stringify(required) === JSON.stringify(requiredOf(other));
    if (!same && required.length > 0) return [];
    const type = same ? nameOf(name) : `Partial<${nameOf(name)}>`;
    return [{ type, members: members.map(([member]) => member), same }];
  });
  // Of two that are the same each would be made from the other.
  const usable = found.filter(({ members, same }) => !same || members.length < sizeOf(schema));
  return usable.sort((a, b) => b.members.length - a.members.length)[0] ?? null;
}

function declared(named: Named): string {
  const one = ([name, schema]: [string, Schema]) => {
    const head = commentOf(schema.description);
    if (schema.anyOf || schema.type !== 'object') return `${head}\nexport type ${nameOf(name)} = ${typeOf(schema)};`;
    const base = baseOf(schema, named);
    const names = Object.keys(propertiesOf(schema)).filter((member) => !base?.members.includes(member));
    if (base && names.length === 0) return `${head}\nexport type ${nameOf(name)} = ${base.type};`;
    const members = membersOf(schema, names).join('\n');
    return `${head}\nexport interface ${nameOf(name)}${base ? ` extends ${base.type}` : ''} {\n${members}\n}`;
  };
  return Object.entries(named).map(one).join('\n\n');
}

/** What is given behind the `?`, as an object. */
const queryOf = (parameters: Parameter[]): Schema => ({
  type: 'object',
  properties: Object.fromEntries(parameters.map(({ name, schema, description }) => [name, { ...schema, description }])),
  required: parameters.flatMap(({ name, required }) => (required ? [name] : [])),
});

/** What the operations take, those that are the same once, and for each operation the names of its own. */
function requests() {
  const list = operations.find(({ operationId }) => operationId === 'listEmails');
  // What lists have in common; each takes more.
  const named: Named = {
    PageQuery: queryOf(list?.parameters?.filter(({ name }) => /^(limit|offset)$/.test(name)) ?? []),
  };
  const uses = operations.map(({ operationId, summary, parameters = [], requestBody }) => {
    const queries = parameters.filter((parameter) => parameter.in === 'query');
    const query = queryOf(queries);
    const use = (kind: string, schema: Schema): string => {
      if (schema.$ref) return typeOf(schema);
      const known = Object.entries(named).find(([, one]) => JSON.stringify(one) === JSON.stringify(schema))?.[0];
      const name = known ?? `${operationId.replace(/^./, (letter) => letter.toUpperCase())}${kind}`;
      named[name] = schema;
      return nameOf(name);
    };
    const body = requestBody?.content['application/json'].schema;
    return {
      operationId,
      summary,
      query: queries.length > 0 ? `query: ${use('Query', query)};` : '',
      body: body ? `body: ${use('Body', body)};` : '',
    };
  });
  return { named, uses };
}

function answerOf({ responses }: OperationObject): { type: string; schema: Schema } {
  const [success] = Object.entries(responses).flatMap(([status, one]) => (status < '300' ? [one] : []));
  const [[type, { schema }] = ['', { schema: {} }]] = Object.entries(success?.content ?? {});
  return { type, schema };
}

const origin = (what: string) => `// Made from the OpenAPI document by \`npm run client-types\`: ${what}\n`;

const given = `/** One of the sets of fields that a request must have. */
type Given<Names extends string> = { [Name in Names]: NonNullable<unknown> };`;

const events = `/** What an endpoint can be called for. */\nexport type EventType = ${eventTypes.map((type) => `'${type}'`).join(' | ')};`;

/** The files of the client that are made, by their path, with what must be in them. */
export function clientFiles(): Record<string, string> {
  const { SendRequest = {}, ...answered } = schemas;
  const { named, uses } = requests();
  const taken = { SendRequest, ...named };
  const routes = operations.map((operation) => {
    const { operationId, method, path, parameters = [] } = operation;
    const text = answerOf(operation).type === 'application/json' ? '' : ', isText: true';
    const takesKey = parameters.some(({ $ref }) => $ref?.endsWith('/IdempotencyKey')) ? ', takesKey: true' : '';
    return `${operationId}: { method: '${method}', path: '${path}'${takesKey}${text} },`;
  });
  const types = operations.map((operation, index) => {
    const { operationId, summary, query, body } = uses[index] as (typeof uses)[number];
    const answer = `answer: ${typeOf(answerOf(operation).schema)};`;
    return { summary, type: `${operationId}: { ${[query, body, answer].filter(Boolean).join(' ')} };` };
  });
  const imports = (names: string[], from: string, text: string) =>
    `import type { ${names.map(nameOf).filter((name) => new RegExp(`\\b${name}\\b`).test(text))} } from '${from}';`;
  const all = types.map(({ type }) => type).join('\n');
  return Object.fromEntries(
    Object.entries({
      'types.ts': [origin('what is answered, and posted to endpoints.'), events, declared(answered)],
      'requests.ts': [
        origin('what the operations take.'),
        imports(['EventType'], './types.ts', 'EventType'),
        given,
        declared(taken),
      ],
      'operations.ts': [
        origin('where operations are, what they take and answer.'),
        imports(Object.keys(taken), './requests.ts', all),
        imports(Object.keys(answered), './types.ts', all),
        `export const routes = {\n${routes.join('\n')}\n} as const;`,
        `export interface Operations {\n${types.map(({ summary, type }) => `/** ${summary} */\n${type}`).join('\n')}\n}`,
      ],
    }).map(([name, parts]) => [`src/client/${name}`, formatted(name, parts.join('\n\n'))]),
  );
}

/** As `npm run fix` would leave it. */
function formatted(name: string, input: string): string {
  const args = ['check', '--write', `--stdin-file-path=src/client/${name}`];
  const options = { cwd: root, input: `${input}\n`, encoding: 'utf8' } as const;
  const { stdout, stderr, status } = spawnSync(`${root}node_modules/.bin/biome`, args, options);
  if (status !== 0) throw new Error(`biome could not format ${name}: ${stderr}`);
  return stdout;
}

if (import.meta.main) {
  for (const [path, content] of Object.entries(clientFiles())) writeFileSync(`${root}${path}`, content);
}
