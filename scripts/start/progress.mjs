/** What is going on, for a person: one line with the seconds, rewritten in place; in a log file a line every 10 s. */
export class Progress {
  #text = '';
  #started = 0;
  #timer;

  /** A new step. Its seconds count from here. */
  begin(text) {
    this.end();
    this.#text = text;
    this.#started = Date.now();
    this.#show();
    this.#timer = setInterval(() => this.#show(), process.stderr.isTTY ? 200 : 10_000);
  }

  /** Changes the text of the step; it is shown when the next line is due. */
  update(text) {
    this.#text = text;
  }

  end() {
    if (!this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }

  #show() {
    const seconds = Math.round((Date.now() - this.#started) / 1000);
    const line = seconds > 0 ? `${this.#text} (${seconds} s)` : this.#text;
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${line.slice(0, process.stderr.columns - 1)}`);
    else process.stderr.write(`${line}\n`);
  }
}
