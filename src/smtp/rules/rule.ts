import type { Classification, Phase } from '../result.ts';

/** Subject and detail of an enhanced code, `1.x` for a whole subject, or `none`: no code, or one that says nothing (X.0.0, X.5.0). */
export type EnhancedPattern = `${number}.${number}` | `${number}.x` | 'none';

/** One thing that servers say, and what it is about. Of all rules that fit a reply the first one decides. */
export interface Rule {
  /** At which commands; any where it is left out, and so for all others. */
  when?: readonly Phase[];
  codes?: readonly (number | '4xx' | '5xx')[];
  /** Whatever the class, so that `1.1` is 4.1.1 and 5.1.1. */
  enhanced?: readonly EnhancedPattern[];
  /**
   * Meets the text as `comparable` makes it: lower case, no accents on Latin letters, no addresses, single spaces.
   * Every repetition has a bound, so that the time is linear in the text.
   */
  text?: RegExp;
  is: Classification;
  /** The destination should get fewer connections, or fewer messages in a time. */
  slow?: 'connections' | 'rate';
  /** It is about how many recipients there are. */
  tooMany?: true;
  /** What it was made for, as `<whose server>: <reply>`. */
  samples: readonly string[];
  /** Why, where that is not plain. */
  note?: string;
}

export const beforeMail: readonly Phase[] = ['connect', 'greeting', 'ehlo', 'starttls'];
/** Where a reply can be about the recipient. */
export const aboutRecipient: readonly Phase[] = ['rcpt', 'data', 'dot'];
