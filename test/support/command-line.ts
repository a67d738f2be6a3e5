/**
 * What a tool such as `npm run chaos` was asked for. With `--help` it says how it is used, and ends with 0; with what `read`
 * does not take it says what is wrong and the same, and ends with 2: before anything is started.
 *
 * @param read throws an Error with a sentence about what is wrong
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
    // Of what `parseArgs` says the first sentence is about the option, and the rest about dashes.
    const [wrong] = (error as Error).message.split('. To specify');
    process.stderr.write(`${wrong}\n\n${usage}\n`);
    process.exit(2);
  }
}

/** @throws Error that names the option which is wrong */
export function wholeNumber(name: string, text: string, least: number): number {
  if (/^\d{1,9}$/.test(text) && Number(text) >= least) return Number(text);
  throw new Error(`${name} must be a whole number from ${least} on, not ${text}`);
}

/**
 * These of the options that `parseArgs` gives.
 *
 * @param least the least that each may be
 * @throws Error that names the option which is wrong
 */
export function wholeNumbers<Name extends string>(
  values: Record<NoInfer<Name>, string>,
  least: Record<Name, number>,
): Record<Name, number> {
  const names = Object.keys(least) as Name[];
  const numbers = names.map((name) => [name, wholeNumber(`--${name}`, values[name], least[name])]);
  return Object.fromEntries(numbers);
}

/** Of a tool that takes one number and nothing else. @throws Error with a sentence about what is wrong */
export function onlyNumber(args: string[], usual: number): number {
  const [given, ...others] = args;
  if (others.length > 0) throw new Error(`takes one number, not ${args.join(' ')}`);
  return given === undefined ? usual : wholeNumber('what is given', given, 1);
}

/** Of a tool that takes no arguments. @throws Error with a sentence about what is wrong */
export function nothing(args: string[]): void {
  if (args.length > 0) throw new Error(`takes no arguments, not ${args.join(' ')}`);
}
