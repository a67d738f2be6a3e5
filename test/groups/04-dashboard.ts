import { runGroup } from '../support/group.ts';

await runGroup(['dashboard']);
