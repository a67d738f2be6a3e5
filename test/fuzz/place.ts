import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import { deriveKey } from '../../src/crypto/seal.ts';
import { startReturnsServer } from '../../src/inbound/returns-server.ts';
import { startSubmission } from '../../src/inbound/submission.ts';
import { silentLog } from '../../src/log.ts';
import { TokenBuckets } from '../../src/pace/rate-limit.ts';
import { createQueue } from '../../src/queue.ts';
import { startCaller } from '../http/scene.ts';
import { certificate, serverName } from '../inbound/scene.ts';
import { unsubscribeKey } from '../support/build.ts';
import { encryptionKey } from '../support/shared-node.ts';
import { newTurns } from '../support/turns.ts';
import type { Closing } from './target.ts';

/** One node for all targets that need one, on a real database, and the servers next to it. */
export function openPlace(closing: Closing) {
  const once = <T>(open: () => Promise<T>) => {
    let opened: Promise<T> | undefined;
    return () => {
      opened ??= open();
      return opened;
    };
  };
  // A scene takes a whole test, but uses only this part.
  const caller = once(() => startCaller(closing as Parameters<typeof startCaller>[0]));
  const listeners = once(async () => {
    const { node } = await caller();
    const queue = createQueue(node.databaseUrl, silentLog);
    await queue.start();
    const common = { db: node.db, queue, log: silentLog, tls: certificate };
    const submission = await startSubmission({
      ...common,
      fresh: new FreshBodies({ room: 0 }),
      commitTurns: newTurns(),
      host: '127.0.0.1',
      ports: { submission: 0, submissions: 0 },
      name: serverName,
      limiter: new TokenBuckets({ perSecond: 100_000, burst: 100_000 }),
    });
    const inbound = await startReturnsServer({
      ...common,
      host: serverName,
      keys: { returnPath: deriveKey(encryptionKey, 'return path'), unsubscribe: unsubscribeKey(encryptionKey) },
      listenOn: '127.0.0.1',
      port: 0,
    });
    closing.teardown(async () => {
      await Promise.all([submission.close(100), inbound.close(100)]);
      await queue.stop();
    });
    return { submissions: submission.ports.submissions ?? 0, inbound: inbound.port };
  });
  return { closing, caller, listeners };
}
