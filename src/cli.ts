import { failed, run, type Terminal } from './cli/run.ts';

/** Where nobody watches, a line that is about to be replaced says nothing. */
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

/** Whether nobody has got the answer, such as a key, for another reason than that its reader has had enough. */
function isLost(error: NodeJS.ErrnoException | null): boolean {
  if (error === null || error.code === 'EPIPE') return false;
  terminal.say(`sendwright: cannot write to standard output (${error.message})`);
  return true;
}

run(process.argv.slice(2), process.env, terminal).then(
  // What was printed into a pipe may still be on its way.
  (code) => process.stdout.write('', () => process.exit(isLost(process.stdout.errored) ? failed : code)),
  (error: Error) => {
    terminal.say(`sendwright: ${error.stack}`);
    process.exit(failed);
  },
);
