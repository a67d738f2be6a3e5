import { testKey } from './keys.ts';
import { startTestNode, type TestNode } from './node.ts';

export const encryptionKey = testKey(7);

const started = new Map<string, Promise<TestNode>>();

/**
 * The node with these roles, shared by all tests of this process that look only at their own accounts; it is stopped
 * after the last of them.
 */
export function sharedNode(roles: string): Promise<TestNode> {
  const known = started.get(roles);
  if (known) return known;
  // Only on request: programs that use a scene import this file too, and tap ends anything that takes longer than a
  // test may.
  const node = import('tap').then(({ default: t }) =>
    startTestNode(t, { ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: roles }),
  );
  started.set(roles, node);
  return node;
}
