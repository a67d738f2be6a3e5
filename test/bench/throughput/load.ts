import type { Recipe } from './recipe.ts';

/** How messages are submitted: requests of 1,000, requests of one, or SMTP sessions. */
export type Way = 'batches' | 'singles' | 'smtp';

export interface Target {
  host: string;
  port: number;
  /** Without one an SMTP session has no AUTH. */
  key: string | null;
  /** An SMTP session begins with STARTTLS. */
  startTls: boolean;
}

/** The load generator's orders. */
export interface Load {
  recipe: Recipe;
  how: Way;
  target: Target;
  /** Connections at once. */
  clients: number;
  /** Messages in one SMTP session. */
  perSession: number;
  /** One message at a time, the next one when told to. */
  oneByOne: boolean;
}

export type LoadOrder = { prepare: Load } | { go: true } | { next: true };

export type LoadNews =
  | { waiting: true }
  | { prepared: true }
  | { sent: number }
  | { done: Loaded }
  | { failed: string };

/** When each message was submitted, and when that was answered. */
export interface Loaded {
  askedAt: Float64Array;
  acceptedAt: Float64Array;
}
