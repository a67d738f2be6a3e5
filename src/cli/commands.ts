import type { Command } from './command.ts';

/** A command in the list of all. */
interface Listed {
  /** What it does, in one line without a full stop. */
  summary: string;
  /** Its code, which is loaded once it is called: no command needs that of the others. */
  load(): Promise<Command>;
}

/** Every command of `sendwright`, by the words that call it, in the order of the usage. */
export const commands: Record<string, Listed> = {
  start: {
    summary: 'runs the service until it is stopped',
    load: async () => (await import('./start.ts')).start,
  },
  migrate: {
    summary: 'brings the schema of the database up to date',
    load: async () => (await import('./migrate.ts')).migrate,
  },
  doctor: {
    summary: 'checks everything that mail depends on, and says what to fix',
    load: async () => (await import('./doctor.ts')).doctor,
  },
  'accounts list': {
    summary: 'lists all accounts, newest first or by usage',
    load: async () => (await import('./accounts.ts')).listAccounts,
  },
  'accounts create': {
    summary: 'creates an account with its first user',
    load: async () => (await import('./accounts.ts')).createAccount,
  },
  'accounts suspend': {
    summary: 'suspends an account: no logins, no new mail, and its queued mail fails',
    load: async () => (await import('./accounts.ts')).suspendAccount,
  },
  'accounts resume': {
    summary: 'reactivates a suspended account',
    load: async () => (await import('./accounts.ts')).resumeAccount,
  },
  'accounts plan': {
    summary: 'changes the plan of an account',
    load: async () => (await import('./accounts.ts')).changePlan,
  },
  'accounts export': {
    summary: 'exports all data of an account, as lines of JSON',
    load: async () => (await import('./export-account.ts')).exportAccount,
  },
  'accounts erase-recipient': {
    summary: "erases what is stored about one recipient of an account's mail",
    load: async () => (await import('./erase-recipient.ts')).eraseRecipient,
  },
  'users list': {
    summary: 'lists the users of all accounts, or of one',
    load: async () => (await import('./users.ts')).listUsers,
  },
  'users add': {
    summary: 'adds a user to an account',
    load: async () => (await import('./users.ts')).addUser,
  },
  'users password': {
    summary: 'sets another password for a user, for example after one was lost',
    load: async () => (await import('./users.ts')).setPassword,
  },
  'users remove': {
    summary: 'removes a user, who can no longer log in',
    load: async () => (await import('./users.ts')).removeUser,
  },
  'keys list': {
    summary: 'lists the API keys of an account, newest first',
    load: async () => (await import('./keys.ts')).listKeys,
  },
  'keys create': {
    summary: 'creates an API key, which is shown once',
    load: async () => (await import('./keys.ts')).createKey,
  },
  'keys revoke': {
    summary: 'revokes an API key on every node at once',
    load: async () => (await import('./keys.ts')).revokeKey,
  },
  'keys rotate-encryption': {
    summary: 're-encrypts every secret in the database with a new ENCRYPTION_KEY, while nodes run',
    load: async () => (await import('./rotate-encryption.ts')).rotateEncryption,
  },
  'domains list': {
    summary: 'lists sending domains, newest first',
    load: async () => (await import('./domains.ts')).listDomains,
  },
  'domains add': {
    summary: 'adds a sending domain, and shows the DNS records to publish',
    load: async () => (await import('./domains.ts')).addDomain,
  },
  'domains check': {
    summary: 'looks up the DNS records of a domain now',
    load: async () => (await import('./domains.ts')).checkDomain,
  },
  'emails stop': {
    summary: 'stops waiting mail of an account, such as half a newsletter',
    load: async () => (await import('./stop-emails.ts')).stopEmails,
  },
  'queue list': {
    summary: 'lists destinations and the mail that waits for them',
    load: async () => (await import('./queue.ts')).listQueue,
  },
  'queue pause': {
    summary: 'stops delivery to a destination until it is resumed',
    load: async () => (await import('./queue.ts')).pauseDestination,
  },
  'queue resume': {
    summary: 'resumes delivery to a paused destination',
    load: async () => (await import('./queue.ts')).resumeDestination,
  },
  'queue flush': {
    summary: 'tries all mail that waits for a destination now',
    load: async () => (await import('./queue.ts')).flushDestination,
  },
  'queue stop': {
    summary: 'gives up all mail that waits for a domain',
    load: async () => (await import('./give-up.ts')).stopDestination,
  },
  'suppressions import': {
    summary: 'adds the addresses of a CSV file to the suppression list',
    load: async () => (await import('./suppressions.ts')).importSuppressions,
  },
  hold: {
    summary: 'stops all sending, on every node, until sendwright release',
    load: async () => (await import('./hold.ts')).beginHold,
  },
  release: {
    summary: 'ends a hold and sends again',
    load: async () => (await import('./hold.ts')).endHold,
  },
  send: {
    summary: 'accepts an email, which a running node delivers',
    load: async () => (await import('./send.ts')).send,
  },
};
