import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { prepareDashboard } from './dashboard.mjs';
import { generate, isGenerated } from './generate.mjs';
import { install, isInstalled } from './install.mjs';
import { launch } from './launch.mjs';
import { withLock } from './lock.mjs';
import { Progress } from './progress.mjs';

// The real path: npm and Node disagree about what is in a folder that was entered through a link.
const root = fs.realpathSync(fileURLToPath(new URL('../..', import.meta.url)));

/** Makes the project ready and runs `args`; whatever goes wrong before that is one line, without a stack. */
export async function main(args) {
  try {
    await prepare();
    if (isService(args)) await prepareDashboard(root).catch(goOn);
    await launch(root, args);
  } catch (error) {
    console.error(error.stack && process.env.DEBUG ? error.stack : error.message);
    process.exitCode = 1;
  }
}

/** `npm start`, or `sendwright start`; whatever else is run shows no pages. */
function isService(args) {
  return args.includes('src/main.ts') || (args[0] === 'src/cli.ts' && args[1] === 'start');
}

/** Mail goes out with older pages, or without any, as well. */
function goOn(error) {
  const { message } = isNotWritable(error) ? notWritable(error, 'the dashboard is') : error;
  console.error(`${message}\nThe service starts all the same.`);
}

async function prepare() {
  if (isInstalled(root) && isGenerated(root)) return;
  const progress = new Progress();
  try {
    await withLock(path.join(root, '.install-lock'), progress, async (lend) => {
      // Whoever held the lock before us may have done it all.
      if (!isInstalled(root)) await install(root, progress, lend);
      if (!isGenerated(root)) await generate(root, progress, lend);
    });
  } catch (error) {
    if (!isNotWritable(error)) throw error;
    const bySudo = 'packages that were installed with sudo are removed with sudo: rm -rf node_modules src/generated';
    throw notWritable(error, 'the packages are', ` (${bySudo})`);
  } finally {
    progress.end();
  }
}

const isNotWritable = ({ code }) => ['EACCES', 'EPERM', 'EROFS'].includes(code);

function notWritable(error, what, more = '') {
  return new Error(
    `${error.path ?? root} cannot be written, and ${what} not up to date: run npm start once as a user who may write there${more}`,
  );
}
