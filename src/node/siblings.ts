import type { TokenBuckets } from '../pace/rate-limit.ts';

/**
 * The other processes of this node, if `WORKERS` asks for some. Mail is right without any of this: what gets lost with a
 * process only costs time.
 */
export interface Siblings {
  /** Says under which name this process is about to claim work, so that its claims are free as soon as it is dead. */
  tellName(nodeId: string): void;
  tell(news: News): void;
  onNews(listener: (news: News) => void): void;
}

export type News =
  /** There is work in this line of the queue. */
  | { kind: 'work'; line: string }
  /** How many tokens were taken from the buckets of these ids. */
  | { kind: 'spent'; tokens: [id: string, count: number][] };

/** The process that commits work begins with it at once; after this time the others look whether there is more. */
const workMs = 50;

/** For this long a bucket can be emptied in several processes at once. */
const tokensMs = 50;

/** Wakes the siblings when there is work here, and this process when there is work there. */
export function shareWork(
  name: string,
  line: { wake(): void; onWake(listener: () => void): void },
  siblings: Siblings,
): void {
  let waking = false;
  let timer: NodeJS.Timeout | null = null;
  line.onWake(() => {
    if (waking || timer !== null) return;
    timer = setTimeout(() => {
      timer = null;
      siblings.tell({ kind: 'work', line: name });
    }, workMs);
    timer.unref();
  });
  siblings.onNews((news) => {
    if (news.kind !== 'work' || news.line !== name) return;
    waking = true;
    line.wake();
    waking = false;
  });
}

/**
 * Makes the buckets of several processes one, with a delay: tokens taken meanwhile beyond those that were there are owed,
 * and paid back before the next is given out.
 */
export function shareBuckets(buckets: TokenBuckets, siblings: Siblings): void {
  let taken = new Map<string, number>();
  buckets.onTake((id) => {
    if (taken.size === 0) {
      setTimeout(() => {
        siblings.tell({ kind: 'spent', tokens: [...taken] });
        taken = new Map();
      }, tokensMs).unref();
    }
    taken.set(id, (taken.get(id) ?? 0) + 1);
  });
  siblings.onNews((news) => {
    if (news.kind !== 'spent') return;
    for (const [id, count] of news.tokens) buckets.charge(id, count);
  });
}
