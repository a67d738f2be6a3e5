import { closeSync, openSync, writeSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** One email that was requested. */
export interface Asked {
  /** Its subject and its idempotency key. */
  name: string;
  /** The id that a 200 gave it, and when; null: there was none. */
  acknowledged: { id: string; at: number } | null;
  tries: number;
}

const requestMs = 15_000;
const pauseMs = 100;

/**
 * Clients that send one email after the other and follow the rules: anything but a 200 is repeated, with the same
 * idempotency key, until it is one. Each request is in the ledger before it is sent, and each 200 once it arrives.
 */
export class Load {
  readonly asked: Asked[] = [];
  readonly #ledger: number;
  readonly #url: URL;
  readonly #key: string;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #clients: Promise<void>[];
  #stopping = false;

  constructor(options: { baseUrl: string; key: string; from: string; ledger: string; clients: number }) {
    this.#url = new URL('/api/v1/emails', options.baseUrl);
    this.#key = options.key;
    this.#ledger = openSync(options.ledger, 'a');
    this.#clients = Array.from({ length: options.clients }, () => this.#ask(options.from));
  }

  get acknowledged(): number {
    return this.asked.filter(({ acknowledged }) => acknowledged !== null).length;
  }

  /** The longest time without a 200 since then, in ms. */
  longestGapSince(since: number): number {
    const times = this.asked.flatMap(({ acknowledged }) =>
      acknowledged && acknowledged.at >= since ? [acknowledged.at] : [],
    );
    const all = [since, ...times.sort((a, b) => a - b)];
    return Math.max(...all.slice(1).map((at, index) => at - (all[index] ?? at)), 0);
  }

  /** Sends nothing new, and waits for the 200 of each request. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#clients);
    this.#agent.destroy();
    closeSync(this.#ledger);
  }

  async #ask(from: string): Promise<void> {
    while (!this.#stopping) {
      const asked: Asked = { name: `message ${this.asked.length}`, acknowledged: null, tries: 0 };
      this.asked.push(asked);
      const number = this.asked.length;
      const body = JSON.stringify({
        from,
        to: `reader-${number}@to${number % 10}.test`,
        subject: asked.name,
        text: `This is ${asked.name}. `.repeat(60),
      });
      while (asked.acknowledged === null) {
        asked.tries += 1;
        this.#note({ asked: asked.name });
        const id = await this.#post(asked.name, body).catch(() => null);
        if (id === null) {
          await sleep(pauseMs);
          continue;
        }
        asked.acknowledged = { id, at: Date.now() };
        this.#note({ acknowledged: asked.name, id });
      }
    }
  }

  /** @returns the email's id; null if the answer is not a 200 */
  #post(name: string, body: string): Promise<string | null> {
    const headers = {
      'X-API-Key': this.#key,
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
      'Idempotency-Key': name,
    };
    return new Promise((resolve, reject) => {
      const options = { method: 'POST', headers, agent: this.#agent, signal: AbortSignal.timeout(requestMs) };
      request(this.#url, options, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.on('end', () => resolve(response.statusCode === 200 ? JSON.parse(text).email.id : null));
        response.on('error', reject);
      })
        .on('error', reject)
        .end(body);
    });
  }

  #note(entry: Record<string, string>): void {
    writeSync(this.#ledger, `${JSON.stringify({ at: Date.now(), ...entry })}\n`);
  }
}
