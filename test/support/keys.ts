import { createHash } from 'node:crypto';

/** An encryption key that a node starts with, always the same for the same number. */
export const testKey = (number: number): Buffer => createHash('sha256').update(`key ${number}`).digest();
