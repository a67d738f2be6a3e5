import { parseArgs } from 'node:util';

export interface Options {
  minutes: number;
  /** Prefix of the promises' numbers, such as `mime` or `mime.2`; empty: all of them. */
  only: string[];
  seed: number;
  /** The path to a counterexample in the tree of shrunk values; null: everything is tried anew. */
  path: string | null;
  json: string | null;
}

export const usage = `npm run fuzz [-- options]: tries what is promised on whatever comes up

  --minutes N     for so long (1)
  --only NAMES    subjects or promises, such as mime or mime.2 (all)
  --seed N        the same turns as the run that said it
  --path PATH     with --only and --seed, straight to a counterexample
  --json FILE     the figures`;

/** @throws TypeError with a sentence about what is wrong */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      minutes: { type: 'string', default: '1' },
      only: { type: 'string', multiple: true, default: [] },
      seed: { type: 'string' },
      path: { type: 'string' },
      json: { type: 'string' },
    },
  });
  if (!/^\d{1,4}(\.\d{1,3})?$/.test(values.minutes)) throw new TypeError('--minutes must be a number');
  if (values.seed !== undefined && !/^-?\d{1,10}$/.test(values.seed)) throw new TypeError('--seed must be a number');
  return {
    minutes: Number(values.minutes),
    only: values.only.flatMap((names) => names.split(',')),
    seed: values.seed === undefined ? Math.floor(Math.random() * 1e9) : Number(values.seed),
    path: values.path ?? null,
    json: values.json ?? null,
  };
}
