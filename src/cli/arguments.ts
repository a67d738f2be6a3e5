import { parseArgs } from 'node:util';
import { type Command, type Given, Misuse } from './command.ts';

/**
 * Not strict: Node's own refusals have three lines, and it takes no value such as -1.
 *
 * @throws Misuse for an option that the command does not have, or has in another form
 */
export function readArguments({ options: own = {} }: Command, args: string[]): Pick<Given, 'operands' | 'options'> {
  const options = { ...own, help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } } as const;
  const parsed = parseArgs({ args, allowPositionals: true, options, strict: false, tokens: true });
  for (const token of parsed.tokens) if (token.kind === 'option') demandOption(options, token);
  return { operands: parsed.positionals, options: parsed.values };
}

interface Token {
  name: string;
  /** The option as it was written, without its value. */
  rawName: string;
  value: string | undefined;
  /** Whether the value was written after an equals sign. */
  inlineValue: boolean | undefined;
}

function demandOption(options: NonNullable<Command['options']>, { name, rawName, value, inlineValue }: Token): void {
  const type = options[name]?.type;
  if (type === undefined) throw new Misuse(`unknown option ${rawName.slice(0, 100)}`);
  if (type === 'boolean') {
    if (value !== undefined) throw new Misuse(`${rawName} takes no value`);
    return;
  }
  const isNextOption = !inlineValue && (value?.startsWith('--') || value === '-h');
  if (value === undefined || isNextOption)
    throw new Misuse(`${rawName} needs a value (write one that begins with -- as ${rawName}=…)`);
}

/** @throws Misuse if an operand is missing, or there is one too many */
export function demandOperands({ operands = [] }: Command, given: string[]): void {
  const missing = operands[given.length];
  if (missing) throw new Misuse(`<${missing}> is missing`);
  const [more] = given.slice(operands.length);
  if (more !== undefined) throw new Misuse(`unexpected argument ${JSON.stringify(more.slice(0, 100))}`);
}
