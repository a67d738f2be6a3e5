import type { IconName } from './look/icons.tsx';

export interface PageEntry {
  path: string;
  name: string;
  icon: IconName;
  /** Pressed after `g`, goes there. */
  letter: string;
  group: 'Sending' | 'Set up' | 'Server' | null;
  /** Shown only to operators, or only in the sandbox. */
  only?: 'admin' | 'sandbox';
}

/** All pages of the navigation, in its order. */
export const entries: PageEntry[] = [
  { path: '/start', name: 'Start', icon: 'start', letter: 's', group: null },
  { path: '/overview', name: 'Overview', icon: 'overview', letter: 'o', group: null },
  { path: '/emails', name: 'Emails', icon: 'emails', letter: 'e', group: 'Sending' },
  { path: '/sandbox', name: 'Sandbox mailbox', icon: 'sandbox', letter: 'm', group: 'Sending', only: 'sandbox' },
  { path: '/templates', name: 'Templates', icon: 'templates', letter: 't', group: 'Sending' },
  { path: '/suppressions', name: 'Suppressions', icon: 'suppressions', letter: 'u', group: 'Sending' },
  { path: '/domains', name: 'Domains', icon: 'domains', letter: 'd', group: 'Set up' },
  { path: '/keys', name: 'API keys', icon: 'keys', letter: 'k', group: 'Set up' },
  { path: '/webhooks', name: 'Webhooks', icon: 'webhooks', letter: 'w', group: 'Set up' },
  { path: '/destinations', name: 'Destinations', icon: 'destinations', letter: 'n', group: 'Server', only: 'admin' },
  { path: '/accounts', name: 'Accounts', icon: 'accounts', letter: 'a', group: 'Server', only: 'admin' },
  { path: '/doctor', name: 'Before going live', icon: 'doctor', letter: 'b', group: 'Server', only: 'admin' },
  { path: '/settings', name: 'Settings', icon: 'settings', letter: ',', group: 'Server' },
];

export const visible = ({ only }: PageEntry, { admin, sandbox }: { admin: boolean; sandbox: boolean }): boolean =>
  only === undefined || (only === 'admin' ? admin : sandbox);
