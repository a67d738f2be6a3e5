import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** One of our processes, which is given orders and reports results. */
export class Worker<Order extends object, News extends object> {
  readonly #child: ChildProcess;
  readonly #listeners = new Set<(news: News) => void>();
  #ended: Error | null = null;
  readonly #onEnd = new Set<(error: Error) => void>();

  /** @param file in this folder */
  constructor(file: string) {
    this.#child = fork(fileURLToPath(new URL(file, import.meta.url)), {
      execArgv: ['--disable-warning=ExperimentalWarning'],
      serialization: 'advanced',
    });
    this.#child.on('message', (news: News) => {
      for (const listener of [...this.#listeners]) listener(news);
    });
    this.#child.on('exit', (code, signal) => {
      this.#ended = new Error(`${file} ended (${code ?? signal})`);
      for (const tell of this.#onEnd) tell(this.#ended);
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  tell(order: Order): void {
    this.#child.send(order);
  }

  on(listener: (news: News) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The first message for which `pick` returns something.
   *
   * @throws Error if there is none within the time, or the process ends
   */
  async hear<T>(pick: (news: News) => T | undefined, withinMs: number, what: string): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const over = (settle: () => void) => {
        clearTimeout(timer);
        off();
        this.#onEnd.delete(fail);
        settle();
      };
      const fail = (error: Error) => over(() => reject(error));
      const timer = setTimeout(() => fail(new Error(`${what}: not within ${withinMs / 1_000} s`)), withinMs);
      const off = this.on((news) => {
        try {
          const found = pick(news);
          if (found !== undefined) over(() => resolve(found));
        } catch (error) {
          fail(error as Error);
        }
      });
      this.#onEnd.add(fail);
      if (this.#ended) fail(this.#ended);
    });
  }

  end(): void {
    if (this.#child.connected) this.#child.disconnect();
  }
}
