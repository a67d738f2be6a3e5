import type { Inputs } from './inputs.ts';

/** Assumptions that cannot be measured here; each can be given as an option. */
export interface Assumptions {
  /** The busiest hour's rate relative to the day's. */
  peak: number;
  /** Processors of a database server, and how busy they may be in that hour. */
  databaseCores: number;
  busy: number;
  /** Bytes of log per second that a server can write and send to its standby. */
  walBytesPerSecond: number;
  /** Days that emails and their attempts are kept, and their bodies. */
  days: number;
  bodyDays: number;
  /** Maximum data of one database server, in bytes: it must be copied when a standby is replaced. */
  storage: number;
}

export const usual: Assumptions = {
  peak: 3,
  databaseCores: 32,
  busy: 0.5,
  walBytesPerSecond: 150e6,
  days: 30,
  bodyDays: 7,
  storage: 8e12,
};

/** The requirements of this many emails a day. */
export interface Plan {
  perDay: number;
  perSecond: number;
  peakPerSecond: number;
  walPerSecond: number;
  walPerDay: number;
  rowsPerDay: number;
  storedBytes: number;
  partitionBytes: number;
  /** Processors for workers and for databases in the busiest hour. */
  workerCores: number;
  databaseCores: number;
  /** Databases, each with its standby and its accounts, and what limits their number. */
  cells: number;
  because: string;
  workersPerCell: number;
  connectionsPerCell: number;
}

const daySeconds = 86_400;
/** For one email to one recipient: email, content, recipient, attempt. */
const rowsPerEmail = 4;
const bodyTable = 'email_contents';

export function planOf(perDay: number, inputs: Inputs, assumed: Assumptions): Plan {
  const perSecond = perDay / daySeconds;
  const peakPerSecond = perSecond * assumed.peak;
  const bodies = inputs.storedBytes[bodyTable] ?? 0;
  const others = Object.values(inputs.storedBytes).reduce((sum, bytes) => sum + bytes, 0) - bodies;
  const storedBytes = perDay * (others * assumed.days + bodies * assumed.bodyDays);
  const walPerSecond = peakPerSecond * inputs.walBytes;
  const workerCores = (peakPerSecond * inputs.cpu.server) / assumed.busy;
  const databaseCores = (peakPerSecond * inputs.cpu.database) / assumed.busy;
  const needs: [string, number][] = [
    ['processors', databaseCores / assumed.databaseCores],
    ['write-ahead log', walPerSecond / assumed.walBytesPerSecond],
    ['storage', storedBytes / assumed.storage],
  ];
  const [because, most] = needs.reduce((a, b) => (b[1] > a[1] ? b : a));
  const cells = Math.max(1, Math.ceil(most));
  const workersPerCell = Math.max(2, Math.ceil(workerCores / cells));
  return {
    ...{ perDay, perSecond, peakPerSecond, walPerSecond, walPerDay: perDay * inputs.walBytes },
    ...{ rowsPerDay: perDay * rowsPerEmail, storedBytes, partitionBytes: perDay * 7 * (others + bodies) },
    ...{ workerCores, databaseCores, cells, because, workersPerCell },
    connectionsPerCell: workersPerCell * inputs.connections,
  };
}
