import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { bodiesOf, itemOf } from './bodies.ts';
import type { Load } from './load.ts';

/** Requests to the REST API, ready to be sent: each with the messages that it carries, from `first` on. */
export interface HttpRequest {
  first: number;
  count: number;
  bytes: Buffer;
}

const mostInBatch = 1_000;

export function httpRequests({ recipe, target, how, oneByOne }: Load): HttpRequest[] {
  const bodies = bodiesOf(recipe);
  const batch = how === 'batches';
  const size = batch && !oneByOne ? mostInBatch : 1;
  const path = batch ? '/api/v1/emails/batch' : '/api/v1/emails';
  return Array.from({ length: Math.ceil(recipe.count / size) }, (_, at) => {
    const first = at * size;
    const count = Math.min(size, recipe.count - first);
    const items = Array.from({ length: count }, (_, index) => itemOf(recipe, bodies, first + index));
    const body = Buffer.from(batch ? `{"emails":[${items.join(',')}]}` : (items[0] ?? ''));
    const header = `POST ${path} HTTP/1.1\r\nHost: ${target.host}:${target.port}\r\nX-API-Key: ${target.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    return { first, count, bytes: Buffer.concat([Buffer.from(header), body]) };
  });
}

/** A kept connection: one request after the other, with just enough HTTP for answers with a length. */
export class HttpConnection {
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  #length = 0;
  /** Of the whole answer; unknown until its header has arrived. */
  #expected = Number.POSITIVE_INFINITY;
  #settle: { resolve(answer: Buffer): void; reject(error: Error): void } | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('error', (error) => this.#settle?.reject(error));
    socket.on('close', () => this.#settle?.reject(new Error('the server hung up')));
  }

  static async open(port: number, host: string): Promise<HttpConnection> {
    const socket = connect({ port, host, noDelay: true });
    await once(socket, 'connect');
    return new HttpConnection(socket);
  }

  /** @throws Error if the answer is not a 200, or refuses an item of a batch */
  async send(request: HttpRequest): Promise<void> {
    const answer = await new Promise<Buffer>((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#socket.write(request.bytes);
    });
    const refused = answer.indexOf('"errors":[{');
    if (answer.toString('latin1', 9, 12) === '200' && refused < 0) return;
    throw new Error(`the answer was ${answer.toString('utf8', Math.max(0, refused), Math.max(0, refused) + 500)}`);
  }

  close(): void {
    this.#settle = null;
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#expected === Number.POSITIVE_INFINITY) this.#expected = expectedLength(Buffer.concat(this.#chunks));
    if (this.#length < this.#expected) return;
    const answer = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#length = 0;
    this.#expected = Number.POSITIVE_INFINITY;
    this.#settle?.resolve(answer);
  }
}

function expectedLength(start: Buffer): number {
  const end = start.indexOf('\r\n\r\n');
  if (end < 0) return Number.POSITIVE_INFINITY;
  const length = /\r\ncontent-length: *(\d+)/i.exec(start.toString('latin1', 0, end))?.[1];
  if (length === undefined) throw new Error('an answer without a length is not supported here');
  return end + 4 + Number(length);
}
