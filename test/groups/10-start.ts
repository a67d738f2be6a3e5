import { runGroup } from '../support/group.ts';

await runGroup(['start'], { part: 2, of: 2 });
