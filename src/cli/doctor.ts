import { examine, isWell } from '../core/doctor.ts';
import { checkNames, type Finding } from '../core/finding.ts';
import { doctorQuery } from '../http/routes/doctor.ts';
import { installationOf, lookUpOf } from '../internet.ts';
import type { Command } from './command.ts';
import { withDatabase } from './database.ts';
import { read, textOf } from './given.ts';
import { lookedUpFrom } from './surroundings.ts';

const signs = { ok: 'ok', problem: 'PROBLEM', unknown: 'unknown' };

function linesOf({ check, subject, health, found, advice }: Finding): string[] {
  const name = check.replaceAll('_', ' ');
  return [`${signs[health].padEnd(7)}  ${name}, ${subject}: ${found}`, ...(advice ? [`         -> ${advice}`] : [])];
}

export const doctor: Command = {
  summary: 'looks at all that mail depends on, and says what to do',
  help: [
    'Usage: sendwright doctor [--mx <host>]',
    '',
    `Looks at ${checkNames.map((name) => name.replaceAll('_', ' ')).join(', ')}.`,
    'It takes up to 25 seconds. The exit code is 0 where all is well, and 1 where there is something to do, which each',
    'finding says: a problem to mend, or what is unknown to find out.',
    '',
    '  --mx <host>  an MX host whose port 25 may be tried, such as that of your own mailbox; without it that of a verified',
    '               domain. Nobody else is connected to. DNS_BLOCKLISTS says which lists are asked.',
  ].join('\n'),
  options: { mx: { type: 'string' } },
  async run(env, say, given) {
    const { mx = null } = read(doctorQuery, { mx: textOf(given, 'mx') });
    return withDatabase(env, say, async (opened) => {
      const { config, db } = opened;
      const findings = await lookedUpFrom(opened, ({ internet, surroundings }) =>
        examine(
          { db, surroundings, lookUp: lookUpOf(config, internet), installation: installationOf(config, internet) },
          mx,
          { onProgress: (done, all) => given.progress(`${done} of ${all} looks done`) },
        ),
      );
      const count = (kind: Finding['health']) => findings.filter(({ health }) => health === kind).length;
      const end = isWell(findings) ? 'All is well.' : `Problems: ${count('problem')}, unknown: ${count('unknown')}.`;
      return {
        json: { well: isWell(findings), findings },
        text: [...findings.flatMap(linesOf), end].join('\n'),
        failed: !isWell(findings),
      };
    });
  },
};
