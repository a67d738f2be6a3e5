import type { Socket } from 'node:net';
import type { SMTPServer } from 'smtp-server';
import type { Logger } from '../log.ts';
import { Trouble } from '../trouble.ts';

/** A health check that only connects is over before that. */
const mostOfACheckMs = 2_000;

/**
 * Logs that a proxy's connection ended without the header that it has to begin with. Otherwise nobody would hear of it: the
 * client waits for a greeting in vain, and the proxy takes the port for a working one.
 */
export function reportMissingHeaders(server: SMTPServer, log: Logger): void {
  const trouble = new Trouble(log, { failing: 'a connection from SMTP_PROXIES has no PROXY header, version 1' });
  const handle = server._handleProxy.bind(server);
  server._handleProxy = (socket: Socket, callback) => {
    const { remoteAddress: from } = socket;
    const begunAt = performance.now();
    handle(socket, (error, options) => {
      const isCheck = socket.bytesRead === 0 && performance.now() - begunAt < mostOfACheckMs;
      if (error && !isCheck) trouble.failed(error, { from, ms: Math.round(performance.now() - begunAt) });
      callback(error, options);
    });
  };
}
