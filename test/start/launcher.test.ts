import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { eventually, portsOff } from '../support/node.ts';
import { flags, ownEnv } from '../support/process.ts';
import { firstScreenOf, freshEnv, makeFolder } from '../support/start.ts';

const launcher = fileURLToPath(new URL('../../scripts/run.mjs', import.meta.url));
const childrenOf = (pid: number) => `/proc/${pid}/task/${pid}/children`;

t.test(
  'kill -9 of what npm start runs stops the server too, so that the next start is not blocked',
  { skip: !existsSync(childrenOf(process.pid)) && 'no /proc that lists children' },
  async (t) => {
    const env = { ...ownEnv(), HTTP_PORT: '0', ...portsOff, ...(await freshEnv(await makeFolder(t))) };
    const child = spawn(process.execPath, [launcher, ...flags, 'src/main.ts'], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (chunk) => (said += chunk));
    await eventually(async () => said.includes('Stop with Ctrl-C'), 120_000);
    const server = Number(readFileSync(childrenOf(child.pid ?? 0), 'utf8').trim());
    t.ok(server > 0);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await eventually(async () => !existsSync(`/proc/${server}`));
    t.match(said, /SIGTERM: finishing the work in progress/);
    await t.resolves(firstScreenOf(env));
  },
);
