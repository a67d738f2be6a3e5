import type Router from '@koa/router';
import { answerInTime } from '../../db/answers.ts';
import { stopping, unavailable } from '../../errors.ts';
import type { Services } from '../services.ts';

/**
 * `GET /healthz`: the process responds. `GET /readyz`: so does the database, which has the tables of the queue, can be written
 * to and has not run out of disk space; and the node is not about to stop.
 */
export function healthRoutes(router: Router, { db, isStopping }: Services): void {
  router.get('/healthz', (ctx) => {
    ctx.body = { status: 'ok' };
  });

  router.get('/readyz', async (ctx) => {
    if (isStopping()) throw stopping();
    if (db.isDiskFull()) throw unavailable('the disk of the database is full');
    const text = `SELECT current_setting('transaction_read_only') AS "readOnly" FROM accounts, pgboss.version LIMIT 1`;
    const asked = db.query<{ readOnly: string }>({ text }).then(
      ([row]) => row?.readOnly !== 'on',
      () => false,
    );
    // Statements wait for a database that silently vanished; a load balancer should get its answer sooner.
    if (!(await answerInTime(asked, false))) throw unavailable('the database does not answer, or cannot be written to');
    ctx.body = { status: 'ready' };
  });
}
