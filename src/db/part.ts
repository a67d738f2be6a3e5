/** A part of a list; without a limit, all of it. */
export interface Part {
  limit?: number | undefined;
  offset?: number;
}

/** A part as Prisma's arguments. */
export const taking = ({ limit, offset = 0 }: Part) => ({
  skip: offset,
  ...(limit === undefined ? {} : { take: limit }),
});
