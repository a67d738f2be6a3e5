import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** What processes use, as Linux counts it in /proc. */

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

interface Process {
  pid: number;
  parent: number;
  /** Its own time and that of ended children that it has waited for. */
  seconds: number;
}

/**
 * CPU-seconds so far of these processes and all below them, including ended ones.
 *
 * ¶ @param except not counted, with all below
 */
export function cpuSeconds(roots: number[], except: number[] = []): number {
  return tree(roots, except).reduce((sum, { seconds }) => sum + seconds, 0);
}

/** The sum of each one's peak resident memory since `forgetPeaks`, in bytes. */
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
      // It has ended, or belongs to somebody else.
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
  // proc(5): the second field is the program's name in brackets and may contain anything.
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
