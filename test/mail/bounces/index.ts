import type { Bounce } from './build.ts';
import { elsewhere } from './elsewhere.ts';
import { languages } from './languages.ts';
import { microsoft } from './microsoft.ts';
import { more } from './more.ts';
import { newer } from './newer.ts';
import { others } from './others.ts';
import { providers } from './providers.ts';
import { relays } from './relays.ts';
import { servers } from './servers.ts';
import { standard } from './standard.ts';

export const bounces: Bounce[] = [
  ...standard,
  ...microsoft,
  ...providers,
  ...servers,
  ...others,
  ...languages,
  ...relays,
  ...more,
  ...elsewhere,
  ...newer,
];
