import type fc from 'fast-check';
import type { Test } from 'tap';
import type { openQueue } from '../support/db.ts';
import type { openPlace } from './place.ts';

/** What a target may need, opened when it is first asked for. */
export type Place = ReturnType<typeof openPlace>;

/** One that runs its property on one value after another, at once or each after the other. */
// biome-ignore lint/suspicious/noExplicitAny: what the values are is the property's own affair
export type Property = fc.IRawProperty<any, boolean>;

/** A subject, and what is promised of it whatever comes. */
export interface Target {
  name: string;
  /** How often each promise is tried in `npm test`, where that is not a hundred times. */
  quick?: number;
  /** By the promise in words. */
  open(place: Place): Record<string, Property> | Promise<Record<string, Property>>;
}

/** What closes again when all is over: a test, or the program. */
export type Closing = Pick<Test, 'teardown'> & Parameters<typeof openQueue>[0];
