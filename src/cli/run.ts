import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ConfigError } from '../config.ts';
import { startErrorOf } from '../db/failure.ts';
import { ApiError } from '../errors.ts';
import { changePlan, createAccount, listAccounts, resumeAccount, suspendAccount } from './accounts.ts';
import { type Command, type Given, Misuse } from './command.ts';
import { doctor } from './doctor.ts';
import { checkDomain, listDomains } from './domains.ts';
import { beginHold, endHold } from './hold.ts';
import { createKey, listKeys, revokeKey } from './keys.ts';
import { migrate } from './migrate.ts';
import { eraseRecipient, exportAccount } from './privacy.ts';
import { flushDestination, listQueue, pauseDestination, resumeDestination } from './queue.ts';
import { rotateEncryption } from './rotate-encryption.ts';
import { send } from './send.ts';
import { start } from './start.ts';
import { importSuppressions } from './suppressions.ts';
import { addUser, listUsers, removeUser, setPassword } from './users.ts';

export const commands: Record<string, Command> = {
  start,
  migrate,
  doctor,
  'accounts list': listAccounts,
  'accounts create': createAccount,
  'accounts suspend': suspendAccount,
  'accounts resume': resumeAccount,
  'accounts plan': changePlan,
  'accounts export': exportAccount,
  'accounts erase-recipient': eraseRecipient,
  'users list': listUsers,
  'users add': addUser,
  'users password': setPassword,
  'users remove': removeUser,
  'keys list': listKeys,
  'keys create': createKey,
  'keys revoke': revokeKey,
  'keys rotate-encryption': rotateEncryption,
  'domains list': listDomains,
  'domains check': checkDomain,
  'queue list': listQueue,
  'queue pause': pauseDestination,
  'queue resume': resumeDestination,
  'queue flush': flushDestination,
  'suppressions import': importSuppressions,
  hold: beginHold,
  release: endHold,
  send,
};

/** What the process ends with. */
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

/** Where a command is heard. */
export interface Terminal {
  /** To the standard output. */
  print(text: string): void;
  /** To the standard error. */
  say(sentence: string): void;
  /** As `Given` has it. */
  progress(line: string): void;
}

/**
 * Runs one command to its end.
 *
 * @param args what follows `sendwright`
 * @returns the exit code
 * @throws what is a defect of ours
 */
export async function run(
  args: string[],
  env: Record<string, string | undefined>,
  { print, say, progress }: Terminal,
): Promise<number> {
  // The way of other commands, such as `npm help`.
  if (args[0] === 'help') return run([...args.slice(1), '--help'], env, { print, say, progress });
  const found = find(args);
  if (!found) return withoutCommand(args, print, say);
  const { name, command, rest } = found;
  let given: ReturnType<typeof read> | undefined;
  try {
    given = read(command, rest);
    if (given.options.help) {
      print(command.help);
      return done;
    }
    demandOperands(command, given.operands);
    const folder = env.SENDWRIGHT_CALLED_IN ?? '.';
    const told = await command.run(env, say, { ...given, folder, progress });
    progress('');
    if (told) print(given.options.json ? JSON.stringify(told.json, null, 2) : told.text);
    return told?.failed ? failed : done;
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

function find(args: string[]): { name: string; command: Command; rest: string[] } | null {
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(' ');
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
    if (command) return { name, command, rest: args.slice(words) };
  }
  return null;
}

/** That of the release whose files these are. */
const version = (): string => JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version;

function withoutCommand(args: string[], print: Terminal['print'], say: Terminal['say']): number {
  if (args.length === 1 && args[0] === '--version') {
    print(version());
    return done;
  }
  const words = args.filter((word) => !word.startsWith('-'));
  const group = Object.keys(commands).filter((name) => name.startsWith(`${words[0]} `));
  if (args.some((word) => word === '--help' || word === '-h')) {
    print(words.length > 0 && group.length > 0 ? usageOf(group) : usage);
    return done;
  }
  const name = args.join(' ').slice(0, 100);
  const close = words.length > 0 && group.length > 0 ? usageOf(group) : usage;
  say(name ? `sendwright: unknown command ${JSON.stringify(name)}\n\n${close}` : usage);
  return misused;
}

/** What Node refuses by itself it says in three lines, and it takes no value such as -1. */
function read({ options: own = {} }: Command, args: string[]): Pick<Given, 'operands' | 'options'> {
  const options = { ...own, help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } } as const;
  const parsed = parseArgs({ args, allowPositionals: true, options, strict: false, tokens: true });
  for (const token of parsed.tokens) if (token.kind === 'option') demandOption(options, token);
  return { operands: parsed.positionals, options: parsed.values };
}

interface Token {
  name: string;
  /** As it was written, without a value. */
  rawName: string;
  value: string | undefined;
  /** Written behind an equals sign. */
  inlineValue: boolean | undefined;
}

function demandOption(options: NonNullable<Command['options']>, { name, rawName, value, inlineValue }: Token): void {
  const type = Object.hasOwn(options, name) ? options[name]?.type : undefined;
  if (type === undefined) throw new Misuse(`unknown option ${rawName.slice(0, 100)}`);
  if (type === 'boolean') {
    if (value !== undefined) throw new Misuse(`${rawName} takes no value`);
    return;
  }
  const isNextOption = !inlineValue && (value?.startsWith('--') || value === '-h');
  if (value === undefined || isNextOption)
    throw new Misuse(`${rawName} needs a value (write one that begins with -- as ${rawName}=…)`);
}

function demandOperands({ operands = [] }: Command, given: string[]): void {
  const missing = operands[given.length];
  if (missing) throw new Misuse(`<${missing}> is missing`);
  const [more] = given.slice(operands.length);
  if (more !== undefined) throw new Misuse(`unexpected argument ${JSON.stringify(more.slice(0, 100))}`);
}

/** @param operands what the command was about, for an error that does not say it */
function refusalOf(error: unknown, operands: string[]): Error | null {
  if (!(error instanceof ApiError)) return startErrorOf(error);
  const about = error.status === 404 ? operands.map((one) => `${JSON.stringify(one.slice(0, 100))}: `).join('') : '';
  return new Error(error.detail ?? `${about}${error.message}`);
}
