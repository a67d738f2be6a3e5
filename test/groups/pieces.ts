import { runGroup } from '../support/group.ts';

await runGroup(['.', 'chores', 'core', 'db', 'delivery', 'mail', 'sandbox', 'smtp', 'webhooks']);
