import type { ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { globSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

/** Tools for the systems that are compared with Sendwright: configuration, a key, an empty queue. */

const drainedWithinMs = 60_000;

/** An RSA-2048 key, with its public half as in DNS. */
export function makeKey(): { pem: string | Buffer; record: string } {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  return {
    pem: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    record: `v=DKIM1; k=rsa; p=${publicKey.export({ type: 'spki', format: 'der' }).toString('base64')}`,
  };
}

/** Writes a file from the template folder next door, with the values of `@NAME@`. */
export async function fillIn(template: string, target: string, values: Record<string, string | number>): Promise<void> {
  const text = await readFile(new URL(`../${template}`, import.meta.url), 'utf8');
  await writeFile(
    target,
    text.replace(/@([A-Z]+)@/g, (whole, name: string) => String(values[name] ?? whole)),
  );
}

/** Waits until no file of a queue is left. */
export async function untilEmpty(name: string, files: string): Promise<void> {
  for (const end = Date.now() + drainedWithinMs; Date.now() < end; await sleep(20)) {
    if (globSync(files, {}).length === 0) return;
  }
  throw new Error(`${name} still has mail after ${drainedWithinMs / 1_000} s: ${files}`);
}

/** What a process has written to its standard error so far. */
export function complaintsOf(child: ChildProcess): () => string {
  let text = '';
  child.stderr?.on('data', (chunk) => (text += chunk));
  return () => text;
}
