import { runGroup } from '../support/group.ts';

await runGroup(['inbound', 'client', 'cli', 'docs', 'fuzz']);
