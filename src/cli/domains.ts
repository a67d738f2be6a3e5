import * as accounts from '../core/accounts/accounts.ts';
import * as domains from '../core/domains/domains.ts';
import { type Checks, check, type RecordName, type Surroundings } from '../core/domains/record-checks.ts';
import { verify } from '../core/domains/verification.ts';
import type { Database } from '../db/client.ts';
import { ApiError } from '../errors.ts';
import type { Domain } from '../generated/prisma/client.ts';
import * as present from '../http/present.ts';
import { newDomain } from '../http/routes/domains.ts';
import type { Command, Output } from './command.ts';
import { demandEncryptionKey, withDatabase } from './database.ts';
import { isSet, read, textOf } from './given.ts';
import { withLookups } from './lookups.ts';
import { table } from './table.ts';
import { accountOf } from './whose.ts';

const shown = (domain: Domain) => present.withAccount(present.domain(domain), domain);

/** Of all accounts. */
const mostListed = 1_000;

export const listDomains: Command = {
  help: [
    'Usage: sendwright domains list [--account <account>]',
    '',
    'Lists at most 1,000 domains of all accounts, or those of one account. WARNING is what the last daily check of a verified',
    'domain found; sendwright domains check looks now.',
    '',
    '  --account <account>  its id, or the email address of one of its users',
  ].join('\n'),
  options: { account: { type: 'string' } },
  async run(env, say, given) {
    return withDatabase(env, say, async ({ db }) => {
      const account = textOf(given, 'account');
      const some =
        account !== undefined
          ? await domains.list(db, (await accounts.find(db, account)).id)
          : await domains.listAll(db, { limit: mostListed + 1 });
      const found = account === undefined ? some.slice(0, mostListed) : some;
      if (found.length < some.length) say('Older domains are not shown: see --account.');
      const rows = found.map((one) => [one.domain, one.status, one.accountId, one.dnsWarning]);
      return {
        json: { domains: found.map(shown) },
        text: table(['DOMAIN', 'STATUS', 'ACCOUNT', 'WARNING'], rows, 'There are no domains.'),
      };
    });
  },
};

export const addDomain: Command = {
  help: [
    'Usage: sendwright domains add <domain> [--account <account>] [--tls <level>]',
    '',
    '  --account <account>  its id, or the email address of one of its users; the default is that of the first admin',
    '  --tls <level>        opportunistic (the default), required or verified',
    '',
    'Only the records are written to standard output.',
  ].join('\n'),
  operands: ['domain'],
  options: { account: { type: 'string' }, tls: { type: 'string' } },
  async run(env, say, given) {
    const input = read(newDomain, { domain: given.operands[0], tls: textOf(given, 'tls') });
    return withDatabase(env, say, async (opened) => {
      const { db, config, keyring } = opened;
      const { id } = await accountOf(db, textOf(given, 'account'));
      await demandEncryptionKey(opened);
      const domain = await domains.add(db, id, input, keyring);
      const records = domains.dnsRecords(domain, config.mailHostname, config.sendingIps);
      const recommended = domains.recommendedRecords(domain, config.mailHostname, []);
      say(`Publish these records, then run sendwright domains check ${domain.domain} --verify`);
      return {
        json: { domain: shown(domain), dns_records: records, recommended_records: recommended },
        text: table(
          ['TYPE', 'NAME', 'VALUE'],
          Object.values(records).map(({ type, name, value }) => [type, name, value]),
          '',
        ),
      };
    });
  },
};

export const checkDomain: Command = {
  help: [
    'Usage: sendwright domains check <domain> [--account <account>] [--verify]',
    '',
    'Shows what is wrong with each of the three records. The exit code is 1 if one of them is wrong.',
    '',
    '  --account <account>  the account, if several have registered the domain; the default is the one that has it verified',
    '  --verify             marks the domain as verified if all records are right, as POST /api/v1/domains/:id/verify does',
  ].join('\n'),
  operands: ['domain'],
  options: { account: { type: 'string' }, verify: { type: 'boolean' } },
  async run(env, say, given) {
    return withDatabase(env, say, async (opened) => {
      const { db } = opened;
      const account = textOf(given, 'account');
      const accountId = account !== undefined ? (await accounts.find(db, account)).id : null;
      const domain = await domains.findByName(db, given.operands[0] ?? '', accountId);
      given.progress(`Looking up the records of ${domain.domain}`);
      await demandEncryptionKey(opened);
      return withLookups(opened, async ({ surroundings }) =>
        isSet(given, 'verify')
          ? verifyDomain(db, domain, surroundings)
          : outputOf(domain, await check(domain, surroundings)),
      );
    });
  },
};

async function verifyDomain(db: Database, domain: Domain, surroundings: Surroundings): Promise<Output> {
  try {
    const verified = await verify(db, domain.accountId, domain.id, surroundings);
    return outputOf(verified.domain, verified.checks);
  } catch (error) {
    if (!(error instanceof ApiError) || !error.extra.checks) throw error;
    return { ...outputOf(domain, error.extra.checks as Checks), failed: true };
  }
}

function outputOf(domain: Domain, checks: Checks): Output {
  const records = Object.entries(checks) as [RecordName, Checks[RecordName]][];
  const lines = records.flatMap(([record, { ok, problem, expected, name, found }]) =>
    ok
      ? [`ok       ${record}`]
      : [
          `problem  ${record}: ${problem}`,
          `         at ${name}, expected: ${expected}`,
          ...found.map((text) => `         found: ${text}`),
        ],
  );
  return {
    json: {
      domain: shown(domain),
      checks: Object.fromEntries(records.map(([record, result]) => [record, present.check(result)])),
    },
    text: [`${domain.domain} is ${domain.status}`, ...lines].join('\n'),
    failed: records.some(([, { ok }]) => !ok),
  };
}
