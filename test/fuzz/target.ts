import type fc from 'fast-check';
import type { Test } from 'tap';
import type { openQueue } from '../support/db.ts';
import type { openPlace } from './place.ts';

/** What a target may need, opened on first use. */
export type Place = ReturnType<typeof openPlace>;

/** Runs its property on one value after another, or on several at once. */
// biome-ignore lint/suspicious/noExplicitAny: what the values are is the property's own affair
export type Property = fc.IRawProperty<any, boolean>;

/** A subject, and what is promised about it for any input. */
export interface Target {
  name: string;
  /** How often each promise is tried in `npm test`, if not a hundred times. */
  quick?: number;
  /** By the promise in words. */
  open(place: Place): Record<string, Property> | Promise<Record<string, Property>>;
}

/** What closes everything at the end: a test, or the program. */
export type Closing = Pick<Test, 'teardown'> & Parameters<typeof openQueue>[0];
