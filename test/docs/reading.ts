import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { differences, type Ids, isLike, jsonValues } from './comparison.ts';
import { type Block, blocksOf, isRun, stepsOf } from './markdown.ts';
import type { Place } from './place.ts';
import type { Outcome } from './shell.ts';

export const repository = resolve(import.meta.dirname, '../..');

export const documentOf = (path: string) => blocksOf(readFileSync(join(repository, path), 'utf8'));

/**
 * The mistakes in a document, each as one sentence with the block's line; its blocks are run in order.
 *
 * ¶ @param withinMs how long it may take until an answer is as shown: readers take their time between blocks
 */
export async function read(
  blocks: Block[],
  place: Place,
  withinMs = 60_000,
): Promise<{ ran: number; wrong: string[] }> {
  const reading = { place, withinMs, ids: new Map() as Ids, answers: [] as unknown[] };
  const wrong: string[] = [];
  let ran = 0;
  for (const block of blocks) {
    if (block.file !== null) await writeFile(join(place.folder, block.file), place.here(block.text));
    else if (isRun(block) && canRun(block)) {
      ran += 1;
      const problems = await tryBlock(block, reading).catch((error: Error) => [error.message]);
      wrong.push(...problems.map((problem) => `line ${block.line}: ${problem}`));
    }
  }
  return { ran, wrong };
}

const hasPython = spawnSync('python3', ['--version']).status === 0;

const canRun = ({ language, text }: Block) =>
  language === 'python' ? hasPython : !text.startsWith('swaks ') || existsSync('/usr/bin/swaks');

/** What runs a block that is a program. */
const programs: Record<string, { runs: string; extension: string }> = {
  js: { runs: 'node', extension: 'mjs' },
  python: { runs: 'python3', extension: 'py' },
};

type Reading = { place: Place; withinMs: number; ids: Ids; answers: unknown[] };

async function tryBlock(block: Block, reading: Reading): Promise<string[]> {
  const { place, ids, withinMs } = reading;
  const text = place.here(block.text);
  const program = programs[block.language];
  if (program) {
    const name = `line-${block.line}.${program.extension}`;
    await writeFile(join(place.folder, name), text);
    return judge(await place.shell.run(`${program.runs} ${name}`), block, reading);
  }
  const steps = stepsOf(text);
  const problems: string[] = [];
  for (const [index, step] of steps.entries()) {
    if ('name' in step) {
      const value = filledIn(step.from, reading);
      await place.shell.run(`${step.exported ? 'export ' : ''}${step.name}='${value}'`);
      continue;
    }
    const last = !steps.slice(index + 1).some((later) => 'run' in later);
    const expected = last ? block : { ...block, answer: null, endsWith: 0 };
    const known = new Map(ids);
    let found: string[] = [];
    for (const end = Date.now() + withinMs; ; await sleep(100)) {
      found = judge(await place.shell.run(step.run), expected, reading);
      // A command that only reads may be repeated until what is shown has happened.
      if (found.length === 0 || changes(step.run) || Date.now() > end) break;
      ids.clear();
      for (const [shown, real] of known) ids.set(shown, real);
    }
    if (/&\s*$/.test(step.run)) await place.endpointIsUp();
    problems.push(...found);
  }
  return problems;
}

/** Whether running it twice does more than running it once. */
const changes = (text: string) => /(^|\s)(-d|-X|--data\S*|-T|swaks|node|npm)\s|&\s*$|>/m.test(text);

function judge({ code, output, said }: Outcome, block: Block, reading: Reading): string[] {
  const { ids, place } = reading;
  if (code !== block.endsWith) return [`it ended with ${code}: ${output}${said}`];
  const { answer } = block;
  if (answer?.language === 'text') {
    const shown = place.here(answer.text).trim();
    const wrote = output.replaceAll('\r\n', '\n').trim();
    return isLike(shown, wrote, ids) ? [] : [`it wrote:\n${wrote}\nshown is:\n${shown}`];
  }
  const values = jsonValues(output);
  if (values.length > 0) reading.answers = values;
  if (answer === null) return values.filter(isRefusal).map((refusal) => `it was refused: ${JSON.stringify(refusal)}`);
  const shown = jsonValues(place.here(answer.text));
  const real = values.slice(-shown.length);
  if (shown.length === 0 || real.length < shown.length)
    return [`${shown.length} answers are shown, it wrote ${output}${said}`];
  return shown.flatMap((one, index) => differences(one, real[index], ids));
}

const isRefusal = (value: unknown) => typeof (value as { error?: unknown }).error === 'string';

/** Values that the reader fills in, from the first screen or from a field in the last answer. */
function filledIn(from: string, { place, answers }: Reading): string {
  const printed = place.printed[from];
  if (printed !== undefined) return printed;
  const field = /^the (\w+) from the answer/.exec(from)?.[1];
  const answer = answers.at(-1) as Record<string, unknown> | undefined;
  const candidates = [
    answer,
    ...Object.values(answer ?? {}).flatMap((value) => (Array.isArray(value) ? value[0] : value)),
  ];
  const holder = candidates.find((one) => typeof (one as Record<string, unknown> | null)?.[field ?? ''] === 'string');
  const value = (holder as Record<string, string> | undefined)?.[field ?? ''];
  if (value === undefined) throw new Error(`nobody can fill in "${from}" from ${JSON.stringify(answers)}`);
  return value;
}
