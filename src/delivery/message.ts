import type { OutgoingEmail, SealedKey } from '../core/outgoing/outgoing.ts';
import {
  build,
  type CopyFor,
  hasPersonalBody,
  type MessagePieces,
  openKey,
  type Signing,
} from '../core/outgoing/outgoing-message.ts';
import { type Body, composeBody } from '../mail/body.ts';
import type { DkimKey } from '../mail/dkim.ts';
import type { UnsubscribePlaces } from '../mail/list-unsubscribe.ts';
import type { Keyring } from '../seal.ts';

const keysKept = 1_000;

/** Characters that an outline takes from either end of a text. */
const outlined = 200;

/** A message begun ahead is dropped after this time: its domain or key may have ended meanwhile. */
const begunMs = 1_000;
const mostBegun = 300;

/** The reader of one copy of a personal email. */
type ReadBy = Pick<CopyFor, 'position' | 'address'>;

/** Something made once for all who use it at the same time. */
interface Shared<T> {
  /** The email it was made from. */
  of: OutgoingEmail;
  made: Promise<T>;
  users: number;
}

/**
 * Builds the signed bytes of emails. The same email gives the same bytes each time, so that a second copy after a crash
 * is recognised as one. Concurrent jobs of one email share one build, and emails with the same texts share one body.
 */
export class MessageBuilder {
  readonly #keyring: Keyring;
  readonly #places: UnsubscribePlaces;
  readonly #keys = new Map<string, { sealed: Buffer; key: DkimKey }>();
  readonly #messages = new Map<string, Shared<MessagePieces>>();
  readonly #bodies = new Map<string, Shared<Body>>();
  /** Messages begun ahead, the oldest first, each with the function that drops it. */
  readonly #begun = new Map<string, { email: OutgoingEmail; at: number; letGo: () => void }>();
  #sweeper: NodeJS.Timeout | undefined;

  /** @param unsubscribing where readers unsubscribe from marketing mail */
  constructor(keyring: Keyring, unsubscribing: UnsubscribePlaces) {
    this.#keyring = keyring;
    this.#places = unsubscribing;
  }

  /**
   * Runs `use` with the message; the bytes are dropped when nobody uses them any more.
   *
   * @param reader whose copy it is, if the email is personal
   */
  with<T>(
    email: OutgoingEmail,
    signing: Signing,
    reader: ReadBy | null,
    use: (pieces: MessagePieces) => Promise<T>,
  ): Promise<T> {
    const name = this.#nameOf(email, reader);
    const begun = this.#begun.get(name);
    if (begun && begun.email !== email) this.#messages.delete(name);
    const used = this.#share(name, email, signing, reader, use);
    this.#letGo(name);
    return used;
  }

  /**
   * Begins to build a message that is needed soon, so that no connection waits for its signature; does nothing if enough are
   * begun. The message is kept for a second, for a call of `with` that has the very same email.
   */
  begin(email: OutgoingEmail, signing: Signing, reader: ReadBy | null): void {
    this.#letGoOld();
    if (this.#begun.size >= mostBegun) return;
    this.#sweeper ??= setTimeout(() => this.#sweep(), begunMs).unref();
    const name = this.#nameOf(email, reader);
    if (this.#begun.has(name) || this.#messages.has(name)) return;
    const kept = new Promise<void>((letGo) => this.#begun.set(name, { email, at: performance.now(), letGo }));
    // Whoever asks for the message gets the error.
    this.#share(name, email, signing, reader, () => kept).catch(() => undefined);
  }

  #sweep(): void {
    this.#letGoOld();
    this.#sweeper = this.#begun.size > 0 ? setTimeout(() => this.#sweep(), begunMs).unref() : undefined;
  }

  #letGoOld(): void {
    const since = performance.now() - begunMs;
    for (const [name, { at }] of this.#begun) {
      if (at > since) break;
      this.#letGo(name);
    }
  }

  #letGo(name: string): void {
    this.#begun.get(name)?.letGo();
    this.#begun.delete(name);
  }

  #nameOf({ id }: OutgoingEmail, reader: ReadBy | null): string {
    return `${id} ${reader?.position ?? ''}`;
  }

  #share<T>(
    name: string,
    email: OutgoingEmail,
    signing: Signing,
    reader: ReadBy | null,
    use: (pieces: MessagePieces) => Promise<T>,
  ): Promise<T> {
    const copy = reader && { position: reader.position, address: reader.address, places: this.#places };
    const built = (body?: Body) => build(email, this.#keysOf(signing), copy, body);
    const make = () => (copy && hasPersonalBody(email) ? built() : this.#withBody(email, built));
    return share(this.#messages, name, email, make, use);
  }

  #withBody<T>(email: OutgoingEmail, use: (body: Body | undefined) => Promise<T>): Promise<T> {
    const { text, html, attachments } = email;
    if (attachments.length > 0) return use(undefined);
    const name = `${outlineOf(text)} ${outlineOf(html)}`;
    const known = this.#bodies.get(name)?.of;
    if (known && (known.text !== text || known.html !== html)) return composeBody(text, html).then(use);
    return share(this.#bodies, name, email, () => composeBody(text, html), use);
  }

  #keysOf(signing: Signing): DkimKey[] {
    return signing.keys.map((key) => this.#key(signing, key));
  }

  /** Parsed once: parsing a key costs as much as signing with it. A selector may come back with another key. */
  #key(signing: Signing, sealed: SealedKey): DkimKey {
    const name = `${signing.domainId} ${sealed.selector}`;
    const known = this.#keys.get(name);
    if (known?.sealed.equals(sealed.sealed)) return known.key;
    const key = openKey(this.#keyring, signing, sealed);
    if (this.#keys.size >= keysKept) this.#keys.clear();
    this.#keys.set(name, { sealed: sealed.sealed, key });
    return key;
  }
}

/** Distinguishes most texts. With whole texts as names, each would be copied and hashed for every email. */
const outlineOf = (text: string | null) =>
  text === null ? '' : `${text.length} ${text.slice(0, outlined)}${text.slice(-outlined)}`;

/** Runs `use` with what is made under this name, which is dropped when nobody uses it any more. */
async function share<Made, T>(
  all: Map<string, Shared<Made>>,
  name: string,
  of: OutgoingEmail,
  make: () => Promise<Made>,
  use: (made: Made) => Promise<T>,
): Promise<T> {
  const entry = all.get(name) ?? { of, made: make(), users: 0 };
  entry.users += 1;
  all.set(name, entry);
  try {
    return await use(await entry.made);
  } finally {
    entry.users -= 1;
    if (entry.users === 0 && all.get(name) === entry) all.delete(name);
  }
}
