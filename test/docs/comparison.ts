/** A real id for each id in a document, so that a repeated one must be the same. */
export type Ids = Map<string, string>;

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const time = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z';

/**
 * The difference between an answer and the document. Ids and times may differ, and so may the numbers of members named
 * `ms` or `…_ms`; `…` stands for any text, as the last entry of an array for more entries, and as a member's name for
 * more members.
 */
export function differences(shown: unknown, real: unknown, ids: Ids, path = 'the answer'): string[] {
  const differs = [`${path} is ${JSON.stringify(real)}, shown is ${JSON.stringify(shown)}`];
  if (typeof shown === 'string') return typeof real === 'string' && isLike(shown, real, ids) ? [] : differs;
  if (Array.isArray(shown)) return Array.isArray(real) ? ofArrays(shown, real, ids, path) : differs;
  if (isObject(shown)) return isObject(real) ? ofObjects(shown, real, ids, path) : differs;
  if (/(\.|_)ms$/.test(path)) return typeof real === typeof shown ? [] : differs;
  return real === shown ? [] : differs;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

function ofArrays(shown: unknown[], real: unknown[], ids: Ids, path: string): string[] {
  const open = shown.at(-1) === '…';
  const expected = open ? shown.slice(0, -1) : shown;
  if (open ? real.length < expected.length : real.length !== expected.length)
    return [`${path} has ${real.length} entries, shown are ${shown.length}: ${JSON.stringify(real)}`];
  return expected.flatMap((one, index) => differences(one, real[index], ids, `${path}[${index}]`));
}

function ofObjects(shown: Record<string, unknown>, real: Record<string, unknown>, ids: Ids, path: string): string[] {
  const { '…': more, ...expected } = shown;
  const unshown = more === undefined ? Object.keys(real).filter((name) => !Object.hasOwn(expected, name)) : [];
  return [
    ...unshown.map((name) => `${path}.${name} is not shown: ${JSON.stringify(real[name])}`),
    ...Object.entries(expected).flatMap(([name, value]) =>
      Object.hasOwn(real, name)
        ? differences(value, real[name], ids, `${path}.${name}`)
        : [`${path}.${name} is shown and not there`],
    ),
  ];
}

/** Whether a text is as shown. */
export function isLike(shown: string, real: string, ids: Ids): boolean {
  const found: string[] = [];
  const pattern = shown.split(new RegExp(`(${uuid}|${time}|…)`)).map((part) => {
    if (part === '…') return '[\\s\\S]*';
    if (new RegExp(`^${time}$`).test(part)) return time;
    if (!new RegExp(`^${uuid}$`).test(part)) return part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
    found.push(part);
    return `(${uuid})`;
  });
  const match = new RegExp(`^${pattern.join('')}$`).exec(real);
  if (!match) return false;
  return found.every((id, index) => {
    const known = ids.get(id) ?? match[index + 1];
    ids.set(id, known ?? '');
    return known === match[index + 1];
  });
}

/** The JSON objects that start a line of a text, or directly follow another; other lines are left out. */
export function jsonValues(text: string): unknown[] {
  const values: unknown[] = [];
  for (let at = next(text, 0); at !== null; ) {
    const end = endOf(text, at);
    if (end === null) break;
    values.push(JSON.parse(text.slice(at, end)));
    at = text[end] === '{' ? end : next(text, end);
  }
  return values;
}

function next(text: string, from: number): number | null {
  const found = text.slice(from).search(/^\{/m);
  return found < 0 ? null : from + found;
}

function endOf(text: string, start: number): number | null {
  let depth = 0;
  let quoted = false;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (quoted && character === '\\') at += 1;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === '{') depth += 1;
    else if (!quoted && character === '}') {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return null;
}
