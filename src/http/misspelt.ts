import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { plainly } from '../spelling.ts';
import { calledElsewhere, isNothing, isToBeSent } from './elsewhere.ts';

/** What is wrong with an input, and with which of its members. */
export interface Fault {
  path: PropertyKey[];
  message: string;
}

/**
 * Members that are not known are ignored, as clients of other services send some. But one that is meant for a member of ours,
 * such as `scheduledAt`, or `scope` for `scopes`, would do something else than was asked for.
 *
 * @param isSent whether it is a part of an email to be sent
 * @returns the first of those, of the input or of what is in it, and what is wrong with it; null where there is none
 */
export function misspelt(schema: z.ZodType, input: unknown, isSent = false): Fault | null {
  const bare = withoutWrapping(schema);
  if (typeof input !== 'object' || input === null) return null;
  if (bare instanceof z.ZodArray && Array.isArray(input)) {
    const element = bare.element as z.ZodType;
    return firstOf(input.entries(), ([index, item]) => within(index, misspelt(element, item, isSent)));
  }
  if (!(bare instanceof z.ZodObject)) return null;
  const sends = isSent || isToBeSent(Object.keys(bare.shape));
  return (
    misspeltMember(bare, input, sends) ??
    firstOf(membersWithin(bare), ([name, member]) =>
      within(name, misspelt(member, (input as Record<string, unknown>)[name], sends)),
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

function misspeltMember(object: z.ZodObject, given: object, isSent: boolean): Fault | null {
  const input = given as Record<string, unknown>;
  const names = Object.keys(object.shape);
  // Null and the like are what an email is sent with anyway; in a change they may clear something.
  const unknown = Object.keys(input).filter(
    (name) => !Object.hasOwn(object.shape, name) && !(isSent && isNothing(input[name])),
  );
  if (unknown.length === 0) return null;
  const known = new Map(names.map((name) => [singular(name), name] as const));
  // Not the other way round: who sends back what was answered has `suspended_at` beside `suspended`.
  const untimed = new Map(
    names.flatMap((name) => (name.endsWith('_at') ? [[singular(name.slice(0, -'_at'.length)), name] as const] : [])),
  );
  for (const name of unknown) {
    const [plain, value] = [singular(name), input[name]];
    const meant = known.get(plain);
    // Who writes for several services gives it by each of their names.
    if (meant !== undefined && !isDeepStrictEqual(value, input[meant]))
      return { path: [name], message: `is called ${meant} here` };
    const timed = untimed.get(plain);
    // A flag of one's own beside the time, or one that says that there is none.
    if (timed !== undefined && !isNothing(value) && isNothing(input[timed]))
      return { path: [name], message: `is called ${timed} here` };
    const words = calledElsewhere(plain, value, { names, input });
    if (words !== null) return { path: [name], message: words };
  }
  for (const name of unknown.slice(0, mostTypingErrors)) {
    for (const [plain, meant] of [...untimed, ...known])
      if (isNothing(input[meant]) && isTypingErrorOf(plain, singular(name)))
        return { path: [name], message: `is not known: is ${meant} meant?` };
  }
  return null;
}

/** The same for one and for several. */
const singular = (name: string) => plainly(name).replace(/s$/, '');

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
