import { readdirSync, readFileSync } from 'node:fs';

/** The nice values of a process's threads, by thread name (Linux). */
export function nicenessOf(pid: number): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    // proc_pid_stat(5): the name in brackets, then fields, of which the 17th is the nice value.
    const [, name = '', rest = ''] =
      /^\d+ \((.*)\) (.*)$/s.exec(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1').trim()) ?? [];
    found.set(name, [...(found.get(name) ?? []), Number(rest.split(' ')[16])]);
  }
  return found;
}
