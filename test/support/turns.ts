import { AccountTurns } from '../../src/pace/account-turns.ts';

/** As a node has them. */
export const newTurns = () => new AccountTurns({ most: 6, mostOfAccount: 3, mostWaiting: 200, patienceMs: 10_000 });
