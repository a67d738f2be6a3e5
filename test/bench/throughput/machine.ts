import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';

/** The machine that the figures are from. */
export function describeMachine() {
  const [first] = cpus();
  const gib = Math.round(totalmem() / 2 ** 30);
  return {
    commit: commit(),
    node: process.version,
    cpu: first?.model ?? '',
    cores: cpus().length,
    gib,
    kernel: release(),
  };
}

function commit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8', stdio: 'pipe' }).trim();
  } catch {
    return 'unknown';
  }
}
