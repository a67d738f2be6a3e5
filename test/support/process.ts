import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type CallOptions, call, portsOff } from './node.ts';

/** Sendwright as an operator runs it: a process of its own. */
export interface SendwrightProcess {
  baseUrl: string;
  pid: number;
  /** Its whole output so far. */
  stdout(): string;
  stderr(): string;
  call(method: string, path: string, options?: CallOptions): ReturnType<typeof call>;
  /** Sends the signal and waits for the end; the exit code, or the signal that ended it: SIGKILL if it did not end in time. */
  end(signal: NodeJS.Signals): Promise<number | string>;
}

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const startWithinMs = 120_000;
/** It ends by itself within 35 s; a full machine takes longer. */
const endWithinMs = 120_000;

const { heap } = await import(new URL('../../scripts/start/launch.mjs', import.meta.url).href);

/**
 * What Node is told for a process of ours. Compiling WebAssembly again, for speed, is a fifth of a start; these processes end
 * before it pays off. So would be copying what is young again and again, until there is room for all of it.
 */
export const flags = ['--disable-warning=ExperimentalWarning', ...heap, '--min-semi-space-size=32', '--liftoff-only'];

/**
 * The part of our environment that every process of the project gets: where programs are, and the compile cache, which
 * saves a third of a start.
 */
export function ownEnv(): Record<string, string> {
  const { PATH = '', NODE_COMPILE_CACHE } = process.env;
  return { PATH, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
}

/** Runs `src/main.ts`, or that of a copy, with only this environment, until it ends or says where it listens. */
export async function runSendwright(
  env: Record<string, string>,
  program = main,
): Promise<{ exited: number | string; stderr: string } | SendwrightProcess> {
  const child = spawn(process.execPath, [...flags, program], {
    env: { ...ownEnv(), HTTP_PORT: '0', ...portsOff, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => (stdout += chunk));
  const exit = exitOf(child);
  const baseUrl = await Promise.race([
    exit.then(() => null),
    new Promise<string>((resolve, reject) => {
      const late = setTimeout(() => {
        // Nobody else would end it, and its pipes would keep this process from ending.
        child.kill('SIGKILL');
        reject(new Error(`not ready in time: ${stderr}`));
      }, startWithinMs);
      child.stderr.on('data', (chunk) => {
        stderr += chunk;
        const found = /Dashboard +(http:\S+)[\s\S]*Stop with Ctrl-C/.exec(stderr)?.[1];
        if (!found) return;
        clearTimeout(late);
        resolve(found);
      });
      void exit.then(() => clearTimeout(late));
    }),
  ]);
  if (baseUrl === null) return { exited: await exit, stderr };
  return {
    baseUrl,
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: () => stderr,
    call: (method, path, options) => call(baseUrl, method, path, options),
    async end(signal) {
      child.kill(signal);
      const late = setTimeout(() => child.kill('SIGKILL'), endWithinMs);
      void exit.then(() => clearTimeout(late));
      return exit;
    },
  };
}

/** The same for tests that need it to run. */
export async function startSendwright(env: Record<string, string>, program = main): Promise<SendwrightProcess> {
  const started = await runSendwright(env, program);
  if ('exited' in started) throw new Error(`Sendwright ended with ${started.exited}: ${started.stderr}`);
  return started;
}

/** Starts several at once, which end with the test, also if one of them does not start. */
export async function startTogether(
  t: { teardown(work: () => Promise<unknown>): void },
  envs: Record<string, string>[],
): Promise<SendwrightProcess[]> {
  const starts = await Promise.allSettled(envs.map((env) => startSendwright(env)));
  const started = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
  for (const app of started) t.teardown(() => app.end('SIGKILL'));
  const failed = starts.find((start) => start.status === 'rejected');
  if (failed) throw failed.reason;
  return started;
}

async function exitOf(child: ChildProcess): Promise<number | string> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return code ?? signal ?? 'unknown';
}
