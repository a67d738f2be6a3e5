import { pausedUntil } from '../../core/recipients/waiting-for.ts';

export const iso = (at: Date | null): string | null => at?.toISOString() ?? null;

/** While a destination is paused nobody knows when. */
export const soon = (at: Date | null) => (at !== null && at < pausedUntil ? iso(at) : null);
