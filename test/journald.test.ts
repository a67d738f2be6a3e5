import { once } from 'node:events';
import { fstatSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { createLog } from '../src/log.ts';
import type { Output } from '../src/log-file.ts';

t.test("a line has a priority in systemd's journal, and nowhere else", async (t) => {
  const { stream, written } = await openSocket(t);
  const { dev, ino } = fstatSync(stream.fd);
  const log = createLog('trace', stream, { journalStream: `${dev}:${ino}` });
  for (const level of ['fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const) log[level]({ field: 1 }, level);
  createLog('info', stream, { journalStream: `${dev}:${ino + 1}` }).info('elsewhere');
  createLog('info', stream).info('without systemd');
  stream.end();

  const lines = (await written).trim().split('\n');
  const read = lines.map((line) => [line.slice(0, line.indexOf('{')), JSON.parse(line.slice(line.indexOf('{')))]);
  t.match(read, [
    ['<2>', { level: 60, field: 1, msg: 'fatal' }],
    ['<3>', { level: 50, msg: 'error' }],
    ['<4>', { level: 40, msg: 'warn' }],
    ['<6>', { level: 30, msg: 'info' }],
    ['<7>', { level: 20, msg: 'debug' }],
    ['<7>', { level: 10, msg: 'trace' }],
    ['', { msg: 'elsewhere' }],
    ['', { msg: 'without systemd' }],
  ]);
});

/** A socket of the file system, as the journal's is. Its path is short, as the system demands. */
async function openSocket(t: Test): Promise<{ stream: Output & Socket & { fd: number }; written: Promise<string> }> {
  const dir = await mkdtemp(join(tmpdir(), 's-'));
  t.teardown(() => rm(dir, { recursive: true }));
  const server = createServer().listen(join(dir, 's'));
  t.teardown(() => server.close());
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const socket = createConnection(server.address() as string);
  await once(socket, 'connect');
  const [reader] = (await accepted) as [Socket];
  const { fd } = (socket as unknown as { _handle: { fd: number } })._handle;
  return {
    stream: Object.assign(socket, { fd }) as unknown as Output & Socket & { fd: number },
    written: text(reader),
  };
}
