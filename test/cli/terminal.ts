import { run } from '../../src/cli/run.ts';

/** Runs a command in this process: its exit code, and what it said where. */
export async function sendwright(env: Record<string, string>, ...args: string[]) {
  const [printed, said, progress]: [string[], string[], string[]] = [[], [], []];
  const code = await run(args, env, {
    print: (text) => void printed.push(text),
    say: (sentence) => void said.push(sentence),
    progress: (line) => void progress.push(line),
  });
  return { code, printed: printed.join('\n'), said: said.join('\n'), progress };
}

/** The same with `--json`: what it printed, parsed. */
export async function told(env: Record<string, string>, ...args: string[]) {
  const { code, printed, said } = await sendwright(env, ...args, '--json');
  if (printed === '') throw new Error(`${args.join(' ')} ended with ${code}: ${said}`);
  return { code, ...JSON.parse(printed) };
}
