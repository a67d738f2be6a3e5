import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What this process asks the operating system about files. */
export interface OpenedFiles {
  /** Stops watching, and returns each call since with its paths, as strace writes it. */
  stop(): Promise<string[]>;
}

/** Watches this process with strace; null if it is not installed, or may not look at other processes. */
export async function watchFiles(): Promise<OpenedFiles | null> {
  if (spawnSync('strace', ['-V']).status !== 0) return null;
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-strace-'));
  const log = join(folder, 'log');
  const args = ['-f', '-s', '4096', '-e', 'trace=%file', '-o', log, '-p', String(process.pid)];
  const strace = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const attached = await isAttached(strace);
  return attached
    ? {
        async stop() {
          strace.kill('SIGINT');
          await once(strace, 'exit');
          const lines = (await readFile(log, 'utf8')).split('\n');
          await rm(folder, { recursive: true, force: true });
          return lines;
        },
      }
    : null;
}

async function isAttached(strace: ChildProcess): Promise<boolean> {
  let said = '';
  const attached = new Promise<boolean>((resolve) => {
    strace.stderr?.on('data', (chunk) => {
      said += chunk;
      if (said.includes(`Process ${process.pid} attached`)) resolve(true);
    });
  });
  return Promise.race([attached, once(strace, 'exit').then(() => false)]);
}
