import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { z } from 'zod';
import { ApiError } from '../errors.ts';
import { parse } from '../http/input/validation.ts';
import { type Given, Misuse } from './command.ts';

/** The largest file or standard input: as large as a call of the API. */
const mostBytes = 40 * 1024 * 1024;

/** An option with one value; undefined if it was left out. */
export const textOf = ({ options }: Given, name: string): string | undefined => options[name] as string | undefined;

/** @throws Misuse if it was left out */
export function required(given: Given, name: string): string {
  const text = textOf(given, name);
  if (!text) throw new Misuse(`--${name} is missing`);
  return text;
}

/** The values of an option that may be given more than once; each may be a list with commas. */
export const listOf = ({ options }: Given, name: string): string[] =>
  ((options[name] ?? []) as string[]).flatMap((value) => value.split(',').map((item) => item.trim()));

export const isSet = ({ options }: Given, name: string): boolean => options[name] === true;

/** Options by the fields of the API that they are. */
export type OptionOf = Record<string, string>;

/**
 * Parses values as the API does.
 *
 * @param optionOf names options where the API names fields
 * @throws Misuse that names the field
 */
export const read = <T extends z.ZodType>(schema: T, input: unknown, optionOf?: OptionOf): z.output<T> =>
  readBy((unread) => parse(schema, unread), input, optionOf);

/**
 * The same with a parser of the API.
 *
 * @throws Misuse, as `read` does
 */
export function readBy<Input, Output>(parser: (input: Input) => Output, input: Input, optionOf: OptionOf = {}): Output {
  try {
    return parser(input);
  } catch (error) {
    if (error instanceof ApiError) throw new Misuse(asTyped(error.detail ?? error.message, optionOf));
    throw error;
  }
}

/** Nobody has typed the field that a refusal begins with, as `scheduled_at: …` or `to[1]: …`. */
const asTyped = (refusal: string, optionOf: OptionOf): string =>
  refusal.replace(/^(\w+)(?=(\[\d+\])?: )/, (field) => {
    const option = Object.hasOwn(optionOf, field) ? optionOf[field] : undefined;
    return option === undefined ? field : `--${option}`;
  });

/**
 * Reads a file, or standard input if the file is `-`.
 *
 * @throws Misuse if it cannot be read, is too large or is not UTF-8
 */
export async function contentOf({ folder }: Given, file: string): Promise<string> {
  const named = file === '-' ? 'standard input' : file;
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    const stream = file === '-' ? process.stdin : (await open(resolve(folder, file))).createReadStream();
    for await (const chunk of stream) {
      chunks.push(Buffer.from(chunk));
      size += chunk.length;
      if (size > mostBytes) throw new Error('it is larger than 40 MB');
    }
  } catch (error) {
    throw new Misuse(`cannot read ${named} (${(error as Error).message})`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new Misuse(`${named} is not UTF-8 text: save it as UTF-8 (spreadsheets call this CSV UTF-8)`);
  }
}
