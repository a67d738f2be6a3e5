import { failed, run, type Terminal } from './cli/run.ts';

/** Shown only on a terminal, where each line replaces the one before. */
const progress: Terminal['progress'] = process.stderr.isTTY
  ? (line) => process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 80) - 1)}`)
  : () => undefined;

const terminal: Terminal = {
  print: (text) => process.stdout.write(`${text}\n`),
  say: (sentence) => {
    progress('');
    process.stderr.write(`${sentence}\n`);
  },
  progress,
};

/** Whether the output, such as a key, got lost, other than because its reader has had enough. */
function isLost(error: NodeJS.ErrnoException | null): boolean {
  if (error === null || error.code === 'EPIPE') return false;
  terminal.say(`sendwright: cannot write to standard output (${error.message})`);
  return true;
}

run(process.argv.slice(2), process.env, terminal).then(
  // Output to a pipe may still be on its way.
  (code) => process.stdout.write('', () => process.exit(isLost(process.stdout.errored) ? failed : code)),
  (error: Error) => {
    terminal.say(`sendwright: ${error.stack}`);
    process.exit(failed);
  },
);
