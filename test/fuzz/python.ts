import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { program, python, type Reading, toReading } from '../mail/python.ts';

/** Python's message parser as a process that stays: starting it takes longer than reading a thousand messages. */
export class Python {
  readonly #child = spawn(python, ['-u', '-c', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  readonly #lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();

  async read(message: Buffer): Promise<Reading> {
    this.#child.stdin.write(`${message.toString('base64')}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`${python} has ended`);
    return toReading(value);
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin.end();
    await ended;
  }
}
