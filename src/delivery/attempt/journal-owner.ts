import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename } from 'node:path';

/**
 * A journal's name tells its owner: `<pid>-<id>.<host>.<place>.<start>.jsonl`. A pid alone is not enough: it is reused after
 * a while, and in every container the service has pid 1. Earlier releases wrote `<pid>-<id>.jsonl`.
 */
const named = /^(\d+)-[0-9a-f-]{36}(?:\.([0-9a-f]{12})\.([0-9a-f]{12})\.(\d+))?\.jsonl$/;

/** How often a live process touches its files to show that it is alive. */
export const touchEveryMs = 60_000;

/** A file untouched for this long has no owner anywhere: a lease ends within half a minute, and clocks of machines may differ. */
const untouchedForMs = 3_600_000;

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 12);
const host = digest(hostname());
/** A boot of a kernel and a pid namespace in it: there, a pid is one process at a time. Outside Linux only the host is known. */
const place = digest(
  quietly(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8') + readlinkSync('/proc/self/ns/pid')) ??
    hostname(),
);

/** The name for a new journal of this process. */
export function journalName(id: string): string {
  return `${process.pid}-${id}.${host}.${place}.${startOf(process.pid) ?? 0}.jsonl`;
}

/**
 * Whether this is a journal whose process is certainly gone. A journal from another place is abandoned if it has our own host
 * name (this container or machine, before its restart) or was untouched for an hour. In doubt it is left alone: taking a live
 * node's journal would retry what it is sending right now, while missing a dead one's at worst sends some mail twice.
 *
 * @param alone true if no other process can be running on its folder
 */
export function isAbandoned(path: string, alone: boolean): boolean {
  const [whole, pid, ofHost, ofPlace, started] = named.exec(basename(path)) ?? [];
  if (!whole) return false;
  if (alone) return true;
  if (ofPlace === undefined || ofPlace === place) return !isRunning(Number(pid), started);
  if (ofHost === host) return true;
  const touchedAt = quietly(() => statSync(path).mtimeMs);
  return touchedAt !== null && Date.now() - touchedAt > untouchedForMs;
}

/** @param started its start time, if known: another process may have the pid by now */
function isRunning(pid: number, started: string | undefined): boolean {
  // Journals that we are writing never get here, so this is an earlier process with our pid.
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const now = startOf(pid);
  return now === null || started === undefined || started === '0' || now === started;
}

/** A process's start time, in ticks since the boot (proc(5)); null if unknown. */
function startOf(pid: number): string | null {
  const stat = quietly(() => readFileSync(`/proc/${pid}/stat`, 'latin1'));
  // The 20th field after the program's name, which may contain anything.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null;
}

function quietly<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}
