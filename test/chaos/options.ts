import { parseArgs } from 'node:util';

export interface Options {
  /** Null: as many as are quick. */
  rounds: number | null;
  only: string[];
  /** Prefixes of the stages to run; empty: all of them. */
  stages: string[];
  seed: number;
  /** Much more of everything, for hours. */
  long: boolean;
  /** How many scenarios run at once: most of each is waiting. */
  lanes: number;
  json: string | null;
  keep: boolean;
}

export const usage = `npm run chaos [-- options]: breaks a real service, and counts what is lost or arrives twice

  --only NAMES    scenarios, or what their names begin with (all that are quick)
  --stage NAMES   what the names of stages begin with, such as S1,S12 (all)
  --rounds N      of each scenario (few)
  --long          everything twenty times, and what takes long: about two hours
  --lanes N       scenarios at once (3; 1 with --long)
  --seed N        the same choices as the run that said it
  --json FILE     the figures
  --keep          leaves the ledgers where all is well, too`;

/** @throws TypeError with a sentence about what is wrong */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string' },
      only: { type: 'string', multiple: true, default: [] },
      stage: { type: 'string', multiple: true, default: [] },
      seed: { type: 'string' },
      long: { type: 'boolean', default: false },
      lanes: { type: 'string' },
      json: { type: 'string' },
      keep: { type: 'boolean', default: false },
    },
  });
  const number = (name: 'rounds' | 'seed' | 'lanes') => {
    const text = values[name];
    if (text === undefined) return null;
    if (!/^\d{1,9}$/.test(text)) throw new TypeError(`--${name} must be a number`);
    return Number(text);
  };
  return {
    rounds: number('rounds'),
    only: values.only.flatMap((names) => names.split(',')),
    stages: values.stage.flatMap((names) => names.split(',')),
    seed: number('seed') ?? Math.floor(Math.random() * 1e9),
    long: values.long,
    // Figures of a long run are about one thing at a time.
    lanes: Math.max(1, number('lanes') ?? (values.long ? 1 : 3)),
    json: values.json ?? null,
    keep: values.keep,
  };
}
