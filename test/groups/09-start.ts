import { runGroup } from '../support/group.ts';

await runGroup(['start'], { part: 1, of: 2 });
