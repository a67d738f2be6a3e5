import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** What processes use, as Linux counts it in /proc. */

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

interface Process {
  pid: number;
  parent: number;
  /** Its own time and that of children that are gone and were waited for. */
  seconds: number;
}

/**
 * CPU-seconds so far of these processes and all below them, also of those below that have come to an end.
 *
 * @param except not counted, with all below
 */
export function cpuSeconds(roots: number[], except: number[] = []): number {
  return tree(roots, except).reduce((sum, { seconds }) => sum + seconds, 0);
}

/** The most memory that each of them had resident since `forgetPeaks`, added up, in bytes. */
export function peakMemory(roots: number[], except: number[] = []): number {
  return tree(roots, except).reduce((sum, { pid }) => {
    const [, kilobytes = '0'] = /^VmHWM:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`) ?? '') ?? [];
    return sum + Number(kilobytes) * 1_024;
  }, 0);
}

export function forgetPeaks(roots: number[], except: number[] = []): void {
  for (const { pid } of tree(roots, except)) {
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5');
    } catch {
      // It is gone, or somebody else's.
    }
  }
}

function tree(roots: number[], except: number[]): Process[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? []);
  const children = Map.groupBy(all, ({ parent }) => parent);
  const found: Process[] = [];
  const add = (process: Process) => {
    if (except.includes(process.pid)) return;
    found.push(process);
    for (const child of children.get(process.pid) ?? []) add(child);
  };
  for (const process of all) if (roots.includes(process.pid)) add(process);
  return found;
}

function statOf(pid: number): Process | null {
  // proc(5): the second field is the program's name in brackets and may hold anything.
  const fields = read(`/proc/${pid}/stat`)?.split(') ').at(-1)?.split(' ');
  if (!fields) return null;
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { pid, parent: Number(fields[1]), seconds: ticks / ticksPerSecond };
}

function read(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}
