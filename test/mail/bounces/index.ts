import type { Bounce } from './build.ts';
import { microsoft } from './microsoft.ts';
import { others } from './others.ts';
import { providers } from './providers.ts';
import { servers } from './servers.ts';
import { standard } from './standard.ts';

export const bounces: Bounce[] = [...standard, ...microsoft, ...providers, ...servers, ...others];
