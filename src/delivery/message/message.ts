import type { OutgoingEmail } from '../../core/outgoing/outgoing.ts';
import {
  build,
  type CopyFor,
  hasPersonalBody,
  type MessagePieces,
  type Signing,
} from '../../core/outgoing/outgoing-message.ts';
import type { Keyring } from '../../crypto/seal.ts';
import { type Body, composeBody } from '../../mail/compose/body.ts';
import type { UnsubscribePlaces } from '../../mail/links/list-unsubscribe.ts';
import { SharedBuilds } from './shared-builds.ts';
import { SigningKeys } from './signing-keys.ts';

/** Characters that an outline takes from either end of a text. */
const outlined = 200;

/** A message built ahead is dropped after this time: its domain or key may have ended meanwhile. */
const aheadMs = 1_000;
const mostAhead = 300;

/** The reader of one copy of a personal email. */
type ReadBy = Pick<CopyFor, 'position' | 'address'>;

/**
 * Builds the signed bytes of emails. The same email gives the same bytes each time, so that a second copy after a crash
 * is recognized as one. Concurrent jobs of one email share one build, and emails with the same texts share one body.
 */
export class MessageBuilder {
  readonly #places: UnsubscribePlaces;
  readonly #keys: SigningKeys;
  readonly #messages = new SharedBuilds<MessagePieces>();
  readonly #bodies = new SharedBuilds<Body>();
  /** Messages built ahead, the oldest first. */
  readonly #ahead = new Map<string, { email: OutgoingEmail; at: number; drop: () => void }>();
  #sweeper: NodeJS.Timeout | undefined;

  /** @param unsubscribing where readers unsubscribe from marketing mail */
  constructor(keyring: Keyring, unsubscribing: UnsubscribePlaces) {
    this.#keys = new SigningKeys(keyring);
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
    const name = nameOf(email, reader);
    const ahead = this.#ahead.get(name);
    if (ahead && ahead.email !== email) this.#messages.outdate(name);
    const used = this.#use(name, email, signing, reader, use);
    this.#drop(name);
    return used;
  }

  /**
   * Begins to build a message that is needed soon, so that no connection waits for its signature; does nothing if enough are
   * built ahead. The message is kept for a second, for a call of `with` that has the very same email.
   */
  buildAhead(email: OutgoingEmail, signing: Signing, reader: ReadBy | null): void {
    this.#dropOld();
    if (this.#ahead.size >= mostAhead) return;
    this.#sweeper ??= setTimeout(() => this.#sweep(), aheadMs).unref();
    const name = nameOf(email, reader);
    if (this.#ahead.has(name) || this.#messages.has(name)) return;
    const dropped = new Promise<void>((drop) => this.#ahead.set(name, { email, at: performance.now(), drop }));
    // Whoever asks for the message gets the error.
    this.#use(name, email, signing, reader, () => dropped).catch(() => undefined);
  }

  #sweep(): void {
    this.#dropOld();
    this.#sweeper = this.#ahead.size > 0 ? setTimeout(() => this.#sweep(), aheadMs).unref() : undefined;
  }

  #dropOld(): void {
    const since = performance.now() - aheadMs;
    for (const [name, { at }] of this.#ahead) {
      if (at > since) break;
      this.#drop(name);
    }
  }

  #drop(name: string): void {
    this.#ahead.get(name)?.drop();
    this.#ahead.delete(name);
  }

  #use<T>(
    name: string,
    email: OutgoingEmail,
    signing: Signing,
    reader: ReadBy | null,
    use: (pieces: MessagePieces) => Promise<T>,
  ): Promise<T> {
    const copy = reader && { position: reader.position, address: reader.address, places: this.#places };
    const buildWith = (body?: Body) => build(email, this.#keys.of(signing), copy, body);
    const buildMessage = () => (copy && hasPersonalBody(email) ? buildWith() : this.#withBody(email, buildWith));
    return this.#messages.use(name, email, buildMessage, use);
  }

  /** Runs `use` with the body, which emails with the same texts share; undefined if there are files, which are part of it. */
  #withBody<T>(email: OutgoingEmail, use: (body: Body | undefined) => Promise<T>): Promise<T> {
    const { text, html, attachments } = email;
    if (attachments.length > 0) return use(undefined);
    const name = `${outlineOf(text)} ${outlineOf(html)}`;
    const known = this.#bodies.emailOf(name);
    if (known && (known.text !== text || known.html !== html)) return composeBody(text, html).then(use);
    return this.#bodies.use(name, email, () => composeBody(text, html), use);
  }
}

const nameOf = ({ id }: OutgoingEmail, reader: ReadBy | null) => `${id} ${reader?.position ?? ''}`;

/** Distinguishes most texts. With whole texts as names, each would be copied and hashed for every email. */
const outlineOf = (text: string | null) =>
  text === null ? '' : `${text.length} ${text.slice(0, outlined)}${text.slice(-outlined)}`;
