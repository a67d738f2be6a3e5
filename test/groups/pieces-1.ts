import { runGroup } from '../support/group.ts';

await runGroup(['.', 'chores', 'core', 'db', 'delivery', 'sandbox', 'webhooks']);
