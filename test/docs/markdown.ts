/** One block of code in a document, and the comments about it. */
export interface Block {
  /** `sh`, `js`, `python`, `json`, `text` or whatever else follows the fence. */
  language: string;
  text: string;
  /** The line of its fence, from 1. */
  line: number;
  /** From a comment before it: why it is not run, or the name to save it under. Readers do not see it. */
  notRun: string | null;
  file: string | null;
  /** The exit code that a comment before it announces, if it shows a failure. */
  endsWith: number;
  /** The answer that is shown: the next block under the same heading. */
  answer: Block | null;
}

const runnable = ['sh', 'js', 'python'];
const answers = ['json', 'text'];

/**
 * The blocks of a document, in order. The language decides whether one is run, unless `<!-- not run: why -->`, `<!--
 * file: name -->` or `<!-- ends with 1 -->` on the line before the fence says otherwise.
 *
 * @throws Error if a fence is not closed
 */
export function blocksOf(markdown: string): Block[] {
  const lines = markdown.split('\n');
  const blocks: Block[] = [];
  let asked: Block | null = null;
  for (let index = 0; index < lines.length; index += 1) {
    if (/^#+ /.test(lines[index] ?? '')) asked = null;
    const [, indent, language = ''] = /^(\s*)```(\w*)\s*$/.exec(lines[index] ?? '') ?? [];
    if (indent === undefined) continue;
    const end = lines.findIndex((text, at) => at > index && text.trim() === '```');
    if (end < 0) throw new Error(`line ${index + 1}: the fence is not closed`);
    const text = lines
      .slice(index + 1, end)
      .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
    const block: Block = {
      language,
      text: text.join('\n'),
      line: index + 1,
      ...remarkOf(lines[index - 1]),
      answer: null,
    };
    if (answers.includes(language) && asked && block.notRun === null && block.file === null) asked.answer = block;
    else blocks.push(block);
    asked = isRun(block) ? block : null;
    index = end;
  }
  return blocks;
}

/** Whether a reader runs it instead of saving it. */
export const isRun = ({ language, notRun, file }: Block) =>
  runnable.includes(language) && notRun === null && file === null;

function remarkOf(line = ''): Pick<Block, 'notRun' | 'file' | 'endsWith'> {
  return {
    notRun: /<!-- not run: (.+) -->/.exec(line)?.[1] ?? null,
    file: /<!-- file: (\S+) -->/.exec(line)?.[1] ?? null,
    endsWith: Number(/<!-- ends with (\d) -->/.exec(line)?.[1] ?? 0),
  };
}

/** Part of a block that runs at once, or a value that the reader fills in from earlier output. */
export type Step = { run: string } | { name: string; exported: boolean; from: string };

/** Splits a block into steps: `ID=...   # the id from the answer` is for the reader to fill in. */
export function stepsOf(text: string): Step[] {
  const steps: Step[] = [];
  let lines: string[] = [];
  const flush = () => {
    if (lines.some((line) => line.trim() !== '' && !line.startsWith('#'))) steps.push({ run: lines.join('\n') });
    lines = [];
  };
  for (const line of text.split('\n')) {
    const found = /^(export )?([A-Z_]+)=\S*\.\.\.\s+# (.+)$/.exec(line);
    if (!found) {
      lines.push(line);
      continue;
    }
    flush();
    steps.push({ exported: found[1] !== undefined, name: found[2] ?? '', from: found[3] ?? '' });
  }
  flush();
  return steps;
}
