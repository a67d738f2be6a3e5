import { runGroup } from '../support/group.ts';

await runGroup(['flows'], { part: 2, of: 2 });
