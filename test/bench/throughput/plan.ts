import type { Way } from './load.ts';
import type { Options } from './options.ts';
import type { RoundOptions } from './round.ts';

/** A scenario, with one figure for each column. */
export interface Scenario {
  how: Way;
  /** KiB. */
  size: number;
  tls: boolean;
}

export const nameOf = ({ how, size, tls }: Scenario) => `${how}, ${size} KB, ${tls ? 'STARTTLS' : 'plain'}`;

/**
 * The scenarios to compare: the ways of submitting, only SMTP for a peer. STARTTLS comes right after plain, so that
 * neighbours in the table are neighbours in time.
 */
export const comparisonsOf = ({ sizes, tls }: Options): Omit<Scenario, 'how'>[] =>
  sizes.flatMap((size) => tls.map((each) => ({ size, tls: each })));

export const scenariosOf = (options: Options): Scenario[] =>
  options.ways.flatMap((how) => comparisonsOf(options).map((compared) => ({ how, ...compared })));

export const usualClients: Record<Way, number> = { batches: 2, singles: 50, smtp: 20 };
const fewAboveKiB = 10;

export const messagesOf = ({ messages }: Options, { size }: Scenario) =>
  messages ?? (size > fewAboveKiB ? 2_000 : 5_000);

/** A round of the scenario: under load with all its messages, or one message at a time. */
export function roundOf(
  options: Options,
  scenario: Scenario,
  { round, from, count, oneByOne = false }: { round: number; from: string; count: number; oneByOne?: boolean },
): RoundOptions {
  const { domains, sites, replyMs, sameBody, perSession } = options;
  const { how, size, tls } = scenario;
  return {
    how,
    clients: oneByOne ? 1 : (options.clients ?? usualClients[how]),
    perSession,
    oneByOne,
    replyMs,
    recipe: { round, count, bytes: size * 1_024, from, tls, domains, sites, sameBody },
  };
}
