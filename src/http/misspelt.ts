import { z } from 'zod';
import { calledElsewhere } from './elsewhere.ts';

/** What is wrong with an input, and with which of its members. */
export interface Fault {
  path: PropertyKey[];
  message: string;
}

/**
 * Members that are not known are ignored, as clients of other services send some. But one that is meant for a member of ours,
 * such as `scheduledAt`, or `scope` for `scopes`, would do something else than was asked for.
 *
 * @returns the first of those, of the input or of what is in it, and what is wrong with it; null where there is none
 */
export function misspelt(schema: z.ZodType, input: unknown): Fault | null {
  const bare = withoutWrapping(schema);
  if (typeof input !== 'object' || input === null) return null;
  if (bare instanceof z.ZodArray && Array.isArray(input)) {
    const element = bare.element as z.ZodType;
    return firstOf(input.entries(), ([index, item]) => within(index, misspelt(element, item)));
  }
  if (!(bare instanceof z.ZodObject)) return null;
  return (
    misspeltMember(bare, input) ??
    firstOf(membersWithin(bare), ([name, member]) =>
      within(name, misspelt(member, (input as Record<string, unknown>)[name])),
    )
  );
}

const searched = new WeakMap<z.ZodObject, [name: string, member: z.ZodType][]>();

/** Those of its members that are objects or lists of such: found once, as every email is looked through. */
function membersWithin(object: z.ZodObject): [name: string, member: z.ZodType][] {
  const found =
    searched.get(object) ??
    Object.entries(object.shape as Record<string, z.ZodType>).filter(([, member]) =>
      hasMembers(withoutWrapping(member)),
    );
  searched.set(object, found);
  return found;
}

const hasMembers = (bare: z.ZodType): boolean =>
  bare instanceof z.ZodArray ? hasMembers(withoutWrapping(bare.element as z.ZodType)) : bare instanceof z.ZodObject;

const within = (name: PropertyKey, wrong: Fault | null) => wrong && { ...wrong, path: [name, ...wrong.path] };

function firstOf<Item>(items: Iterable<Item>, look: (item: Item) => Fault | null): Fault | null {
  for (const item of items) {
    const wrong = look(item);
    if (wrong) return wrong;
  }
  return null;
}

/** What the input has to be as it comes, before it may be left out and before it is made into something else. */
function withoutWrapping(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable)
    return withoutWrapping(schema.unwrap() as z.ZodType);
  return schema instanceof z.ZodPipe ? withoutWrapping(schema.in as z.ZodType) : schema;
}

function misspeltMember(object: z.ZodObject, input: object): Fault | null {
  const unknown = Object.keys(input).filter((name) => !Object.hasOwn(object.shape, name));
  if (unknown.length === 0) return null;
  const names = Object.keys(object.shape);
  // Not the other way round: who sends back what was answered has `suspended_at` beside `suspended`.
  const untimed = names.filter((name) => name.endsWith('_at')).map((name) => name.slice(0, -'_at'.length));
  const known = new Map([
    ...untimed.map((name) => [plainly(name), `${name}_at`] as const),
    ...names.map((name) => [plainly(name), name] as const),
  ]);
  for (const name of unknown) {
    const plain = plainly(name);
    const value = (input as Record<string, unknown>)[name];
    const asks = value !== null && value !== undefined && value !== false;
    const meant = known.get(plain);
    if (meant !== undefined) return { path: [name], message: `is called ${meant} here` };
    const other = asks ? calledElsewhere(plain, value, { names, input: input as Record<string, unknown> }) : null;
    if (other !== null) return { path: [name], message: other };
    const sends = names.includes('to') || names.includes('emails');
    if (asks && sends && trials.has(plain))
      return { path: [name], message: 'is no field but a parameter of the call: POST /api/v1/emails?dry_run=true' };
    // Credit that is added twice is money.
    if (asks && plain === 'idempotencykey' && (sends || names.includes('amount')))
      return { path: [name], message: 'is no field but a header: Idempotency-Key' };
  }
  for (const name of unknown.slice(0, mostTypingErrors)) {
    for (const [plain, meant] of known)
      if (isTypingErrorOf(plain, plainly(name))) return { path: [name], message: `is not known: is ${meant} meant?` };
  }
  return null;
}

/** What asks that nothing be sent. */
const trials = new Set(['dryrun', 'sandbox', 'sandboxmode', 'testmode', 'o:testmode']);

/** The same for `replyTo`, `reply-to` and `reply_to`, for one and for several. */
const plainly = (name: string) => name.slice(0, 60).toLowerCase().replaceAll(/[-_]/g, '').replace(/s$/, '');

/** Names that are looked at for them: whoever sends more of his own did not mistype one. */
const mostTypingErrors = 50;
/** One letter of a shorter name makes another word of it, as `test` of `text`. */
const shortestMistyped = 5;

/** Whether one letter is missing, too many or another one, or two have changed places. */
function isTypingErrorOf(known: string, written: string): boolean {
  let same = 0;
  while (same < known.length && known[same] === written[same]) same += 1;
  const [rest, other] = [known.slice(same), written.slice(same)];
  if (rest.length === other.length && rest[0] === other[1] && rest[1] === other[0] && rest.length > 1)
    return rest.slice(2) === other.slice(2);
  if (known.length < shortestMistyped) return false;
  return rest.slice(1) === other.slice(1) || rest.slice(1) === other || rest === other.slice(1);
}
