import { fstatSync } from 'node:fs';
import { symbols } from 'pino';
import type { Output } from './log-file.ts';

/** pino's levels as those of syslog (RFC 5424, section 6.2.1). */
const severities: Record<number, number> = { 60: 2, 50: 3, 40: 4, 30: 6, 20: 7, 10: 7 };

/**
 * Whether what is written to this stream goes to systemd's journal.
 *
 * @param named what systemd says about it, in `JOURNAL_STREAM`: the device and the inode (systemd.exec(5))
 */
export function isJournald({ fd }: Output, named: string | undefined): boolean {
  if (!named || typeof fd !== 'number') return false;
  const { dev, ino } = fstatSync(fd, { bigint: true });
  return named === `${dev}:${ino}`;
}

/** Begins each line with its priority, which journald takes off again (sd-daemon(3)). */
export class JournaldLines {
  /** Makes pino set `lastLevel` before each line. */
  readonly [symbols.needsMetadataGsym] = true;
  lastLevel = 30;
  readonly #out: Output;

  constructor(out: Output) {
    this.#out = out;
  }

  write(line: string): void {
    this.#out.write(`<${severities[this.lastLevel] ?? 6}>${line}`);
  }
}
