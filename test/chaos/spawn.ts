import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { portsOff } from '../support/node.ts';
import { ownEnv } from '../support/process.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** Starts a node without waiting until it is up: for starts that are killed half way. */
export function spawnSendwright(env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], {
    env: { ...ownEnv(), HTTP_PORT: '0', ...portsOff, ...env },
    stdio: 'ignore',
  });
}
