import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';

/** The output of a step, and its exit code. */
export interface Outcome {
  code: number;
  output: string;
  /** The end of its standard error. */
  said: string;
}

/** A shell that keeps its variables from one step to the next, like the terminal of somebody who pastes. */
export interface Shell {
  run(text: string): Promise<Outcome>;
  close(): Promise<void>;
}

/** Time limit of a step. */
const longest = 240_000;

/** @param env the whole environment of its programs */
export function openShell(cwd: string, env: Record<string, string>): Shell {
  const child = spawn('bash', ['--noprofile', '--norc'], { cwd, env, stdio: 'pipe' });
  let output = '';
  let said = '';
  let heard = () => {};
  child.stdout.on('data', (chunk) => {
    output += chunk;
    heard();
  });
  child.stderr.on('data', (chunk) => (said += chunk));
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  // The first failure counts, not the last command's success.
  child.stdin.write(`trap ': "\${failed:=$?}"' ERR\n`);
  return {
    async run(text) {
      const mark = randomUUID();
      [output, said] = ['', ''];
      child.stdin.write(`failed=\n${text}\nprintf '\\n%s %s\\n' ${mark} "\${failed:-0}"\n`);
      const end = new RegExp(`\\n${mark} (\\d+)\\n`);
      await new Promise<void>((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`it does not end: ${text}\n${output}${said}`)), longest);
        heard = () => {
          if (!end.test(output)) return;
          clearTimeout(late);
          resolve();
        };
        void closed.then(() => {
          clearTimeout(late);
          reject(new Error(`the shell has ended: ${text}\n${output}${said}`));
        });
      });
      return { code: Number(end.exec(output)?.[1]), output: output.replace(end, ''), said: said.slice(-2_000) };
    },
    async close() {
      child.stdin.end('kill $(jobs -p) 2>/dev/null\nexit\n');
      await closed;
    },
  };
}
