import type { Options } from './options.ts';
import type { Scenario } from './run.ts';
import { scenarios } from './scenarios/all.ts';

/** The scenarios of a run. @throws TypeError with a sentence about what is wrong */
export function choose({ only, long, stages }: Pick<Options, 'only' | 'long' | 'stages'>): Scenario[] {
  // `random` is a scenario of its own, and not the beginning of `random-bytes`.
  const isWhole = (wanted: string) => scenarios.some(({ name }) => name === wanted);
  const named = (wanted: string, { name }: Scenario) =>
    name === wanted || (!isWhole(wanted) && name.startsWith(`${wanted}-`));
  const unknown = only.filter((wanted) => !scenarios.some((scenario) => named(wanted, scenario)));
  if (unknown.length > 0) {
    throw new TypeError(
      `no such scenario: ${unknown.join(', ')}; there are ${scenarios.map(({ name }) => name).join(', ')}`,
    );
  }
  const asked = scenarios.filter((scenario) =>
    only.length === 0 ? long || !scenario.long : only.some((wanted) => named(wanted, scenario)),
  );
  const chosen = asked
    .map((scenario) => (scenario.stages ? { ...scenario, stages: withStart(scenario.stages, stages) } : scenario))
    .filter((scenario) => scenario.stages?.length !== 0);
  if (stages.length > 0 && !chosen.some((scenario) => scenario.stages))
    throw new TypeError(`no stage of the selected scenarios begins with ${stages.join(' or ')}`);
  return chosen;
}

/** `S1` is not the start of `S10`. */
function withStart(names: string[], starts: string[]): string[] {
  if (starts.length === 0) return names;
  return names.filter((name) => starts.some((start) => name.startsWith(start) && !/\w/.test(name[start.length] ?? '')));
}
