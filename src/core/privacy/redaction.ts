import { AddressError, comparable, parseMailbox } from '../../mail/address/address.ts';
import { anywhere, spellingsOf } from '../../mail/address/address-spellings.ts';

/**
 * SQL: whether a text has this part of an address in any case. By the rules of C, which know ASCII alone: in a Turkish database
 * the small letter of `I` is `ı`.
 */
export const mayName = (text: string, part: string): string => `strpos(lower((${text}) COLLATE "C"), ${part}) > 0`;

/** Finds one address, and replaces it. */
export class Redaction {
  /** In its comparable form. */
  readonly address: string;
  /** A regular expression for PostgreSQL, for `~*`. */
  readonly source: string;
  /** The same for labels. */
  readonly labelSource: string;
  /** A substring that all spellings have, in lower case, for `mayName`. */
  readonly part: string;
  readonly #pattern: RegExp;
  readonly #labelPattern: RegExp;

  /** @param address in its canonical form, in any case */
  constructor(address: string) {
    this.address = comparable(address);
    this.source = spellingsOf(this.address);
    this.labelSource = anywhere(this.address);
    const local = this.address.slice(0, this.address.lastIndexOf('@'));
    this.part = local.split(/[^a-z0-9]/).reduce((longest, one) => (one.length > longest.length ? one : longest));
    this.#pattern = new RegExp(this.source, 'gi');
    this.#labelPattern = new RegExp(this.labelSource, 'gi');
  }

  /** Whether the text names the address anywhere. */
  isIn(text: string | null): boolean {
    return text !== null && text.search(this.#pattern) !== -1;
  }

  isInLabel(text: string): boolean {
    return text.search(this.#labelPattern) !== -1;
  }

  redact(text: string, mark: string): string {
    return text.replace(this.#pattern, mark);
  }

  /**
   * Redacts the name of somebody else's mailbox. Its address stays whole, even if it ends like the erased one, as
   * o'neil@x.test ends like neil@x.test.
   */
  redactName(mailbox: string, mark: string): string {
    const end = Math.max(0, mailbox.lastIndexOf('<'));
    return this.redact(mailbox.slice(0, end), mark) + mailbox.slice(end);
  }

  /** In a label, such as a tag, the address may be a part of a word. */
  redactLabel(label: string, mark: string): string {
    return label.replace(this.#labelPattern, mark);
  }

  /** Redacts every string in a JSON value, including the names of members. */
  redactAll(value: unknown, mark: string): unknown {
    if (typeof value === 'string') return this.redact(value, mark);
    if (Array.isArray(value)) return value.map((one) => this.redactAll(one, mark));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [this.redact(name, mark), this.redactAll(one, mark)]),
    );
  }

  /** Whether this is the address, with or without a name: `Ann <ann@example.net>`. */
  isOf(mailbox: string): boolean {
    try {
      return comparable(parseMailbox(mailbox).address) === this.address;
    } catch (error) {
      if (error instanceof AddressError) return false;
      throw error;
    }
  }

  /** Replaces the mailbox, with its name, if it has the address; of any other it redacts the name. */
  redactMailbox(mailbox: string, mark: string): string {
    return this.isOf(mailbox) ? mark : this.redactName(mailbox, mark);
  }

  /** Replaces each mailbox that has the address, and the name beside it, by the mark. */
  redactList(mailboxes: string[], mark: string): string[] {
    return mailboxes.map((one) => (this.isOf(one) ? mark : one));
  }
}
