#!/usr/bin/env node
/* The commands: `npm run -s sendwright -- <command>`, or this file with the command. Makes the project ready as `npm start` does. */
const { npm_lifecycle_event: script, INIT_CWD: ofNpm } = process.env;
// Everything runs in the project's folder, and files are named from where the command was typed: npm has left that already.
process.env.SENDWRIGHT_CALLED_IN = (script === 'sendwright' && ofNpm) || process.cwd();
process.argv.splice(2, 0, 'src/cli.ts');
await import('./run.mjs');
