import { totalmem } from 'node:os';

/** The memory that the service may use, in bytes: the container's, if it has a limit, or else the machine's. */
export const memoryBytes = (): number => Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
