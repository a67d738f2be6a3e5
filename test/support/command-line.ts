/**
 * Reads the command line of a tool such as `npm run chaos`. With `--help` it prints the usage, and ends with 0; if
 * `read` refuses something it prints the error and the usage, and ends with 2: before anything is started.
 *
 * ¶ @param read throws an Error with a sentence about what is wrong
 */
export function asked<Options>(usage: string, read: (args: string[]) => Options): Options {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  try {
    return read(args);
  } catch (error) {
    // The first sentence of `parseArgs` is about the option, and the rest about dashes.
    const [wrong] = (error as Error).message.split('. To specify');
    process.stderr.write(`${wrong}\n\n${usage}\n`);
    process.exit(2);
  }
}

/** @throws Error that names the wrong option */
export function wholeNumber(name: string, text: string, least: number): number {
  if (/^\d{1,9}$/.test(text) && Number(text) >= least) return Number(text);
  throw new Error(`${name} must be a whole number of at least ${least}, not ${text}`);
}

/**
 * These options as `parseArgs` returns them.
 *
 * ¶ @param least the minimum of each @throws Error that names the wrong option
 */
export function wholeNumbers<Name extends string>(
  values: Record<NoInfer<Name>, string>,
  least: Record<Name, number>,
): Record<Name, number> {
  const names = Object.keys(least) as Name[];
  const numbers = names.map((name) => [name, wholeNumber(`--${name}`, values[name], least[name])]);
  return Object.fromEntries(numbers);
}

/** For a tool that takes one number and nothing else. @throws Error with a sentence about what is wrong */
export function onlyNumber(args: string[], usual: number): number {
  const [given, ...others] = args;
  if (others.length > 0) throw new Error(`takes one number, not ${args.join(' ')}`);
  return given === undefined ? usual : wholeNumber('the argument', given, 1);
}

/** For a tool that takes no arguments. @throws Error with a sentence about what is wrong */
export function nothing(args: string[]): void {
  if (args.length > 0) throw new Error(`takes no arguments, not ${args.join(' ')}`);
}
