import { createHash } from 'node:crypto';
import { type Hook, startHook } from '../support/hook.ts';
import type { Ledger } from './ledger.ts';
import { Traps } from './traps.ts';

/** A webhook endpoint whose ledger records each call before its answer; `called` runs before the answer. */
export interface Endpoint {
  url: string;
  traps: Traps<'called', string>;
  close(): Promise<void>;
}

export async function startEndpoint(ledger: Ledger): Promise<Endpoint> {
  const traps = new Traps<'called', string>();
  const nobody = { teardown: () => undefined };
  const hook: Hook = await startHook(nobody, async ({ headers, body, json }) => {
    const id = String(headers['webhook-id'] ?? headers['x-service-webhook-id']);
    const sha256 = createHash('sha256').update(body).digest('hex');
    ledger.write({ is: 'called', id, event: json.type, emailId: json.data.email_id, sha256 });
    await traps.pass('called', json.type);
    ledger.write({ is: 'told', id });
    return 200;
  });
  return {
    url: hook.url,
    traps,
    close() {
      traps.liftAll();
      return hook.close();
    },
  };
}
