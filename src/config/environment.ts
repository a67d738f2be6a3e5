import { isNearly, plainly } from '../spelling.ts';
import { ShownValueError } from './values.ts';
import { variables } from './variables.ts';

/** A variable of the environment that cannot be used; the message is the one line that an operator needs. */
export class ConfigError extends Error {}

/** The variables of the environment, each read by its own parser. */
export class Environment {
  readonly #env: Record<string, string | undefined>;

  constructor(env: Record<string, string | undefined>) {
    this.#env = env;
  }

  /** @param parse throws an Error that says what the value must be */
  read<T>(name: string, parse: (text: string) => T, fallback: T): T {
    const text = this.#given(name);
    if (text === null) return fallback;
    try {
      return parse(text);
    } catch (error) {
      const end = error instanceof ShownValueError ? '' : butNot(name, text);
      throw new ConfigError(`${name} must be ${(error as Error).message}${end}`);
    }
  }

  /** @param parse throws an Error that names the wrong entry */
  readEntries<T>(name: string, parse: (text: string) => T, fallback: T): T {
    const text = this.#given(name);
    return text === null ? fallback : naming(name, () => parse(text));
  }

  /** Variables that are set, are none of ours, and differ from one that is not set by a letter. */
  misspelled(): { written: string; meant: string }[] {
    const isSet = (name: string) => Boolean(this.#env[name]?.trim());
    const names = variables.map(({ name }) => name);
    return Object.keys(this.#env)
      .filter((written) => isSet(written) && !names.includes(written))
      .flatMap((written) => {
        const meant = names.find((name) => !isSet(name) && isNearly(plainly(name), plainly(written)));
        return meant === undefined ? [] : [{ written, meant }];
      });
  }

  #given(name: string): string | null {
    const text = this.#env[name]?.trim() || null;
    if (text !== null && /^(["']).*\1$/s.test(text))
      throw new ConfigError(
        `${name} must be set without quotes around the value: some tools, such as docker run --env-file, keep them as part of it`,
      );
    return text;
  }
}

/** For errors that already name the entry of the variable. */
export function naming<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ConfigError(`${name}: ${(error as Error).message}`);
  }
}

export const missing = (name: string, must: string) => new ConfigError(`${name} is missing: it must be ${must}`);

const secretNames = new Set([
  'DATABASE_URL',
  'ADMIN_PASSWORD',
  'JWT_SECRET',
  'ENCRYPTION_KEY',
  'ENCRYPTION_KEY_NEXT',
  // Its path is no secret, but the content of the file, given by mistake, is.
  'SMTP_TLS_KEY',
]);

function butNot(name: string, text: string): string {
  const holdsPassword = /\/\/[^/]*@/.test(text);
  return secretNames.has(name) || holdsPassword
    ? ' (the value is not shown)'
    : `, not ${JSON.stringify(text.slice(0, 100))}`;
}
