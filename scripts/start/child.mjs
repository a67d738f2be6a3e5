import { spawn } from 'node:child_process';
import { constants } from 'node:os';

/**
 * Runs a program to its end, quietly. `onLine` hears each line that it writes; on failure the error carries all of them
 * in `output`. A signal to us goes on to it and what it started, and ends us after it.
 */
export function run(command, args, { lend, onLine = () => {}, ...options }) {
  return new Promise((resolve, reject) => {
    // A process group of its own: whoever finds our lock after a kill -9 can end all of it.
    const child = spawn(command, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    if (child.pid) lend(child.pid);
    const lines = [];
    for (const stream of [child.stdout, child.stderr]) {
      let rest = '';
      stream.setEncoding('utf8').on('data', (chunk) => {
        const parts = (rest + chunk).split('\n');
        rest = parts.pop();
        for (const line of parts) lines.push(line) && onLine(line);
      });
      stream.on('end', () => rest && lines.push(rest));
    }
    let received;
    const pass = (signal) => {
      received = signal;
      send(child, signal);
      // npm would first take back what it has done, at leisure. The next start begins anew in any case.
      setTimeout(send, 1000, child, 'SIGKILL').unref();
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, pass);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(name, pass);
      // process.exit, and not the signal itself, so that the lock is released.
      if (received) process.exit(128 + constants.signals[received]);
      if (code === 0) resolve(lines);
      else
        reject(Object.assign(new Error(`${command} ended with ${signal ?? `exit code ${code}`}`), { output: lines }));
    });
  });
}

function send(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // It has just ended.
  }
}
