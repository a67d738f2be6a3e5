import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Logger } from '../log.ts';
import { Trouble } from '../trouble.ts';
import { howToRaise, isOutOfFiles } from './start-error.ts';

const lookEveryMs = 1_000;

/**
 * The parts of a process's open files that clients of its ports may take, who need no login to connect: a fifth is left for the
 * mail, the webhooks and the database even if they take all.
 */
const shares = { api: 1 / 2, submission: 1 / 8, submissions: 1 / 8, returns: 1 / 20 };

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

/**
 * How many connections a port takes at once.
 *
 * @param most how many if files are no concern
 * @param files the limit of open files; null if it is not known
 */
export function connectionsWithin(most: number, port: keyof typeof shares, files = openFilesLimit()): number {
  return files === null ? most : Math.min(most, Math.floor(files * shares[port]));
}

/** How many files and connections this process may have open at once; null if the system does not say. */
function openFilesLimit(): number | null {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null;
  }
}
