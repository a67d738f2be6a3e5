import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename } from 'node:path';

/**
 * Whose a journal is, told by its name: `<pid>-<id>.<host>.<place>.<start>.jsonl`. A pid alone is that of another process in
 * another container, in which each service is number 1, or after a while. Releases before wrote `<pid>-<id>.jsonl`.
 */
const named = /^(\d+)-[0-9a-f-]{36}(?:\.([0-9a-f]{12})\.([0-9a-f]{12})\.(\d+))?\.jsonl$/;

/** How often a living process shows on its files that it lives. */
export const touchEveryMs = 60_000;

/** So long untouched, a file is nobody's, wherever its owner was: its lease ended within half a minute. Clocks of machines may differ. */
const untouchedForMs = 3_600_000;

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 12);
const host = digest(hostname());
/** Within a place a pid is one process at a time: a boot of a kernel, and a pid namespace in it. Elsewhere than on Linux the host is all there is. */
const place = digest(
  quietly(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8') + readlinkSync('/proc/self/ns/pid')) ??
    hostname(),
);

/** The name of a file that this process is going to write. */
export function journalName(id: string): string {
  return `${process.pid}-${id}.${host}.${place}.${startOf(process.pid) ?? 0}.jsonl`;
}

/**
 * Whether this is a journal whose process is surely gone. Of another place, that is one under our own host name (this container,
 * or this machine, before it was started again), or one untouched for an hour: to take a living node's would be to try again what it
 * is just sending, while what a dead one knew is at the worst sent twice.
 *
 * @param alone true where no other process can be running on its folder
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

/** @param started when, if that is known: another one may have the pid by now */
function isRunning(pid: number, started: string | undefined): boolean {
  // Those that we are writing have not come here.
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const now = startOf(pid);
  return now === null || started === undefined || started === '0' || now === started;
}

/** When a process was started, in ticks since the boot (proc(5)); null where that cannot be told. */
function startOf(pid: number): string | null {
  const stat = quietly(() => readFileSync(`/proc/${pid}/stat`, 'latin1'));
  // Behind the program's name, which may hold anything, it is the 20th field.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null;
}

function quietly<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}
