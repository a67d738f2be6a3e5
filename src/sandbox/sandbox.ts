import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import { createResolver, type Resolver, resolveWith } from '../smtp/dns/resolver.ts';
import { startDnsServer } from './dns.ts';
import { startMailbox } from './mailbox.ts';
import { type ReturnPlace, Returns } from './returns.ts';
import { loopback, mailboxHost, noTlsHost, sandboxZone } from './zone.ts';

export interface Sandbox {
  /** Asks only the sandbox's own DNS. */
  resolver: Resolver;
  mxPort: number;
  /** Sets where bounces and complaints are sent; before this call none are sent. */
  sendReturnsTo(place: ReturnPlace): void;
  stop(): Promise<void>;
}

/** Starts the sandbox's internet on loopback: a DNS server that knows the registered domains, and the mailbox behind their MX. */
export async function startSandbox(options: {
  db: Database;
  log: Logger;
  returnPath: { key: Buffer; host: string };
  mailHostname: string;
}): Promise<Sandbox> {
  const { db, log, returnPath, mailHostname } = options;
  const hosts = new Map([mailboxHost, mailHostname].map((name) => [name, loopback]));
  const dns = await startDnsServer({ answer: sandboxZone(db, hosts, mailHostname) });
  const resolver = createResolver([dns.address]);
  const returns = new Returns(log);
  const mailbox = await startMailbox({ db, log, returnPath, resolve: resolveWith(resolver), returns }).catch(
    async (error: Error) => {
      await dns.close();
      throw error;
    },
  );
  if (mailbox.noTlsAddress !== null) hosts.set(noTlsHost, mailbox.noTlsAddress);
  return {
    resolver,
    mxPort: mailbox.port,
    sendReturnsTo(place) {
      returns.place = place;
    },
    async stop() {
      await mailbox.close();
      await returns.stop();
      await dns.close();
    },
  };
}
