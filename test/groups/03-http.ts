import { runGroup } from '../support/group.ts';

await runGroup(['http'], { part: 1, of: 2 });
