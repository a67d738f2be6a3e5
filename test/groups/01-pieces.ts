import { runGroup } from '../support/group.ts';

await runGroup([
  '.',
  'chaos',
  'chores',
  'config',
  'core',
  'crypto',
  'db',
  'delivery',
  'node',
  'pace',
  'process',
  'sandbox',
  'webhooks',
]);
