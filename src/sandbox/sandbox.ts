import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import { createResolver, type Resolver } from '../smtp/resolver.ts';
import { startDnsServer } from './dns.ts';
import { startMailbox } from './mailbox.ts';
import { sandboxZone } from './zone.ts';

export interface Sandbox {
  /** Asks the sandbox's own DNS and no other. */
  resolver: Resolver;
  mxPort: number;
  stop(): Promise<void>;
}

/** Starts the sandbox's internet on loopback: a DNS server that knows the registered domains, and the mailbox behind its MX. */
export async function startSandbox(options: {
  db: Database;
  log: Logger;
  returnPath: { key: Buffer; host: string };
  mailHostname: string;
}): Promise<Sandbox> {
  const { db, log, returnPath, mailHostname } = options;
  const dns = await startDnsServer({ answer: sandboxZone(db, mailHostname) });
  const resolver = createResolver([dns.address]);
  const resolve = async (name: string, type: string) => (await resolver.resolve(name, type)) as unknown[];
  const mailbox = await startMailbox({ db, log, returnPath, resolve }).catch(async (error: Error) => {
    await dns.close();
    throw error;
  });
  return {
    resolver,
    mxPort: mailbox.port,
    async stop() {
      await mailbox.close();
      await dns.close();
    },
  };
}
