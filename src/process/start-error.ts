/** A start that cannot go on: one line for the operator that ends in what to do. */
export class StartError extends Error {}

/** How an operator raises the limit of open files. */
export const howToRaise = 'with ulimit -n, LimitNOFILE= in a systemd unit, or ulimits with Docker';

/** Whether the system lets this process open no more files and sockets. */
export const isOutOfFiles = ({ code }: NodeJS.ErrnoException): boolean => code === 'EMFILE' || code === 'ENFILE';

/** The start error for that; null for any other error. */
export function outOfFiles(error: NodeJS.ErrnoException): StartError | null {
  if (!isOutOfFiles(error)) return null;
  return new StartError(`too many files are open (${error.code}): raise the limit to 1024 or more, ${howToRaise}`);
}

/** A port, with the variable that it was set with. */
interface NamedPort {
  name: string;
  port: number;
}

/** Ports that other programs listen on. */
export class TakenPorts extends StartError {
  readonly ports: NamedPort[];

  constructor(ports: NamedPort[]) {
    const named = ports.map(({ name, port }) => `${name} ${port}`);
    super(
      ports.length === 1
        ? `${named[0]} is in use by another program: stop it, or set ${ports[0]?.name} to a free one`
        : `${named.slice(0, -1).join(', ')} and ${named.at(-1)} are in use by other programs: stop them, or set these variables to free ports`,
    );
    this.ports = ports;
  }
}

/**
 * Opens ports one after the other, the others even if one cannot be opened. If that fails, closing those that were opened is up
 * to the caller.
 *
 * @throws TakenPorts with every port that other programs listen on, or the last error of another kind
 */
export async function openAll<Opened extends readonly unknown[]>(
  openings: {
    [At in keyof Opened]: () => Promise<Opened[At]>;
  },
): Promise<Opened> {
  const opened: unknown[] = [];
  const failed: unknown[] = [];
  for (const open of openings)
    await open().then(
      (one) => opened.push(one),
      (error: unknown) => failed.push(error),
    );
  const taken = failed.filter((error) => error instanceof TakenPorts);
  // The last: SMTP_HOST is taken from HTTP_HOST, whose port is opened after those of SMTP and names the one that is set.
  if (taken.length < failed.length) throw failed.findLast((error) => !(error instanceof TakenPorts));
  if (taken.length > 0) throw new TakenPorts(taken.flatMap(({ ports }) => ports));
  return opened as unknown as Opened;
}

/**
 * The error of a start for a port that could not be listened on.
 *
 * @param names of the variables that the port and the address were set with
 * @param host null: all addresses
 */
export function portError(
  names: { port: string; host: string },
  { port, host }: { port: number; host: string | null },
  error: NodeJS.ErrnoException,
): StartError {
  const { code, message } = error;
  if (code === 'EADDRINUSE') return new TakenPorts([{ name: names.port, port }]);
  if (code === 'EACCES')
    return new StartError(
      `${names.port} ${port} needs privileges that this user does not have: set ${names.port} to 1024 or more`,
    );
  return (
    outOfFiles(error) ??
    new StartError(
      `cannot listen on ${names.host} ${host ?? '(all addresses)'} (${oneLine(message)}): set it to an address of this machine`,
    )
  );
}

/** A message as one line, whatever its author made of it. */
export const oneLine = (message: string) =>
  message
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
    .join(' ');
