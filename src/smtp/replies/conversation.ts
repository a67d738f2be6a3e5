import { cutText } from '../../mail/text/characters.ts';

/** Who said it: we, the server, or nobody (a note of ours). */
export type Speaker = 'us' | 'server' | 'note';

/** One line of a conversation, and how many milliseconds after the start it was said. */
export interface SpokenLine {
  ms: number;
  by: Speaker;
  text: string;
}

const mostLines = 200;
const longestLine = 500;
const mostCharacters = 16_000;

/** What was said in one session, without message content. Bounded: lines beyond the bounds are only counted. */
export class Conversation {
  readonly #lines: SpokenLine[] = [];
  readonly #start = performance.now();
  #characters = 0;
  #leftOut = 0;

  /** Records our commands. */
  said(commands: readonly string[]): void {
    for (const command of commands) this.#add('us', command);
  }

  /** Records a reply, with the code on each line; the lines must be cleaned already. */
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
