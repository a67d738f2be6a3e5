import { plainly } from '../../spelling.ts';
import { refuseText } from '../text/characters.ts';

/** A variable that the author of a template declares. */
export interface TemplateVariable {
  key: string;
  type: 'string' | 'number';
  /** Used if no value is given; null: a value is required. */
  fallback: string | number | null;
}

/** Why a template cannot be rendered with these values. The message begins with the place: `variables.NAME: is required`. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
  /** Such as `variables.NAME`. */
  readonly place: string;

  constructor(place: string, reason: string) {
    super(`${place}: ${reason}`);
    this.place = place;
  }
}

/** Whether JSON parsing may have changed its digits, which would turn an order number into another one. */
export const hasLostDigits = (value: number) => Math.abs(value) > Number.MAX_SAFE_INTEGER;
/** Why such a number is refused, to follow the place of the value. */
export const lostDigits = 'has too many digits for a number: send it as a string';

/** A longer name is no misspelling of a key, which has at most 64 characters. */
const mostOfMisspelled = 80;

/** What a template says about its variables. */
export interface TemplateKeys {
  variables: ReadonlyMap<string, TemplateVariable>;
  /** The keys that are declared, and those that one of the texts uses. */
  keys: ReadonlySet<string>;
}

/** The values of one rendering. Each is checked and escaped once. */
export class TemplateValues {
  #declared: ReadonlyMap<string, TemplateVariable>;
  #keys: ReadonlySet<string>;
  #given: Record<string, unknown>;
  /** Given names that are not a key of the template, by the form in which they are compared with keys; built on first use. */
  #others: Map<string, string> | null = null;
  #plain = new Map<string, string>();
  #escaped = new Map<string, string>();

  constructor({ variables, keys }: TemplateKeys, given: Record<string, unknown>) {
    this.#declared = variables;
    this.#keys = keys;
    this.#given = given;
  }

  /** Whether a value is given, or the key declared. @throws {TemplateError} when a value has a nearly identical name */
  has(key: string): boolean {
    if (this.#declared.has(key) || this.#own(key) !== null) return true;
    this.#refuseMisspelled(key);
    return false;
  }

  plain(key: string): string {
    const known = this.#plain.get(key);
    if (known !== undefined) return known;
    const value = this.#find(key);
    this.#plain.set(key, value);
    return value;
  }

  html(key: string, raw: boolean): string {
    const value = this.plain(key);
    if (raw) return value;
    const escaped = this.#escaped.get(key) ?? escapeHtml(value);
    this.#escaped.set(key, escaped);
    return escaped;
  }

  /** The value for a header field. */
  line(key: string, field: string): string {
    const value = this.plain(key);
    const refused = refuseText(value);
    if (refused) throw new TemplateError(`variables.${key}`, `${refused}, and is used in ${field}`);
    return value;
  }

  #find(key: string): string {
    const declared = this.#declared.get(key);
    const given = this.#own(key);
    if (given === null) this.#refuseMisspelled(key);
    const value = given ?? declared?.fallback ?? null;
    const place = `variables.${key}`;
    if (value === null) throw new TemplateError(place, 'is required');
    if (declared ? typeof value !== declared.type : typeof value !== 'string' && typeof value !== 'number')
      throw new TemplateError(place, `must be a ${declared?.type ?? 'string or a number'}`);
    if (typeof value === 'number' && !Number.isFinite(value)) throw new TemplateError(place, 'must be a finite number');
    if (typeof value === 'number' && hasLostDigits(value)) throw new TemplateError(place, lostDigits);
    return String(value);
  }

  /** Own properties only: `constructor` counts only if it was given, although every object has one. */
  #own(key: string): unknown {
    return (Object.hasOwn(this.#given, key) ? this.#given[key] : null) ?? null;
  }

  /** If `name` or `first-name` is given, the fallback of `NAME` or `FIRST_NAME` must not be sent instead. */
  #refuseMisspelled(key: string): void {
    this.#others ??= new Map(Object.keys(this.#given).flatMap((other) => this.#asKey(other)));
    const other = this.#others.get(plainly(key));
    if (other !== undefined && other !== key)
      throw new TemplateError(`variables.${other}`, `is called ${key} in the template`);
  }

  #asKey(other: string): [plain: string, other: string][] {
    const isKnown = other.length > mostOfMisspelled || this.#keys.has(other);
    return isKnown || (this.#given[other] ?? null) === null ? [] : [[plainly(other), other]];
  }
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

const escapeHtml = (text: string) => text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? character);
