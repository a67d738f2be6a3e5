import type { Scenario } from '../run.ts';
import { connectionsCut, databaseStopped } from './database.ts';
import { diskFull } from './disk.ts';
import { largeBodies, slowClients } from './hostile-clients.ts';
import { hostilePeers } from './hostile-peers.ts';
import { largeLog } from './large-log.ts';
import { lateDot } from './late-dot.ts';
import { clocksOff, frozenNode } from './nodes.ts';
import { randomInput } from './random-bytes.ts';
import { drain, killAlone, killOfTwo, killSameMail, killWorkers } from './random-kills.ts';
import { killAfterwards, killWhileSending } from './stages.ts';

/** The longest first, because several run at once. */
export const scenarios: Scenario[] = [
  connectionsCut,
  killAfterwards,
  frozenNode,
  killOfTwo,
  killWhileSending,
  databaseStopped,
  clocksOff,
  killAlone,
  killWorkers,
  drain,
  diskFull,
  killSameMail,
  lateDot,
  hostilePeers,
  slowClients,
  largeBodies,
  randomInput,
  largeLog,
];
