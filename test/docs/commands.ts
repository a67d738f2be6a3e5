import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { sendwright } from '../cli/terminal.ts';

/**
 * Puts an `npm` into a folder that knows only `npm run -s sendwright -- …`, and runs the command in this process,
 * because loading everything takes longer than most commands. test/cli tests it as a process of its own.
 */
export async function installCommands(
  t: { teardown(work: () => Promise<void>): void },
  folder: string,
  env: Record<string, string>,
): Promise<void> {
  const server = createServer(async (request, response) => {
    const [folder = '', ...args] = (await text(request)).split('\0').slice(0, -1);
    const { code, printed } = await sendwright({ ...env, SENDWRIGHT_CALLED_IN: folder }, ...args);
    response.end(`${code}\n${printed}`);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const script = [
    '#!/bin/sh',
    '[ "$1 $2 $3 $4" = "run -s sendwright --" ] || exit 9',
    'shift 4',
    `answer=$(printf '%s\\0' "$PWD" "$@" | curl -s --data-binary @- http://127.0.0.1:${port}/)`,
    'printf "%s\\n" "$answer" | tail -n +2',
    'exit "$(printf "%s\\n" "$answer" | head -n 1)"',
  ];
  await writeFile(join(folder, 'npm'), `${script.join('\n')}\n`, { mode: 0o755 });
}
