import { createHash } from 'node:crypto';

/** An encryption key that a node starts with, the same for a number each time. */
export const testKey = (number: number): Buffer => createHash('sha256').update(`key ${number}`).digest();
