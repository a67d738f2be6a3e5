import { z } from 'zod';

export type JsonSchema = Record<string, unknown>;

/**
 * The JSON Schema of what may be written, whatever it is parsed to. A schema that begins with code is shown as its
 * meta's `shownAs` says.
 *
 * @param named collects the schemas that have an id; what is returned refers to them
 */
export function toJsonSchema(schema: z.ZodType, named: Record<string, JsonSchema>): JsonSchema {
  const { $schema: _, $defs = {}, ...root } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  for (const [name, one] of Object.entries($defs)) named[name] = tidy(one) as JsonSchema;
  return tidy(root) as JsonSchema;
}

function tidy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(tidy);
  if (typeof value !== 'object' || value === null) return value;
  const { shownAs, ...rest } = value as JsonSchema;
  if (shownAs) return { ...(shownAs as JsonSchema), ...(rest.description ? { description: rest.description } : {}) };
  const entries = Object.entries(rest).flatMap(([name, one]) => {
    // What zod calls an integer ends where JavaScript's do.
    if (Math.abs(one as number) === Number.MAX_SAFE_INTEGER) return [];
    if (name === '$ref') return [[name, String(one).replace('#/$defs/', '#/components/schemas/')]];
    return [[name, tidy(one)]];
  });
  return withoutUnion(Object.fromEntries(entries));
}

/** `{type: ['string', 'null'], …}` for what zod makes a choice between a string and null, and one choice for one in another. */
function withoutUnion(schema: JsonSchema): JsonSchema {
  const { anyOf, ...rest } = schema;
  if (!Array.isArray(anyOf) || anyOf.length !== 2 || anyOf[1].type !== 'null') return schema;
  const { type, enum: values, ...one } = anyOf[0] as JsonSchema;
  if (Array.isArray(one.anyOf)) return { ...rest, anyOf: [...one.anyOf, { type: 'null' }] };
  if (typeof type !== 'string') return schema;
  return { ...one, ...rest, type: [type, 'null'], ...(Array.isArray(values) ? { enum: [...values, null] } : {}) };
}

export const id = (description: string) => z.string().meta({ format: 'uuid', description });
export const time = (description: string) => z.string().meta({ format: 'date-time', description });
export const words = (description: string) => z.string().describe(description);
export const flag = (description: string) => z.boolean().describe(description);
export const integer = (description: string) => z.int().min(0).describe(description);
export const list = <T extends z.ZodType>(item: T, description: string) => z.array(item).describe(description);
export const oneOf = <const T extends readonly [string, ...string[]]>(values: T, description: string) =>
  z.enum(values).describe(description);

/** What the lists have beside their entries. */
export const total = integer('How many match in all, regardless of `limit` and `offset`.');
