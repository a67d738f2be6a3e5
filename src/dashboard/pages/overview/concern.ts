/** Something that needs somebody's attention, in a sentence, and where to look into it. */
export interface Concern {
  urgent: boolean;
  words: string;
  href: string;
  link: string;
  /** What else may be done about it. */
  more?: { href: string; link: string };
}
