import type { Context } from 'koa';
import type { ApiError } from '../../errors.ts';

/** Remembers what is wrong with the query until `refuseQuery`; null if nothing is. */
export function noteQueryFault(ctx: Context, fault: ApiError | null): void {
  ctx.state.queryFault = fault;
}

/**
 * Refuses the query if something is wrong with it. Called once the credential is found right, so that a wrong one is a 401
 * whatever the query has.
 *
 * @throws ApiError 400
 */
export function refuseQuery(ctx: Context): void {
  const fault = ctx.state.queryFault as ApiError | null | undefined;
  if (fault) throw fault;
}
