import type { ParseArgsConfig } from 'node:util';

/** What a command was given beside its name. */
export interface Given {
  operands: string[];
  options: Record<string, string | boolean | (string | boolean)[] | undefined>;
  /** Where the command was typed: relative paths begin there. */
  folder: string;
  /** Shows how far it is, in one line that the next replaces; on a terminal only. */
  progress(line: string): void;
}

/** What a command has to tell: to programs, and to people. */
export interface Told {
  json: unknown;
  text: string;
  /** There is something to do, or it did not come to what was asked for: the exit code is 1. */
  failed?: boolean;
}

/** One thing that `sendwright` can be asked to do. */
export interface Command {
  /** One line, without a full stop. */
  summary: string;
  help: string;
  /** Beside `--help` and, where it has something to tell, `--json`. */
  options?: NonNullable<ParseArgsConfig['options']>;
  /** What follows its name; all of them have to be given. */
  operands?: string[];
  /**
   * @param say tells the operator one thing, in a line or a few
   * @returns null: it has said all that it has to tell
   * @throws Misuse; ConfigError, StartError or ApiError, one line for the operator; anything else is a defect of ours
   */
  run(env: Record<string, string | undefined>, say: (sentence: string) => void, given: Given): Promise<Told | null>;
}

/** The command was not given what it needs: a sentence that says so. */
export class Misuse extends Error {}
