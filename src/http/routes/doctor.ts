import type Router from '@koa/router';
import { z } from 'zod';
import { examine, examineMachine, isWell } from '../../core/operations/doctor.ts';
import type { Finding } from '../../core/operations/finding.ts';
import { demandAdmin, demandSession } from '../credentials/auth.ts';
import { domainName, oneOf, parse } from '../input/validation.ts';
import type { Services } from '../services.ts';

export const doctorQuery = z
  .object({
    mx: domainName
      .optional()
      .describe('The MX host to test port 25 with. Omitted: that of a verified domain of this server.'),
    only: oneOf(['machine'])
      .optional()
      .describe(
        '`machine`: only what can go wrong on the machine that answers while the service runs, and needs no other server: the clock, the disk, the rights in the database and the certificate of the SMTP ports. It takes a moment.',
      ),
  })
  .refine(({ mx, only }) => mx === undefined || only === undefined, {
    path: ['mx'],
    message: 'is tested only without `only`',
  });

/** `GET /admin/doctor`: checks everything that mail depends on. */
export function doctorRoutes(router: Router, services: Services): void {
  const operator = [demandSession(services), demandAdmin];
  /** Concurrent calls for the same host share one run, because each run costs queries to other servers. */
  const running = new Map<string, Promise<Finding[]>>();

  const examineAll = (mx: string | null) => {
    const name = mx ?? '';
    const examining = running.get(name) ?? examine(services, mx).finally(() => running.delete(name));
    running.set(name, examining);
    return examining;
  };

  router.get('/admin/doctor', ...operator, async (ctx) => {
    const { mx = null, only } = parse(doctorQuery, ctx.query);
    const findings =
      only === 'machine' ? await examineMachine(services.db, services.installation) : await examineAll(mx);
    ctx.body = { well: isWell(findings), checked_at: services.clock.now().toISOString(), findings };
  });
}
