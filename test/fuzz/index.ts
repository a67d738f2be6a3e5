import { addresses } from './addresses.ts';
import { bodies } from './bodies.ts';
import { deliveries } from './deliveries.ts';
import { dkim } from './dkim.ts';
import { headers } from './headers.ts';
import { idempotency } from './idempotency.ts';
import { mime } from './mime.ts';
import { replies } from './replies.ts';
import { returned } from './returned.ts';
import { schedule } from './schedule.ts';
import { settlement } from './settlement.ts';
import { streams } from './streams.ts';
import type { Target } from './target.ts';
import { templates } from './templates.ts';
import { throttle } from './throttle.ts';

export const targets: Target[] = [
  addresses,
  headers,
  replies,
  deliveries,
  mime,
  dkim,
  returned,
  templates,
  bodies,
  streams,
  schedule,
  throttle,
  idempotency,
  settlement,
];
