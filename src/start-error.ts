/** A start that cannot go on: one line for the operator that ends in what to do. */
export class StartError extends Error {}

/**
 * The error of a start for a port that could not be listened on.
 *
 * @param names of the variables that the port and the address were set with
 * @param host null: all addresses
 */
export function portError(
  names: { port: string; host: string },
  { port, host }: { port: number; host: string | null },
  { code, message }: NodeJS.ErrnoException,
): StartError {
  if (code === 'EADDRINUSE')
    return new StartError(
      `${names.port} ${port} is in use by another program: stop it, or set ${names.port} to a free one`,
    );
  if (code === 'EACCES')
    return new StartError(
      `${names.port} ${port} needs privileges that this user does not have: set ${names.port} to 1024 or more`,
    );
  return new StartError(
    `cannot listen on ${names.host} ${host ?? '(all addresses)'} (${oneLine(message)}): set it to an address of this machine`,
  );
}

/** A message as one line, whatever its author made of it. */
export const oneLine = (message: string) =>
  message
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
    .join(' ');
