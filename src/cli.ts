import { parseArgs } from 'node:util';
import type { Command } from './cli/command.ts';
import { rotateEncryption } from './cli/rotate-encryption.ts';
import { ConfigError } from './config.ts';
import { startErrorOf } from './db/failure.ts';

const commands: Record<string, Command> = {
  'keys rotate-encryption': rotateEncryption,
};

const usage = [
  'Usage: sendwright <command> [--help]',
  '',
  ...Object.entries(commands).map(([name, { summary }]) => `  ${name}   ${summary}`),
  '',
  'Commands read the same environment as the service (docs/config.md).',
].join('\n');

/** What the process ends with. */
const [done, failed, misused] = [0, 1, 2];

const say = (sentence: string) => process.stderr.write(`${sentence}\n`);

async function main(args: string[]): Promise<number> {
  let given: { values: { help?: boolean | undefined }; positionals: string[] };
  try {
    given = parseArgs({ args, allowPositionals: true, options: { help: { type: 'boolean', short: 'h' } } });
  } catch (error) {
    say(`sendwright: ${(error as Error).message}\n\n${usage}`);
    return misused;
  }
  const name = given.positionals.join(' ');
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (given.values.help) {
    process.stdout.write(`${command?.help ?? usage}\n`);
    return done;
  }
  if (!command) {
    say(name ? `sendwright: there is no command ${JSON.stringify(name.slice(0, 100))}\n\n${usage}` : usage);
    return misused;
  }
  await command.run(process.env, say);
  return done;
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: Error) => {
    const expected = error instanceof ConfigError ? error : startErrorOf(error);
    say(`sendwright: ${expected?.message ?? error.stack}`);
    process.exit(failed);
  },
);
