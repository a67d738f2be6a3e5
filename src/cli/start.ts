import type { Command } from './command.ts';

export const start: Command = {
  help: [
    'Usage: sendwright start',
    '',
    'The same as npm start: brings the schema of the database up to date, opens the ports and delivers mail. On SIGTERM or',
    'Ctrl-C it finishes the work in progress within 30 seconds, and exits with 0.',
  ].join('\n'),
  async run() {
    await import('../main.ts');
    // It ends the process by itself.
    return new Promise<never>(() => undefined);
  },
};
