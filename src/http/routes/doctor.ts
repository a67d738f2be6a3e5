import type Router from '@koa/router';
import { z } from 'zod';
import { examine, isWell } from '../../core/operations/doctor.ts';
import type { Finding } from '../../core/operations/finding.ts';
import { demandAdmin, demandSession } from '../credentials/auth.ts';
import { domainName, parse } from '../input/validation.ts';
import type { Services } from '../services.ts';

export const doctorQuery = z.object({
  mx: domainName
    .optional()
    .describe('The MX host to test port 25 with. Omitted: that of a verified domain of this server.'),
});

/** `GET /admin/doctor`: checks everything that mail depends on. */
export function doctorRoutes(router: Router, services: Services): void {
  const operator = [demandSession(services), demandAdmin];
  /** Concurrent calls for the same host share one run, because each run costs queries to other servers. */
  const running = new Map<string, Promise<Finding[]>>();

  router.get('/admin/doctor', ...operator, async (ctx) => {
    const { mx = null } = parse(doctorQuery, ctx.query);
    const name = mx ?? '';
    const examining = running.get(name) ?? examine(services, mx).finally(() => running.delete(name));
    running.set(name, examining);
    const findings = await examining;
    ctx.body = { well: isWell(findings), checked_at: new Date().toISOString(), findings };
  });
}
