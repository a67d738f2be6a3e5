import type { DKIMKey, Domain } from '../../../client/index.ts';
import { now } from '../../words/clock.ts';

/** How long the server looks by itself for the records of a new domain, and for that of a new key, in ms. */
const soughtForMs = 48 * 3_600_000;

/** Whether the server still looks for the records of a pending domain by itself. */
export const isSought = ({ created_at: at }: Domain, keys: DKIMKey[] = []): boolean =>
  [at, ...keys.flatMap((key) => (key.status === 'pending' ? [key.created_at] : []))].some(
    (since) => now() - Date.parse(since) < soughtForMs,
  );
