import { runGroup } from '../support/group.ts';

await runGroup(['.', 'chaos', 'chores', 'core', 'db', 'delivery', 'sandbox', 'webhooks']);
