import { Readable } from 'node:stream';
import { run } from '../../src/cli/run.ts';

/** Runs a command in this process: its progress so far, and at its end the exit code, and what it said where. */
export function begin(env: Record<string, string>, ...args: string[]) {
  const [printed, said, progress]: [string[], string[], string[]] = [[], [], []];
  const ended = run(args, env, {
    print: (text) => void printed.push(text),
    say: (sentence) => void said.push(sentence),
    progress: (line) => void progress.push(line),
  }).then((code) => ({ code, printed: printed.join('\n'), said: said.join('\n'), progress }));
  return { progress, ended };
}

/** The same, to its end. */
export const sendwright = (env: Record<string, string>, ...args: string[]) => begin(env, ...args).ended;

/** The same with `--json`: what it printed, parsed. */
export async function told(env: Record<string, string>, ...args: string[]) {
  const { code, printed, said } = await sendwright(env, ...args, '--json');
  if (printed === '') throw new Error(`${args.join(' ')} ended with ${code}: ${said}`);
  return { code, ...JSON.parse(printed) };
}

/** The same, reading this from standard input. */
export const toldWith = (input: string, env: Record<string, string>, ...args: string[]) =>
  reading(input, () => told(env, ...args));

/** Does this with these bytes as standard input. */
export async function reading<T>(input: string | Buffer, work: () => Promise<T>): Promise<T> {
  const before = Object.getOwnPropertyDescriptor(process, 'stdin') ?? {};
  Object.defineProperty(process, 'stdin', {
    configurable: true,
    value: Readable.from([typeof input === 'string' ? Buffer.from(input) : input]),
  });
  try {
    return await work();
  } finally {
    Object.defineProperty(process, 'stdin', before);
  }
}
