import { cutText } from '../mail/characters.ts';

/** Who said it: we, the server, or nobody, where it is a remark of ours. */
export type Speaker = 'us' | 'server' | 'note';

/** One line of a conversation, and how many milliseconds after its beginning. */
export interface SpokenLine {
  ms: number;
  by: Speaker;
  text: string;
}

const mostLines = 200;
const longestLine = 500;
const mostCharacters = 16_000;

/**
 * What was said in one session, without the content of messages. Bounded: what a server says beyond that is counted and
 * left out.
 */
export class Conversation {
  readonly #lines: SpokenLine[] = [];
  readonly #start = performance.now();
  #characters = 0;
  #leftOut = 0;

  /** Commands of ours. */
  said(commands: readonly string[]): void {
    for (const command of commands) this.#add('us', command);
  }

  /** A reply, each line of it with its code; the lines are cleaned already. */
  heard(code: number, lines: readonly string[]): void {
    for (const [index, line] of lines.entries()) {
      this.#add('server', `${code}${index < lines.length - 1 ? '-' : ' '}${line}`);
    }
  }

  note(text: string): void {
    this.#add('note', text);
  }

  get lines(): SpokenLine[] {
    if (this.#leftOut === 0) return [...this.#lines];
    return [...this.#lines, { ms: this.#ms(), by: 'note', text: `${this.#leftOut} more lines` }];
  }

  #ms(): number {
    return Math.round(performance.now() - this.#start);
  }

  #add(by: Speaker, line: string): void {
    const text = cutText(line, longestLine);
    if (this.#lines.length >= mostLines || this.#characters + text.length > mostCharacters) {
      this.#leftOut += 1;
      return;
    }
    this.#characters += text.length;
    this.#lines.push({ ms: this.#ms(), by, text });
  }
}
