import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Logger } from '../log.ts';
import { Trouble } from '../trouble.ts';
import { howToRaise, isOutOfFiles } from './start-error.ts';

const lookEveryMs = 1_000;

/**
 * Logs when the system lets this process open no more files and connections, and when it does again. Nobody else can tell: the
 * system hands over no connection that came in vain, and to mail and webhooks it is one cause of many to try again.
 */
export function watchOpenFiles(log: Logger): void {
  const trouble = new Trouble(log, {
    failing: `no more files and connections can be opened: clients are turned away, and mail and webhooks wait; raise the limit, ${howToRaise}`,
    over: 'files and connections can be opened again',
  });
  // Read now: once the limit is reached, this file cannot be opened either.
  const limit = openFilesLimit();
  let isLooking = false;
  const look = async () => {
    if (isLooking) return;
    isLooking = true;
    try {
      await (await open('/dev/null')).close();
      trouble.worked();
    } catch (error) {
      if (isOutOfFiles(error as NodeJS.ErrnoException)) trouble.failed(error as Error, limit === null ? {} : { limit });
    } finally {
      isLooking = false;
    }
  };
  setInterval(() => void look(), lookEveryMs).unref();
}

/** How many files and connections this process may have open at once; null if the system does not say. */
export function openFilesLimit(): number | null {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null;
  }
}
