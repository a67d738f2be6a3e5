import { grouped } from '../../numbers.ts';
import { html, inline, json, type Markup, pagePolicy, prose } from '../markup.ts';
import type { OpenApiDocument } from './document.ts';
import type { JsonSchema } from './schema.ts';

// The members of the document that this page reads, as `toOpenApi` writes them.
interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  security: Record<string, string[]>[];
  parameters?: (Parameter | Ref)[];
  requestBody?: {
    content: Record<
      string,
      { schema: JsonSchema; example: unknown; examples?: Record<string, { summary: string; value: unknown }> }
    >;
  };
  responses: Record<string, Response | Ref>;
}
interface Ref {
  $ref: string;
}
interface Parameter {
  name: string;
  in: string;
  required: boolean;
  description: string;
  schema: JsonSchema;
}
interface Response {
  description: string;
  content: Record<string, { schema: JsonSchema; example?: unknown; examples?: Record<string, Example> }>;
}
interface Example {
  summary: string;
  value: { error: string; detail?: string };
}
interface Shown extends Operation {
  method: string;
  path: string;
}

const style = `
:root { color-scheme: light dark; --ink: light-dark(#222, #ddd); --soft: light-dark(#666, #999); --back: light-dark(#fff, #181818);
  --panel: light-dark(#f4f4f2, #242424); --line: light-dark(#ddd, #3a3a3a); --link: light-dark(#0b57d0, #8ab4f8) }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--back); display: grid; grid-template-columns: 17rem minmax(0, 1fr) }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1rem; box-sizing: border-box; border-right: 1px solid var(--line); font-size: 14px }
nav ul { list-style: none; margin: 0 0 .8rem; padding: 0 }
main { padding: 1rem 2rem 4rem; max-width: 58rem }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
section { border-top: 1px solid var(--line); margin-top: 2rem }
h2 { margin: 3rem 0 0 } h3 { margin: 1.5rem 0 .3rem } h4 { margin: 1.2rem 0 .3rem; font-size: 15px }
code, pre { font: 13.5px/1.45 ui-monospace, monospace } .call { font-weight: 600 }
pre { background: var(--panel); padding: .8rem 1rem; overflow-x: auto; border-radius: .4rem; margin: .4rem 0 }
table { border-collapse: collapse; width: 100%; font-size: 14px } td, th { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line) }
td:first-child { white-space: nowrap } td:last-child { overflow-wrap: anywhere } small { color: var(--soft) } details { margin: .4rem 0 } summary { cursor: pointer; color: var(--soft) }
@media (max-width: 50rem) { body { display: block } nav { position: static; height: auto; border: 0 } main { padding: 0 1rem 3rem; overflow-wrap: anywhere }
  table, tbody, tr, td { display: block } td:first-child { white-space: normal } td:not(:last-child) { border: 0; padding-bottom: 0 } }
`;

/** All that the page may load. */
export const referencePolicy = pagePolicy(style);

/** The document as a page for people, complete as it stands: it loads nothing and runs nothing. */
export function referencePage(document: OpenApiDocument): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]): Shown => ({ ...(operation as unknown as Operation), method, path }),
    ),
  );
  const groups = document.tags.map((tag) => ({
    ...tag,
    operations: operations.filter((operation) => operation.tags.includes(tag.name)),
  }));
  const event = (document.webhooks.event as { post: Operation }).post;
  const page = new Page(document);
  return html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${document.info.title} API</title>
<style>${{ html: style }}</style>
<nav><p><a href="#top"><b>${document.info.title} API</b></a><br><small><a href="/api/v1/openapi.json">openapi.json</a></small></p>
${groups.map(
  ({ name, operations: those }) =>
    html`<b>${name}</b><ul>${those.map(
      ({ operationId, summary }) => html`<li><a href="#${operationId}">${summary}</a></li>`,
    )}</ul>\n`,
)}<b>Events</b><ul><li><a href="#${event.operationId}">${event.summary}</a></li></ul></nav>
<main id="top"><h1>${document.info.title} API</h1>
${prose(document.info.description)}
${groups.map(
  ({ name, description, operations: those }) =>
    html`<h2>${name}</h2>\n${prose(description)}${those.map((operation) => page.section(operation))}`,
)}<h2>Events</h2>
${page.event(event)}</main>
</html>
`.html;
}

class Page {
  readonly #document: OpenApiDocument;

  constructor(document: OpenApiDocument) {
    this.#document = document;
  }

  section(operation: Shown): Markup {
    const { operationId, method, path, summary, description, security } = operation;
    const parameters = (operation.parameters ?? []).map((one) => this.#find<Parameter>(one));
    const body = operation.requestBody?.content['application/json'];
    const [success, ...refused] = Object.entries(operation.responses);
    return html`<section id="${operationId}"><h3><a href="#${operationId}">${summary}</a></h3>
<p class="call"><code>${method.toUpperCase()} ${path}</code></p>
${prose(description)}<p><small>${security.length === 0 ? 'No credential' : inline(security.map(credential).join(' or '))}</small></p>
${
  parameters.length > 0 &&
  this.#table(
    'Parameters',
    parameters.map((one) =>
      row(one.name, one.required, { ...this.#resolve(one.schema), description: one.description }, one.in),
    ),
  )
}
${body && this.#table('Body', this.#rows(body.schema))}
<h4>Example</h4>${this.#curl(operation, body?.example)}
${success && this.#answer(success[0], this.#find<Response>(success[1]))}
${this.#table(
  'Errors',
  refused.flatMap(([status, response]) => this.#errors(status, this.#find<Response>(response))),
)}</section>
`;
  }

  event({ operationId, summary, description, parameters = [], requestBody }: Operation): Markup {
    const body = requestBody?.content['application/json'];
    return html`<section id="${operationId}"><h3><a href="#${operationId}">${summary}</a></h3>
${prose(description)}${this.#table(
  'Headers',
  parameters.map((one) => row((one as Parameter).name, true, one as JsonSchema & Parameter, 'header')),
)}
${body && this.#table('Body', this.#rows(body.schema))}<h4>Examples</h4>
${Object.values(body?.examples ?? {}).map(({ summary, value }) => html`<p>${summary}</p>${json(value)}`)}</section>
`;
  }

  #table(title: string, rows: Markup[]): Markup {
    return html`<h4>${title}</h4><table>${rows}</table>`;
  }

  #answer(status: string, { description, content }: Response): Markup {
    const [type = '', media] = Object.entries(content)[0] ?? [];
    if (!media || type !== 'application/json')
      return html`<h4>Response ${status}</h4><p>${description} <code>${type}</code></p>`;
    return html`<h4>Response ${status}</h4><p>${inline(description)}</p>${json(media.example)}
<details><summary>Fields</summary><table>${this.#rows(media.schema)}</table></details>`;
  }

  #errors(status: string, { content }: Response): Markup[] {
    const examples = Object.values(content['application/json']?.examples ?? {});
    return examples.map(
      ({ summary, value }) =>
        html`<tr><td><code>${status} ${value.error}</code></td><td>${inline(summary)}${
          value.detail !== undefined && html`<br><small><code>${value.detail}</code></small>`
        }</td></tr>\n`,
    );
  }

  #curl({ method, path, security }: Shown, body: unknown): Markup {
    const { url = '' } = this.#document.servers[0] ?? {};
    const parts = [
      `curl ${method === 'get' || (method === 'post' && body) ? '' : `-X ${method.toUpperCase()} `}${url}${path.replaceAll(/\{(\w+)\}/g, (_, name) => `$${name.toUpperCase()}`)}`,
    ];
    const [scheme] = security.flatMap((one) => Object.keys(one));
    if (scheme) parts.push(scheme === 'apiKey' ? `-H "X-API-Key: $KEY"` : `-H "Authorization: Bearer $TOKEN"`);
    if (body)
      parts.push(
        "-H 'Content-Type: application/json'",
        `-d '${JSON.stringify(body, null, 2).replaceAll("'", "'\\''")}'`,
      );
    return html`<pre>${parts.join(' \\\n  ')}</pre>`;
  }

  /** A row for each field of an object, those of the objects in it too: `a.b`, and `a[].b` in a list. */
  #rows(given: JsonSchema, prefix = ''): Markup[] {
    const schema = this.#resolve(given);
    const { properties = {}, required = [], items, anyOf = [] } = schema as Record<string, never>;
    const own = Object.entries(properties as Record<string, JsonSchema>).flatMap(([name, field]) => [
      row(`${prefix}${name}`, (required as string[]).includes(name), this.#resolve(field)),
      ...this.#rows(field, `${prefix}${name}.`),
    ]);
    const inList = items ? this.#rows(items, `${prefix.slice(0, -1)}[].`) : [];
    const choices = (anyOf as JsonSchema[]).map((one) => this.#rows(one, prefix)).filter((rows) => rows.length > 0);
    const either = choices.flatMap((rows, index) =>
      index > 0 ? [html`<tr><td colspan="2">or</td></tr>\n`, ...rows] : rows,
    );
    return [...own, ...inList, ...either];
  }

  /** What a reference refers to; what is said beside it is nearer to the reader. */
  #resolve(schema: JsonSchema): JsonSchema {
    return typeof schema.$ref === 'string'
      ? { ...this.#find<JsonSchema>(schema as unknown as Ref), ...schema }
      : schema;
  }

  #find<T extends object>(value: T | Ref): T {
    if (!('$ref' in value) || typeof value.$ref !== 'string') return value as T;
    const path = value.$ref.split('/').slice(1);
    return path.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], this.#document) as T;
  }
}

const credential = (scheme: Record<string, string[]>) =>
  'apiKey' in scheme ? 'API key in `X-API-Key`' : 'Token in `Authorization: Bearer`';

function row(name: string, required: boolean, schema: JsonSchema, where?: string): Markup {
  const kind = [typeOf(schema), where, required && 'required'].filter(Boolean).join(', ');
  const bounds = boundsOf(schema);
  return html`<tr><td><code>${name}</code><br><small>${kind}</small></td><td>${inline(String(schema.description ?? ''))}${
    bounds && html` <small>${inline(bounds)}</small>`
  }</td></tr>\n`;
}

function typeOf({ type, format, anyOf, items, const: value }: JsonSchema): string {
  if (value !== undefined) return JSON.stringify(value);
  if (Array.isArray(anyOf) && !type)
    return [...new Set((anyOf as JsonSchema[]).map(typeOf))].filter(Boolean).join(' or ');
  const names = [type ?? []]
    .flat()
    .map((one) => (one === 'array' ? `array of ${typeOf((items ?? {}) as JsonSchema) || 'object'}s` : one));
  const name = names.join(' or ');
  return typeof format === 'string' ? `${name} (${format})` : name;
}

/** What else a value must be, in words; of one that may be of several types, what each must be. */
function boundsOf(schema: JsonSchema): string {
  const { enum: values, minLength, maxLength, pattern, minItems, maxItems, items } = schema;
  const { maxProperties, exclusiveMinimum, maximum, default: fallback, anyOf = [] } = schema;
  const { enum: ofEntries, maxLength: longestEntry } = (items ?? {}) as JsonSchema;
  return [
    Array.isArray(values) && `One of ${shownValues(values)}.`,
    // That it is not empty goes without saying.
    between(minLength === 1 ? undefined : minLength, maxLength, 'characters'),
    pattern !== undefined && `Must match \`${pattern}\`.`,
    between(minItems, maxItems, 'entries'),
    between(undefined, maxProperties, 'entries'),
    Array.isArray(ofEntries) && `Each is one of ${shownValues(ofEntries)}.`,
    longestEntry !== undefined && `Each has at most ${grouped(Number(longestEntry))} characters.`,
    exclusiveMinimum !== undefined && `More than ${exclusiveMinimum}.`,
    maximum !== undefined && `At most ${grouped(Number(maximum))}.`,
    ...new Set((anyOf as JsonSchema[]).map(boundsOf)),
    fallback !== undefined && `Default: \`${fallback}\`.`,
  ]
    .filter(Boolean)
    .join(' ');
}

function between(least: unknown, most: unknown, what: string): string {
  if (most === undefined) return least === undefined ? '' : `At least ${grouped(Number(least))} ${what}.`;
  const end = `${grouped(Number(most))} ${what}.`;
  return least === undefined ? `At most ${end}` : `${grouped(Number(least))} to ${end}`;
}

const shownValues = (values: unknown[]) =>
  values
    .filter((value) => value !== null)
    .map((value) => `\`${value}\``)
    .join(', ');
