import { randomFillSync } from 'node:crypto';
import { v7, validate } from 'uuid';

const latest = { msecs: 0, seq: 0 };

const idBytes = 16;
/** Drawn for many ids in one go, as each call costs as much as an id. */
const random = { bytes: Buffer.alloc(idBytes * 512), used: idBytes * 512 };

/**
 * A new UUIDv7: time-ordered, so "newest first" is an index scan and partitions can be cut by the id itself. Ids that
 * one process makes for the same moment, as for the emails of a batch, are in order too.
 */
export function newId(at?: Date): string {
  const msecs = at ? at.getTime() : Date.now();
  const bytes = drawRandom();
  latest.seq = msecs === latest.msecs ? latest.seq + 1 : bytes.readUInt32LE(0) >>> 1;
  latest.msecs = msecs;
  return v7({ msecs, seq: latest.seq, random: bytes });
}

function drawRandom(): Buffer {
  if (random.used === random.bytes.length) {
    randomFillSync(random.bytes);
    random.used = 0;
  }
  random.used += idBytes;
  return random.bytes.subarray(random.used - idBytes, random.used);
}

/** Whether the text is a UUID in the form that PostgreSQL's uuid type takes without an error. */
export function isId(text: string): boolean {
  return validate(text);
}

/** The smallest UUID that a version 7 id of this moment can be: the lower bound of a range of ids. Before 1970 there is none. */
export function floorId(at: Date): string {
  const hex = Math.max(0, at.getTime()).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-0000-0000-000000000000`;
}

/** The smallest UUID, which no row has: from here on, all are found. */
export const beforeAllIds = floorId(new Date(0));

/** The moment, to the millisecond, at which a UUIDv7 was made. */
export function timeOf(id: string): Date {
  return new Date(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16));
}
