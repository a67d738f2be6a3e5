import type { KeyObject } from 'node:crypto';
import { sealContext } from '../core/domains.ts';
import type { OutgoingEmail } from '../core/outgoing.ts';
import { parseMailbox } from '../mail/address.ts';
import { compose } from '../mail/compose.ts';
import { parsePrivateKey, sign } from '../mail/dkim.ts';
import { open } from '../seal.ts';

const keysKept = 1_000;

/**
 * Builds the signed bytes of emails. The same email gives the same bytes each time, so that a second copy after a crash
 * is recognised as one. Jobs of one email that run together share one building of it.
 */
export class MessageBuilder {
  readonly #encryptionKey: Buffer;
  readonly #keys = new Map<string, KeyObject>();
  readonly #building = new Map<string, { bytes: Promise<Buffer>; users: number }>();

  constructor(encryptionKey: Buffer) {
    this.#encryptionKey = encryptionKey;
  }

  /** Runs `use` with the message; the bytes are let go when nobody uses them any more. */
  async with<T>(
    email: OutgoingEmail,
    signing: NonNullable<OutgoingEmail['signing']>,
    use: (bytes: Buffer) => Promise<T>,
  ): Promise<T> {
    const entry = this.#building.get(email.id) ?? { bytes: this.#build(email, signing), users: 0 };
    entry.users += 1;
    this.#building.set(email.id, entry);
    try {
      return await use(await entry.bytes);
    } finally {
      entry.users -= 1;
      if (entry.users === 0) this.#building.delete(email.id);
    }
  }

  async #build(email: OutgoingEmail, signing: NonNullable<OutgoingEmail['signing']>): Promise<Buffer> {
    const message = await compose({
      from: parseMailbox(email.from),
      to: email.to.map(parseMailbox),
      cc: email.cc.map(parseMailbox),
      replyTo: email.replyTo.map(parseMailbox),
      subject: email.subject,
      html: email.html,
      text: email.text,
      headers: email.headers.map(([name, value]) => ({ name, value })),
      attachments: email.attachments,
      messageId: email.messageId,
      date: email.dueAt,
    });
    const header = await sign(message, { ...signing, privateKey: this.#privateKey(signing) }, email.dueAt);
    return Buffer.concat([header, message]);
  }

  /** Parsed once: parsing a key costs as much as signing with it. */
  #privateKey(signing: NonNullable<OutgoingEmail['signing']>): KeyObject {
    const name = `${signing.domainId} ${signing.selector}`;
    const known = this.#keys.get(name);
    if (known) return known;
    const key = parsePrivateKey(open(this.#encryptionKey, signing.sealedKey, sealContext(signing.domainId)));
    if (this.#keys.size >= keysKept) this.#keys.clear();
    this.#keys.set(name, key);
    return key;
  }
}
