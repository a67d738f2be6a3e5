import type { ParseArgsConfig } from 'node:util';

/** The variables of the environment. */
export type Env = Record<string, string | undefined>;

/** Writes one message for the operator to standard error. */
export type Say = (sentence: string) => void;

/** The arguments of a command, and its place. */
export interface Given {
  operands: string[];
  options: Record<string, string | boolean | (string | boolean)[] | undefined>;
  /** The folder in which the command was typed, to which paths are relative. */
  folder: string;
  /** Shows how far the command is, in one line that the next one replaces; only on a terminal. */
  progress(line: string): void;
}

/** The result of a command, for programs and for people. */
export interface Output {
  json: unknown;
  text: string;
  /** There is something to do, or the command did not do what was asked: the exit code is 1. */
  failed?: boolean;
}

/** One command of `sendwright`. */
export interface Command {
  help: string;
  /** In addition to `--help` and `--json`. */
  options?: NonNullable<ParseArgsConfig['options']>;
  /** The names of the operands, all of which are required. */
  operands?: string[];
  /**
   * @returns null if the command has written everything by itself
   * @throws Misuse; ConfigError, StartError or ApiError, whose message is for the operator. Any other error is a defect of ours
   */
  run(env: Env, say: Say, given: Given): Promise<Output | null>;
}

/** Wrong usage: the message says which argument is missing or wrong. */
export class Misuse extends Error {}
