import type { Target, Way } from './load.ts';
import type { Recipe } from './recipe.ts';
import type { Collected } from './sink.ts';

/** Processes by the first one of each family, without the families that are counted elsewhere. */
export interface Processes {
  roots: number[];
  except: number[];
}

/** The measured system: Sendwright, or the peer. */
export interface System {
  name: string;
  from: string;
  target(recipe: Recipe, how: Way): Target;
  server: Processes;
  /** Null: it has none. */
  database: Processes | null;
  /** Waits until nothing is left to do for delivered messages: outcomes recorded, queue files gone. */
  settle(): Promise<void>;
  /**
   * Checks its records of a round, and some messages that arrived.
   *
   * @throws Error if a message is not signed, or the records do not say that each was delivered once
   */
  audit(recipe: Recipe, kept: Collected['kept']): Promise<void>;
  stop(): Promise<void>;
}
