import { pausedUntil } from '../../core/recipients/waiting-for.ts';

export const iso = (at: Date | null): string | null => at?.toISOString() ?? null;

/** Null also while a destination is paused, as nobody knows then. */
export const soon = (at: Date | null) => (at !== null && at < pausedUntil ? iso(at) : null);
