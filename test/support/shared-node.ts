import { testKey } from './keys.ts';
import { startTestNode, type TestNode } from './node.ts';

export const encryptionKey = testKey(7);

const started = new Map<string, Promise<TestNode>>();

/**
 * The node of these roles that all tests of this process use which look at accounts of their own only; it is stopped
 * when all of them have ended.
 */
export function sharedNode(roles: string): Promise<TestNode> {
  const known = started.get(roles);
  if (known) return known;
  // When it is asked for: programs that use a scene import this file too, and tap ends whatever takes longer than a test may.
  const node = import('tap').then(({ default: t }) =>
    startTestNode(t, { ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: roles }),
  );
  started.set(roles, node);
  return node;
}
