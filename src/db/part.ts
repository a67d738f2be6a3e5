/** Some of a list, which is answered whole where no limit is given. */
export interface Part {
  limit?: number | undefined;
  offset?: number;
}

/** A part in the words of Prisma. */
export const taking = ({ limit, offset = 0 }: Part) => ({
  skip: offset,
  ...(limit === undefined ? {} : { take: limit }),
});
