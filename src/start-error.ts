/** A start that cannot go on: one line for the operator, which ends in what to do. */
export class StartError extends Error {}

/** A message as one line, whatever its author made of it. */
export const oneLine = (message: string) =>
  message
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
    .join(' ');
