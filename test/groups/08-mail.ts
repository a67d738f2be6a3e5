import { runGroup } from '../support/group.ts';

await runGroup(['mail', 'smtp']);
