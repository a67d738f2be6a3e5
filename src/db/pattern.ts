/** A pattern for `LIKE`, and for Prisma's `contains`, that matches only the text itself. */
export const literal = (text: string): string => text.replaceAll(/[\\%_]/g, '\\$&');
