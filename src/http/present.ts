/** What clients of the API see of each noun: every row in an answer goes through one of these. */

export * from './present/accounts.ts';
export * from './present/destinations.ts';
export * from './present/domains.ts';
export * from './present/emails.ts';
export * from './present/stats.ts';
export * from './present/suppressions.ts';
export * from './present/templates.ts';
export * from './present/webhooks.ts';
