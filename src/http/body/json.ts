import { randomUUID } from 'node:crypto';
import { invalidRequest } from '../../errors.ts';
import { givingWay, Pace } from '../../pace/give-way.ts';
import { jsonFault } from './json-fault.ts';
import type { List } from './structure.ts';

/** How many bytes are parsed without giving way. */
export const parsedAtOnce = 128 * 1024;

/**
 * Elements are parsed together until they have at least this many bytes. V8 allocates new memory for every string above
 * 128 kB. With two bytes a character, an email of 50 KB stays below that by itself; two of them would not.
 */
const parsedTogether = 32 * 1024;

/** Stands in for the elements of a list. No client can guess it. */
const placeholder = randomUUID();

const brackets = [0x5b, 0x5d] as const;

/** Leaves out a byte order mark at the start, as JSON may have one there: elements begin with the bracket before them. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

type Closed = List & { end: number };

const notJson = (fault: string | null = null) =>
  invalidRequest(`the body is not JSON${fault === null ? '' : `: ${fault}`}`);

/** @throws ApiError 400, which says where the fault is, unless the body is long */
export function parseJson(bytes: Buffer): unknown {
  const text = textOf(bytes);
  return parseText(text, () => (text.length > parsedAtOnce ? null : jsonFault(text)));
}

/**
 * Parses like `parseJson`, but gives way: a batch of a thousand emails would hold up everything else for half a second. The
 * elements of long lists are parsed a few at a time, and then the rest of the body.
 *
 * @param lists the lists in `bytes` that `readStructure` found
 * @throws ApiError 400
 */
export async function parseInTurns(bytes: Buffer, lists: List[]): Promise<unknown> {
  const rest: Buffer[] = [];
  const taken: unknown[][] = [];
  const pace = new Pace();
  let from = 0;
  for (const { start, commas, end } of lists) {
    if (end === null) throw notJson();
    if (end - start <= parsedAtOnce) continue;
    rest.push(bytes.subarray(from, start), Buffer.from(`"${placeholder}",${taken.length}`));
    taken.push(await parseElements(bytes, { start, commas, end }, pace));
    from = end;
  }
  if (taken.length === 0) return parseJson(bytes);
  // An object: the lists that were taken out are its members.
  const root = parseText(textOf(Buffer.concat([...rest, bytes.subarray(from)]))) as Record<string, unknown>;
  for (const [name, list] of Object.entries(root)) {
    if (!Array.isArray(list) || list[0] !== placeholder) continue;
    // Assigning to `__proto__` would set the prototype.
    Object.defineProperty(root, name, { value: taken[list[1]] });
  }
  return root;
}

async function parseElements(bytes: Buffer, list: Closed, pace: Pace): Promise<unknown[]> {
  const parse = (run: Run) => {
    const elements = parseAsList(bytes, run.start, run.end);
    const isEmpty = list.commas.length === 0 && elements.length === 0;
    // An element is missing between two commas, or after the last.
    if (elements.length !== run.count && !isEmpty) throw notJson();
    return elements;
  };
  return (await givingWay(runsOf(list), parse, pace)).flat();
}

/** Overwrites the bytes around the elements with brackets meanwhile: adding brackets would copy all of the text. */
function parseAsList(bytes: Buffer, start: number, end: number): unknown[] {
  const around = [bytes[start - 1], bytes[end]] as [number, number];
  try {
    [bytes[start - 1], bytes[end]] = brackets;
    return parseText(textOf(bytes.subarray(start - 1, end + 1))) as unknown[];
  } finally {
    [bytes[start - 1], bytes[end]] = around;
  }
}

/** Adjacent elements that are parsed together. */
interface Run {
  start: number;
  end: number;
  count: number;
}

function runsOf({ start, commas, end }: Closed): Run[] {
  const runs: Run[] = [];
  let run = { start, end: start, count: 0 };
  for (const stop of [...commas, end]) {
    run.end = stop;
    run.count += 1;
    if (stop - run.start < parsedTogether && stop !== end) continue;
    runs.push(run);
    run = { start: stop + 1, end: stop + 1, count: 0 };
  }
  return runs;
}

function textOf(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalidRequest('the body is not UTF-8');
  }
}

function parseText(text: string, faultOf: () => string | null = () => null): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notJson(faultOf());
  }
}
