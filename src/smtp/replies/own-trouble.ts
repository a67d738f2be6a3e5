/**
 * Troubles of this server with every host. Others that look alike say something about one address: without IPv6 it is EADDRNOTAVAIL,
 * and EACCES is also what a distant firewall's "prohibited" becomes over IPv6.
 */
const ownTroubles: Record<string, string> = {
  EMFILE: 'this server has no free file descriptors',
  ENFILE: 'this server has no free file descriptors',
  ENOBUFS: 'this server has no memory for connections',
  ENOMEM: 'this server has no memory for connections',
};

/** The code of an error of the system or of c-ares, such as `ECONNREFUSED`; null if it has none. */
export const systemCodeOf = (error: unknown): string | null =>
  error instanceof Error && 'code' in error ? String(error.code) : null;

/** What kept this server from even opening a socket, as a clause; null: something else went wrong. */
export function ownTrouble(error: unknown): string | null {
  const code = systemCodeOf(error);
  const what = code === null ? undefined : ownTroubles[code];
  return what === undefined ? null : `${what} (${code})`;
}
