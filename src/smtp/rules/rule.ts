import type { Classification, Phase } from '../replies/result.ts';

/** Subject and detail of an enhanced code, `1.x` for a whole subject; `none`: no code, or a generic one (X.0.0, X.5.0). */
export type EnhancedPattern = `${number}.${number}` | `${number}.x` | 'none';

/** One thing that servers say, and what it is about. The first rule that fits a reply decides. */
export interface Rule {
  /** The phases that it applies to; if this or any other condition is missing, all replies meet it. */
  when?: readonly Phase[];
  codes?: readonly (number | '4xx' | '5xx')[];
  /** Without the class: `1.1` means 4.1.1 and 5.1.1. */
  enhanced?: readonly EnhancedPattern[];
  /**
   * Matched against the text in the form of `comparableText`: lower case, no accents on Latin letters, no addresses, single
   * spaces. Every repetition must be bounded, so that the time is linear in the text.
   */
  text?: RegExp;
  is: Classification;
  /** The destination should get fewer connections, or fewer messages per time. */
  slow?: 'connections' | 'rate';
  /** It is about the number of recipients. */
  tooMany?: true;
  /** It would not be said over TLS. */
  wantsTls?: true;
  /** Replies that it was made for, as `<whose server>: <reply>`. */
  samples: readonly string[];
  /** Why, if that is not obvious. */
  note?: string;
}

/** The phases in which a reply can be about the recipient. */
export const aboutRecipient: readonly Phase[] = ['rcpt', 'data', 'dot'];
