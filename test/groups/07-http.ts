import { runGroup } from '../support/group.ts';

await runGroup(['http'], { part: 2, of: 2 });
