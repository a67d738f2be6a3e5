import { runGroup } from '../support/group.ts';

await runGroup(['flows'], { part: 1, of: 2 });
