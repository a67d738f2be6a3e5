import { readFileSync } from 'node:fs';
import { ConfigError } from '../config/environment.ts';
import { startErrorOf } from '../db/failure.ts';
import { ApiError } from '../errors.ts';
import { demandOperands, readArguments } from './arguments.ts';
import { type Env, Misuse, type Say } from './command.ts';
import { commands } from './commands.ts';

/** Exit codes. */
export const [done, failed, misused] = [0, 1, 2];

const widest = Math.max(...Object.keys(commands).map((name) => name.length));

const usageOf = (names: string[]) =>
  [
    'Usage: sendwright <command> [--json] [--help]',
    '       sendwright --version',
    '',
    ...names.map((name) => `  ${name.padEnd(widest)}   ${commands[name]?.summary}`),
    '',
    'Commands read the same environment as the service (docs/config.md) and work on its database, even while nodes run.',
    'With --json they print JSON. Exit codes: 0 done, 1 refused, failed or something to do, 2 wrong usage.',
  ].join('\n');

const usage = usageOf(Object.keys(commands));

/** Where the output of a command goes. */
export interface Terminal {
  /** To standard output. */
  print(text: string): void;
  say: Say;
  /** See `Given`. */
  progress(line: string): void;
}

/**
 * Runs one command to its end.
 *
 * @param args the arguments of `sendwright`
 * @returns the exit code
 * @throws any error that is a defect of ours
 */
export async function run(args: string[], env: Env, { print, say, progress }: Terminal): Promise<number> {
  // As with other programs, such as `npm help install`.
  if (args[0] === 'help') return run([...args.slice(1), '--help'], env, { print, say, progress });
  const found = find(args);
  if (!found) return runWithoutCommand(args, print, say);
  const { name, rest } = found;
  const command = await found.load();
  let given: ReturnType<typeof readArguments> | undefined;
  try {
    given = readArguments(command, rest);
    if (given.options.help) {
      print(command.help);
      return done;
    }
    demandOperands(command, given.operands);
    const folder = env.SENDWRIGHT_CALLED_IN ?? '.';
    const output = await command.run(env, say, { ...given, folder, progress });
    progress('');
    if (output) print(given.options.json ? JSON.stringify(output.json, null, 2) : output.text);
    return output?.failed ? failed : done;
  } catch (error) {
    progress('');
    if (error instanceof Misuse) {
      say(`sendwright ${name}: ${error.message}\nSee sendwright ${name} --help.`);
      return misused;
    }
    const expected = error instanceof ConfigError ? error : refusalOf(error, given?.operands ?? []);
    if (!expected) throw error;
    say(`sendwright: ${expected.message}`);
    return failed;
  }
}

function find(args: string[]) {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ');
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
    if (command) return { name, load: command.load, rest: args.slice(words) };
  }
  return null;
}

const version = (): string => JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version;

/** For `--version`, `--help`, and anything that is not a command. */
function runWithoutCommand(args: string[], print: Terminal['print'], say: Terminal['say']): number {
  if (args.length === 1 && args[0] === '--version') {
    print(version());
    return done;
  }
  const [noun] = args.filter((word) => !word.startsWith('-'));
  const ofNoun = Object.keys(commands).filter((name) => noun !== undefined && name.startsWith(`${noun} `));
  const closestUsage = ofNoun.length > 0 ? usageOf(ofNoun) : usage;
  if (args.some((word) => word === '--help' || word === '-h')) {
    print(closestUsage);
    return done;
  }
  const name = args.join(' ').slice(0, 100);
  const isIncomplete = name === noun && ofNoun.length > 0;
  const what = isIncomplete ? `${name} needs a second word` : `unknown command ${JSON.stringify(name)}`;
  say(name ? `sendwright: ${what}\n\n${closestUsage}` : usage);
  return misused;
}

/** @param operands of the command, for a 404 that does not name what was not found */
function refusalOf(error: unknown, operands: string[]): Error | null {
  if (!(error instanceof ApiError)) return startErrorOf(error);
  const about = error.status === 404 ? operands.map((one) => `${JSON.stringify(one.slice(0, 100))}: `).join('') : '';
  return new Error(error.detail ?? `${about}${error.message}`);
}
