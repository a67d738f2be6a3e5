import type { Order } from './client.ts';
import type { Random } from './random.ts';

/**
 * The receiving domains: the first ones in clear, the last with STARTTLS. There are several because each has its own
 * limits.
 */
export const domains = [
  'one.test',
  'two.test',
  'three.test',
  'four.test',
  'five.test',
  'six.test',
  'tls.test',
] as const;

export const sender = 'chaos.test';

/** What the receiving server does with the first attempt: see `mx.ts`. */
const manners = ['ok', 'ok', 'ok', 'ok', 'slow', 'later', 'dot', 'no'] as const;

/**
 * What is easily wrong on the wire or in a signature: lines to stuff, to break and to end, spaces that relaxed forms remove, and
 * whatever is not ASCII.
 */
const contents = {
  // A dot at the start of a line, and one alone: these must be stuffed on the wire.
  dots: (tag: string) => ({ text: `.\n..\n${'Hello\n'.repeat(20)}.${tag}\n` }),
  'long lines': (tag: string) => ({ text: `${`${tag} `.repeat(400)}\n${'.'.repeat(2_000)}\n${'x'.repeat(999)}` }),
  'ends of lines': (tag: string) => ({ text: `${tag}\r.\r.\n\rspaces \t \n\ttab\n \n\n \n\n` }),
  'other letters': (tag: string) => ({
    text: `.${'Grüße \u{1F600}\u65E5\u672C '.repeat(200)}\n${tag}\n`,
    from: `"${'Zoë, '.repeat(30)}" <a@${sender}>`,
    headers: { 'X-Note': 'ü and a word '.repeat(20) },
  }),
  html: (tag: string) => ({ text: `${tag} \n`, html: `<p>${'<b>bold</b> '.repeat(300)}\r\n.\r\n${tag}é</p>` }),
  file: (tag: string) => ({
    text: `${tag}\n`,
    attachments: [
      {
        filename: `${'ä'.repeat(100)}.txt`,
        content: Buffer.from(`a\rb\n.\r\n${'y'.repeat(1_500)}`).toString('base64'),
        content_type: 'text/plain',
      },
    ],
  }),
};

/** Makes orders, each different from all others of a run. */
export class Orders {
  readonly #random: Random;
  #made = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** One email to a few people, some of whose servers refuse; `bytes` is the size of each of its two attachments. */
  next(options: { manner?: string; domain?: string; people?: number; bytes?: number } = {}): Order {
    const key = `k${++this.#made}`;
    return { key, mails: [this.#mail(key, options)], batch: false };
  }

  batch(size: number): Order {
    const key = `k${++this.#made}`;
    return { key, mails: Array.from({ length: size }, (_, at) => this.#mail(`${key}.${at}`, {})), batch: true };
  }

  #mail(
    tag: string,
    { manner, domain, people, bytes = 0 }: Parameters<Orders['next']>[0] & object,
  ): Order['mails'][number] {
    const random = this.#random;
    const count = people ?? 1 + random.integer(3);
    const to = Array.from(
      { length: count },
      (_, at) => `${manner ?? random.pick(manners)}-${tag}-${at}@${domain ?? random.pick(domains)}`,
    );
    // Two, because each has its own limit.
    const attachment = { filename: 'x.bin', content: Buffer.alloc(bytes, tag).toString('base64') };
    const body = {
      from: `a@${sender}`,
      to,
      subject: tag,
      ...random.pick(Object.values(contents))(tag),
      ...(bytes > 0 && { attachments: [attachment, attachment] }),
    };
    return { tag, to, body };
  }
}
